"""What a pool's memory is used for, counted from a run step by step.

Sizes are in blocks and in slots (a slot holds the keys and values of one token); times are the
scheduler's own, in microseconds, from the run's `timing`. Everything is a function of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.config import EngineConfig
from core.trace.reducer import Reducer

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PoolSeries:
    """One value for each step, after it.

    held: slots of all blocks in use, each block once. filled: those of them whose keys and values
    are written. free: blocks without a reference, cached ones included. unfit: free blocks that lie
    in runs too short for the head of the queue, while that is why it waits; else 0. waiting:
    entries of the queue. table_entries: of all block tables together.
    """

    num_slots: int
    held: list[int]
    filled: list[int]
    free: list[int]
    unfit: list[int]
    waiting: list[int]
    table_entries: list[int]

    @property
    def wasted(self) -> list[int]:
        """Internal fragmentation: slots that are held and not written."""
        return [held - filled for held, filled in zip(self.held, self.filled, strict=True)]

    @property
    def utilisation(self) -> list[float]:
        """Written slots as a share of the whole pool, 0 … 1."""
        return [filled / self.num_slots for filled in self.filled]


def pool_series(run: Json) -> PoolSeries:
    """The pool's use after each step of a run. Raises RunError."""
    reducer = Reducer(run["header"])
    config = EngineConfig(**run["header"]["scenario"]["engine"])
    needs = _runs_needed(run, config)
    out = PoolSeries(config.num_blocks * config.block_size, [], [], [], [], [], [])
    reasons: dict[str, str] = {}
    for record in run["steps"]:
        reducer.apply_step(record)
        reasons |= {e["sequence"]: e["reason"] for e in record["events"] if e["type"] == "waiting"}
        usage = record["usage"]
        held = usage["in_use"] * config.block_size
        out.held.append(held)
        out.filled.append(held - _unwritten(reducer, config.block_size))
        out.free.append(usage["free"] + usage["cached"])
        out.waiting.append(len(reducer.waiting))
        out.table_entries.append(sum(len(t) for t in reducer.block_tables.values()))
        # The head blocks those behind it: what they need does not count.
        head = reducer.waiting[0] if reducer.waiting else ""
        short = reasons.get(head) == "no_contiguous_run"
        out.unfit.append(_unfit(reducer.ref_counts, needs[head]) if short else 0)
    return out


def _unwritten(reducer: Reducer, block_size: int) -> int:
    """Slots of blocks in use that nothing has been written to.

    Only entries behind a sequence's last full block have any, and of a shared one the sequence
    that is furthest counts.
    """
    filled: dict[int, int] = {}
    for name, table in reducer.block_tables.items():
        computed = reducer.num_computed_tokens.get(name, 0)
        for entry in range(computed // block_size, len(table)):
            block = table[entry]
            if block >= 0:
                here = max(0, computed - entry * block_size)
                filled[block] = max(filled.get(block, 0), here)
    return sum(block_size - here for here in filled.values())


def _runs_needed(run: Json, config: EngineConfig) -> dict[str, int]:
    """Blocks that must lie side by side for a request: its reserve. None where memory is paged."""
    if config.allocator == "paged":
        return {}
    if config.reserve == "max_model_len":
        whole = config.blocks_for(config.max_model_len)
        return {r["id"]: whole for r in run["header"]["scenario"]["requests"]}
    prompts = run["header"]["prompts"]
    return {
        r["id"]: config.blocks_for(
            config.tokens_at_most(len(prompts[r["id"]]), r.get("max_tokens", 8))
        )
        for r in run["header"]["scenario"]["requests"]
    }


def _unfit(ref_counts: list[int], needed: int) -> int:
    """Free blocks in runs of consecutive ids shorter than `needed`."""
    unfit = length = 0
    for refs in (*ref_counts, 1):
        if not refs:
            length += 1
        else:
            unfit += length if length < needed else 0
            length = 0
    return unfit


@dataclass(frozen=True, slots=True)
class Life:
    """A request's way through a run, in steps. waited: steps after which it stood in the queue,
    before its first admission and after preemptions. first_token, ended: None if never."""

    arrived: int
    waited: int
    first_token: int | None
    ended: int | None


def lives(run: Json) -> dict[str, Life]:
    """Each accepted request's way, in the order of the scenario. For n > 1: its slowest sequence
    ends it, and it waits while any of its sequences does."""
    requests = [r["id"] for r in run["header"]["scenario"]["requests"]]
    arrived: dict[str, int] = {}
    first: dict[str, int] = {}
    ended: dict[str, int] = {}
    waited = dict.fromkeys(requests, 0)
    owner: dict[str, str] = {}
    queue: set[str] = set()
    for record in run["steps"]:
        step = record["step"]
        for event in record["events"]:
            kind, name = event["type"], event.get("sequence")
            if kind == "request_arrived":
                arrived[event["request"]] = step
                owner |= dict.fromkeys(event["sequences"], event["request"])
                if "position" in event:  # a fork of another's sequence never waits
                    queue.add(event["sequences"][0])
            elif kind == "request_rejected":
                del arrived[event["request"]]
            elif kind in ("admitted", "resumed", "finished"):
                queue.discard(name)
                if kind == "finished":
                    ended[event["request"]] = step
            elif kind == "preempted":
                queue.add(name)
            elif kind == "token_sampled":
                first.setdefault(event["request"], step)
        for request in {owner[name] for name in queue}:
            waited[request] += 1
    return {
        name: Life(arrived[name], waited[name], first.get(name), ended.get(name))
        for name in requests
        if name in arrived
    }


@dataclass(frozen=True, slots=True)
class PoolSummary:
    """A whole run in a few numbers.

    waste: slots held and not written, of slots held, summed over all steps. peak_waste: most of
    them after one step. cached_tokens: found in the prefix cache at first admissions;
    what a preempted request finds of its own again does not count.
    computed_tokens: computed in all steps together. longest_table: entries. table_entries: most at
    once, of all tables. copies, copied_slots: copies on write, and the slots worth copying.
    schedule_us: the scheduler's and the block manager's time in the median step.
    """

    num_blocks: int
    block_size: int
    steps: int
    held: int
    wasted: int
    peak_waste: int
    peak_held_blocks: int
    cached_tokens: int
    computed_tokens: int
    longest_table: int
    table_entries: int
    copies: int
    copied_slots: int
    preemptions: int
    rejected: int
    schedule_us: float

    @property
    def waste(self) -> float:
        """Share of the held slots, 0 … 1; 0 where nothing was held."""
        return self.wasted / self.held if self.held else 0.0


def pool_summary(run: Json) -> PoolSummary:
    """A run in a few numbers. Raises RunError."""
    engine = run["header"]["scenario"]["engine"]
    series = pool_series(run)
    events = [event for record in run["steps"] for event in record["events"]]
    copies = [event for event in events if event["type"] == "block_copied"]
    shares = [share for record in run["steps"] for share in record["scheduled"].values()]
    wasted = series.wasted
    return PoolSummary(
        num_blocks=engine["num_blocks"],
        block_size=engine["block_size"],
        steps=len(run["steps"]),
        held=sum(series.held),
        wasted=sum(wasted),
        peak_waste=max(wasted, default=0),
        peak_held_blocks=max(series.held, default=0) // engine["block_size"],
        cached_tokens=sum(e["num_cached_tokens"] for e in events if e["type"] == "admitted"),
        computed_tokens=sum(share["num_scheduled_tokens"] for share in shares),
        longest_table=_longest_table(run),
        table_entries=max(series.table_entries, default=0),
        copies=len(copies),
        copied_slots=sum(event["num_slots"] for event in copies),
        preemptions=sum(event["type"] == "preempted" for event in events),
        rejected=sum(event["type"] == "request_rejected" for event in events),
        schedule_us=_median([record["timing"]["schedule_us"] for record in run["steps"]]),
    )


def _median(values: list[float]) -> float:
    """0 of none. One step in which the machine did something else must not count."""
    return sorted(values)[len(values) // 2] if values else 0.0


def _longest_table(run: Json) -> int:
    """Entries of the longest block table: tables grow at their end, and only there."""
    longest = 0
    length: dict[str, int] = {}
    for record in run["steps"]:
        for event in record["events"]:
            kind, name = event["type"], event.get("sequence")
            if kind == "blocks_allocated" and event["reason"] != "copy_on_write":
                length[name] = length.get(name, 0) + len(event["blocks"])
            elif kind == "block_shared":
                length[name] = max(length.get(name, 0), event["index"] + len(event["blocks"]))
            elif kind == "blocks_freed" and event["reason"] not in ("window", "duplicate"):
                length.pop(name, None)
            elif kind == "forked":
                first, *twins = event["sequences"]
                length |= dict.fromkeys(twins, length.get(first, 0))
            longest = max(longest, length.get(name, 0)) if name else longest
    return longest


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy on write: after which step, whose, from where to where, at which table entry, and the
    source's references before and after. num_slots: slots that were worth copying."""

    step: int
    sequence: str
    src: int
    dst: int
    index: int
    num_slots: int
    refs_before: int
    refs_after: int


def copies(run: Json) -> list[Copy]:
    """Every copy on write of a run, in order. Raises RunError."""
    reducer = _Watching(run["header"])
    for record in run["steps"]:
        reducer.apply_step(record)
    return reducer.seen


class _Watching(Reducer):
    """Looks at the reference counts at the moment of each copy."""

    def __init__(self, header: Json) -> None:
        super().__init__(header)
        self.seen: list[Copy] = []

    def _on_block_copied(self, event: Json) -> None:
        before = self.ref_counts[event["src"]]
        super()._on_block_copied(event)
        self.seen.append(
            Copy(
                self.step,
                event["sequence"],
                event["src"],
                event["dst"],
                event["index"],
                event["num_slots"],
                before,
                self.ref_counts[event["src"]],
            )
        )
