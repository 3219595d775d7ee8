"""From events to state: `reduce` applies a run's events and nothing else.

The reducer knows no rule of the scheduler. It never sorts, searches or chooses: each event carries
the ids and positions it needs (`core.trace.events`). If its state equals the engine's own snapshot
after every step, the events are complete, and a recorded run can stand in for a live engine.

An event that does not fit the state (a block freed twice, an unknown sequence) raises RunError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from core.errors import RunError
from core.linked_ids import LinkedIds
from core.request import GIVEN_BACK

Json = dict[str, Any]


class FreeOrder:
    """Block ids in the order in which they would be taken."""

    def __init__(self, num_blocks: int) -> None:
        self._links = LinkedIds(num_blocks)
        self._links.fill()
        self._is_free = bytearray(b"\x01" * num_blocks)

    def __iter__(self) -> Iterator[int]:
        return iter(self._links)

    def replace(self, order: list[int]) -> None:
        """Start again with these blocks, in this order."""
        if len(set(order)) < len(order):
            raise RunError("a block stands twice in the free order")
        for block in list(self._links):
            self.remove(block)
        for block in order:
            self.insert(block, "back", -1)

    def remove(self, block: int) -> None:
        if not self._is_free[block]:
            raise RunError(f"block {block} is not free")
        self._is_free[block] = 0
        self._links.remove(block)

    def insert(self, block: int, to: str, before: int) -> None:
        """Put a block at the ``front``, the ``back``, or ``before`` another (−1: the back)."""
        if self._is_free[block]:
            raise RunError(f"block {block} is free already")
        if to == "front":
            after = self._links.first()
        elif to == "back" or before < 0:
            after = self._links.end
        elif self._is_free[before]:
            after = before
        else:
            raise RunError(f"block {before} is not free")
        self._is_free[block] = 1
        self._links.insert(block, after)


class Reducer:
    """The state of a run after the steps applied so far.

    Attributes are what `--state` shows, in Python types: `block_tables`, `ref_counts`, `free`,
    `cached`, `nodes`, `waiting` and `running` (queue entries), `outputs`. `prompts`: token ids by
    request, the only thing that it knows beside the events. A header with `initial_state` is that
    of a run that begins in the middle of an engine's life.
    """

    def __init__(self, header: Json) -> None:
        engine = header["scenario"]["engine"]
        self.step = -1
        self.block_size: int = engine["block_size"]
        self._kv_cache: bool = engine.get("kv_cache", True)
        self.prompts: dict[str, list[int]] = header["prompts"]
        self.block_tables: dict[str, list[int]] = {}
        self.ref_counts = [0] * engine["num_blocks"]
        self.free = FreeOrder(engine["num_blocks"])
        self._num_in_use = 0
        self._num_idle = 0  # cached and without references
        self.cached: dict[int, Json] = {}
        self.nodes: dict[int, Json] = {}
        self.waiting: list[str] = []
        self.running: list[str] = []
        self.outputs: dict[str, list[int]] = {}
        self.num_computed_tokens: dict[str, int] = {}
        self._units: dict[str, list[str]] = {}  # entry → ids of its request, until it forks
        self._twins: dict[str, list[str]] = {}  # entry → its twins, in the step of the fork
        self._apply: dict[str, Callable[[Json], None]] = {
            name.removeprefix("_on_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_on_")
        }
        if header.get("initial_state") is not None:
            self._begin(header["initial_state"])

    def _begin(self, state: Json) -> None:
        """Start from a state of the engine instead of an empty one. Raises RunError."""
        try:
            self.free.replace(state["free_order"])
            for block, refs in state["ref_counts"].items():
                self.ref_counts[int(block)] = refs
            self.cached = {int(block): {**e, "node": None} for block, e in state["cached"].items()}
            for node in state["tree"]:
                self.nodes[node["id"]] = {"parent": node["parent"], "blocks": list(node["blocks"])}
                for block in node["blocks"]:
                    self.cached[block]["node"] = node["id"]
            self.block_tables = {name: list(t) for name, t in state["block_tables"].items()}
            self.outputs = {name: list(tokens) for name, tokens in state["outputs"].items()}
            for entry, known in state["sequences"].items():
                self.num_computed_tokens[entry] = known["num_computed_tokens"]
                if len(known["stands_for"]) > 1:
                    self._units[entry] = list(known["stands_for"])
            for queue in ("waiting", "running"):
                names = state[queue]
                stood_for = {n for unit in self._units.values() for n in unit[1:]}
                setattr(self, queue, [name for name in names if name not in stood_for])
            self._num_in_use = sum(refs > 0 for refs in self.ref_counts)
            self._num_idle = sum(not self.ref_counts[block] for block in self.cached)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError) as exc:
            raise RunError(f"header.initial_state is none: {exc!r}") from None

    def forget(self, request: str, sequences: list[str]) -> None:
        """Drop what is known of a request that has ended and gives its id to another."""
        self.prompts.pop(request, None)
        for name in sequences:
            self.outputs.pop(name, None)
            self.num_computed_tokens.pop(name, None)

    def apply_step(self, record: Json) -> None:
        """Apply one step of a run. Raises RunError, naming step and event."""
        self.step = record["step"]
        if "prompts" in record:  # of requests that joined a live run after its header was written
            self.prompts = {**self.prompts, **record["prompts"]}
        for i, event in enumerate(record["events"]):
            apply = self._apply.get(event["type"])
            try:
                if apply is not None:
                    apply(event)
            except RunError as exc:
                where = f"step {self.step}, event {i} ({event['type']})"
                raise RunError(f"{where}: {exc}") from None
            except (KeyError, IndexError, ValueError, TypeError) as exc:
                where = f"step {self.step}, event {i} ({event['type']})"
                raise RunError(f"{where} does not fit the state: {exc!r}") from None
        for sequence, share in record["scheduled"].items():
            if sequence not in self.num_computed_tokens:
                raise RunError(f"step {self.step}: unknown sequence {sequence!r} is scheduled")
            for name in self._twins.get(sequence, [sequence]):
                self.num_computed_tokens[name] = sum(share.values()) if self._kv_cache else 0
        self._twins.clear()

    def usage(self) -> Json:
        """Blocks free (unmatchable), cached (matchable, idle) and in use."""
        free = len(self.ref_counts) - self._num_in_use - self._num_idle
        return {"free": free, "cached": self._num_idle, "in_use": self._num_in_use}

    def state(self) -> Json:
        """The state as `--state` shows it (see `core.trace.run`)."""
        cached = {}
        for block in sorted(self.cached):
            entry = self.cached[block]
            refs = self.ref_counts[block]
            cached[str(block)] = {
                "tokens": list(entry["tokens"]),
                "key": entry["key"],
                "parent_key": entry["parent_key"],
                "last_used": self.step if refs else entry["last_used"],
                "lock_ref": refs,
                "hits": entry["hits"],
            }
        return {
            "block_tables": {name: list(table) for name, table in self.block_tables.items()},
            "ref_counts": {str(b): n for b, n in enumerate(self.ref_counts) if n},
            "free_order": list(self.free),
            "cached": cached,
            "tree": [self._node(node) for node in sorted(self.nodes)],
            "waiting": self._expand(self.waiting),
            "running": self._expand(self.running),
            "outputs": {name: list(tokens) for name, tokens in self.outputs.items()},
        }

    def _node(self, node: int) -> Json:
        entry = self.nodes[node]
        last = entry["blocks"][-1]
        refs = self.ref_counts[last]
        return {
            "id": node,
            "parent": entry["parent"],
            "tokens": [t for b in entry["blocks"] for t in self.cached[b]["tokens"]],
            "blocks": list(entry["blocks"]),
            "lock_ref": refs,
            "last_used": self.step if refs else self.cached[last]["last_used"],
        }

    def _expand(self, entries: list[str]) -> list[str]:
        return [name for entry in entries for name in self._units.get(entry, [entry])]

    # ---- queues -------------------------------------------------------------------------------

    def _on_request_arrived(self, event: Json) -> None:
        position = event.get("position")
        if position is None:
            return
        names = event["sequences"]
        self.waiting.insert(position, names[0])
        for name in names:
            self.outputs[name] = []
        self.num_computed_tokens[names[0]] = 0
        if len(names) > 1:
            self._units[names[0]] = list(names)

    def _on_admitted(self, event: Json) -> None:
        self.waiting.remove(event["sequence"])
        self.running.append(event["sequence"])
        self.num_computed_tokens[event["sequence"]] = event["num_cached_tokens"]

    _on_resumed = _on_admitted

    def _on_preempted(self, event: Json) -> None:
        beams = event.get("sequences")
        for name in beams or [event["sequence"]]:
            self.running.remove(name)
        self.waiting.insert(event["position"], event["sequence"])
        self.num_computed_tokens[event["sequence"]] = 0
        if beams:
            self._units[event["sequence"]] = list(beams)

    def _on_token_sampled(self, event: Json) -> None:
        self.outputs[event["sequence"]].append(event["token"])

    def _on_forked(self, event: Json) -> None:
        first, *twins = event["sequences"]
        self.num_computed_tokens |= dict.fromkeys(twins, self.num_computed_tokens[first])
        if "position" in event:  # a request that arrives: the step has computed nothing yet
            place = event["position"]
        else:  # if the first one is computed in this very step, so are they
            place = self.running.index(first) + 1
            self._units.pop(first, None)
            self._twins.setdefault(first, [first]).extend(twins)
        self.running[place:place] = twins
        table = self.block_tables.get(first, [])
        for twin in twins:
            if table:
                self.block_tables[twin] = list(table)
            for block in (held for held in table if held != GIVEN_BACK):
                self._hold(block)
            if event.get("copies_outputs"):
                self.outputs[twin] = list(self.outputs[first])

    def _on_pruned(self, event: Json) -> None:
        self.running.remove(event["sequence"])

    def _on_finished(self, event: Json) -> None:
        name = event["sequence"]
        self._units.pop(name, None)
        if event.get("holds"):
            return
        if name in self.waiting:
            self.waiting.remove(name)
        elif name in self.running:
            self.running.remove(name)

    # ---- blocks -------------------------------------------------------------------------------

    def _on_blocks_allocated(self, event: Json) -> None:
        for block in event["blocks"]:
            self._hold(block)
        if event["reason"] != "copy_on_write":
            self.block_tables.setdefault(event["sequence"], []).extend(event["blocks"])

    def _on_block_shared(self, event: Json) -> None:
        blocks, index = event["blocks"], event["index"]
        for block in blocks:
            self._hold(block)
            if event["cause"] == "hit":
                self.cached[block]["hits"] += 1
        table = self.block_tables.setdefault(event["sequence"], [])
        if index > len(table):  # entries that a sliding window does not reach
            tokens = len(self.prompts[event["request"]]) + len(self.outputs[event["sequence"]])
            if index * self.block_size > tokens:
                raise RunError(f"entry {index} of a table lies behind all {tokens} tokens")
            table.extend([GIVEN_BACK] * (index - len(table)))
        table[index : index + len(blocks)] = blocks

    def _on_block_copied(self, event: Json) -> None:
        self._drop(event["src"])
        self.block_tables[event["sequence"]][event["index"]] = event["dst"]

    def _on_blocks_freed(self, event: Json) -> None:
        to = event["to"]
        before = event.get("before") or [-1] * len(event["blocks"])
        for block, other in zip(event["blocks"], before, strict=True):
            if bool(self._drop(block)) != (to == "held"):
                raise RunError(f"block {block} has {self.ref_counts[block]} references, to {to}")
            if to != "held":
                self.free.insert(block, to, other)
            if block in self.cached:
                self.cached[block]["last_used"] = self.step
        if event["reason"] == "window":
            table = self.block_tables[event["sequence"]]
            for block, entry in zip(event["blocks"], event["entries"], strict=True):
                if table[entry] != block:
                    raise RunError(f"entry {entry} is block {table[entry]}, not {block}")
                table[entry] = GIVEN_BACK
        elif event["reason"] != "duplicate":
            self.block_tables.pop(event["sequence"], None)
            if event["reason"] == "finished" and event["sequence"] in self.running:
                self.running.remove(event["sequence"])

    def _hold(self, block: int) -> None:
        """One more reference; the first one takes the block out of the free order."""
        if not self.ref_counts[block]:
            self.free.remove(block)
            self._num_in_use += 1
            self._num_idle -= block in self.cached
        self.ref_counts[block] += 1

    def _drop(self, block: int) -> int:
        """One reference less; those that are left."""
        if self.ref_counts[block] < 1:
            raise RunError(f"block {block} has no reference to drop")
        self.ref_counts[block] -= 1
        if not self.ref_counts[block]:
            self._num_in_use -= 1
            self._num_idle += block in self.cached
        return self.ref_counts[block]

    # ---- cache --------------------------------------------------------------------------------

    def _on_block_cached(self, event: Json) -> None:
        name, size = event["sequence"], self.block_size
        tokens = self.prompts[event["request"]] + self.outputs[name]
        parent_key = event.get("parent_key")
        node = event.get("node")
        if node is not None and "parent" in event:
            parent = event["parent"]
            self.nodes[node] = {"parent": None if parent < 0 else parent, "blocks": []}
        for i, block in enumerate(event["blocks"]):
            if block in self.cached or not self.ref_counts[block]:
                raise RunError(f"block {block} cannot become cached")
            start = (event["index"] + i) * size
            self.cached[block] = {
                "tokens": tokens[start : start + size],
                "key": event["keys"][i],
                "parent_key": parent_key,
                "last_used": self.step,
                "hits": 0,
                "node": node,
            }
            parent_key = event["keys"][i]
        if node is not None:
            self.nodes[node]["blocks"].extend(event["blocks"])
        if not event["blocks"]:
            raise RunError("nothing is cached")

    def _on_node_split(self, event: Json) -> None:
        lower, upper = event["node"], event["new_parent"]
        blocks = self.nodes[lower]["blocks"]
        cut = event["num_blocks"]
        if not 0 < cut < len(blocks) or upper in self.nodes:
            raise RunError(f"node {lower} of {len(blocks)} blocks cannot be split at {cut}")
        self.nodes[upper] = {"parent": self.nodes[lower]["parent"], "blocks": blocks[:cut]}
        self.nodes[lower] = {"parent": upper, "blocks": blocks[cut:]}
        for block in blocks[:cut]:
            self.cached[block]["node"] = upper

    def _on_block_evicted(self, event: Json) -> None:
        for block in event["blocks"]:
            self._forget(block)

    def _on_block_uncached(self, event: Json) -> None:
        block = event["block"]
        self._forget(block)
        if not self.ref_counts[block]:
            self.free.remove(block)
            self.free.insert(block, "front", -1)

    def _forget(self, block: int) -> None:
        self._num_idle -= not self.ref_counts[block]
        node = self.cached.pop(block)["node"]
        if node is not None:
            blocks = self.nodes[node]["blocks"]
            if blocks.pop() != block:
                raise RunError(f"block {block} is not the last one of node {node}")
            if not blocks:
                del self.nodes[node]


def states(header: Json, steps: list[Json]) -> Iterator[Json]:
    """The state after each step of a run. Raises RunError."""
    reducer = Reducer(header)
    for record in steps:
        reducer.apply_step(record)
        yield reducer.state()
