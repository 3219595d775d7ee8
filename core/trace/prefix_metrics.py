"""What a run says about its prefix cache: pure functions of a run (run/1, a JSON object).

A lookup is an admission or a resume: the engine looks the prefix up, takes the blocks that it
finds, and computes the rest. `lookups` says of each how far the match went and why it ended there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

Json = dict[str, Any]

LIMIT = "limit"  # all whole blocks but the one of the last token: no more is possible
SHORT = "short"  # the prompt has no whole block that could be matched
EMPTY = "empty"  # nothing is cached under this namespace
OTHER_SALT = "other_salt"  # the next block is cached, for another salt or adapter
EVICTED = "evicted"  # the next block was cached once and has been forgotten
COMPUTING = "computing"  # somebody is computing the next block right now
DIFFERS = "differs"  # something is cached there, with other tokens
NEW = "new"  # nothing is cached behind the match


@dataclass(frozen=True, slots=True)
class Lookup:
    """One look into the cache. Tokens throughout, blocks where it says so.

    hit_blocks: blocks found. most_blocks: ⌊(num_tokens − 1) / block_size⌋, as one token is always
    computed. why: where the match ends (the constants above). differs_at: under `differs`, the
    first token, counted from 0, at which the prompt leaves the cached one that goes furthest.
    """

    step: int
    request: str
    sequence: str
    num_tokens: int
    hit_blocks: int
    most_blocks: int
    num_cached_tokens: int
    why: str
    differs_at: int | None = None

    @property
    def computed(self) -> int:
        return self.num_tokens - self.num_cached_tokens


@dataclass(slots=True)
class _Place:
    """A whole block behind a prefix: how many copies are cached, whether one ever was."""

    copies: int = 0
    ever: bool = False
    next: dict[tuple[int, ...], _Place] = field(default_factory=dict)


class _Index:
    """Which prefixes are cached, by namespace, kept from the events."""

    def __init__(self, header: Json) -> None:
        self.block_size: int = header["scenario"]["engine"]["block_size"]
        self.roots: dict[Any, _Place] = {}
        self._of_block: dict[int, _Place] = {}
        self._space = {
            r["id"]: (r.get("adapter"), r.get("cache_salt")) for r in header["scenario"]["requests"]
        }

    def space(self, request: str) -> Any:
        return self._space.get(request, (None, None))

    def add(self, event: Json, tokens: list[int]) -> None:
        size = self.block_size
        place = self.roots.setdefault(self.space(event["request"]), _Place())
        for i in range(event["index"] + len(event["blocks"])):
            place = place.next.setdefault(tuple(tokens[i * size : (i + 1) * size]), _Place())
            if i >= event["index"]:
                place.copies += 1
                place.ever = True
                self._of_block[event["blocks"][i - event["index"]]] = place

    def forget(self, blocks: list[int]) -> None:
        for block in blocks:
            self._of_block.pop(block).copies -= 1

    def find(self, root: _Place | None, tokens: list[int], num_blocks: int) -> _Place | None:
        place, size = root, self.block_size
        for i in range(num_blocks):
            if place is None:
                return None
            place = place.next.get(tuple(tokens[i * size : (i + 1) * size]))
        return place


def _why(
    index: _Index, request: str, tokens: list[int], hit: int, most: int, coming: set[Any]
) -> tuple[str, int | None]:
    size = index.block_size
    if most == 0:
        return SHORT, None
    if hit >= most:
        return LIMIT, None
    wanted = tuple(tokens[hit * size : (hit + 1) * size])
    space = index.space(request)
    if (space, tuple(tokens[: (hit + 1) * size])) in coming:
        return COMPUTING, None
    here = index.find(index.roots.get(space), tokens, hit)
    if here is not None and wanted in here.next and here.next[wanted].ever:
        return EVICTED, None
    for other, root in index.roots.items():
        there = index.find(root, tokens, hit + 1) if other != space else None
        if there is not None and there.copies:
            return OTHER_SALT, None
    cached = [key for key, place in here.next.items() if place.copies] if here else []
    if cached:
        alike = max(
            next((i for i, (a, b) in enumerate(zip(key, wanted, strict=True)) if a != b), size)
            for key in cached
        )
        return DIFFERS, hit * size + alike
    own = index.roots.get(space)
    if hit == 0 and not (own and any(place.copies for place in own.next.values())):
        return EMPTY, None
    return NEW, None


def lookups(run: Json) -> list[Lookup]:
    """Every look into the cache, in order. None where the cache is off."""
    header = run["header"]
    if header["scenario"]["engine"].get("prefix_cache", "radix") == "off":
        return []
    index = _Index(header)
    size = index.block_size
    prompts: dict[str, list[int]] = dict(header["prompts"])
    outputs: dict[str, list[int]] = {}
    out: list[Lookup] = []
    for step in run["steps"]:
        prompts |= step.get("prompts", {})
        coming: set[Any] = set()
        for event in step["events"]:
            kind = event["type"]
            if kind in ("admitted", "resumed"):
                request, name = event["request"], event["sequence"]
                tokens = prompts[request] + outputs.get(name, [])
                total, cached = event["num_tokens"], event["num_cached_tokens"]
                hit, most = cached // size, max(0, total - 1) // size
                why, at = _why(index, request, tokens, hit, most, coming)
                out.append(Lookup(step["step"], request, name, total, hit, most, cached, why, at))
                space = index.space(request)
                coming |= {
                    (space, tuple(tokens[: (i + 1) * size])) for i in range(hit, total // size)
                }
            elif kind == "token_sampled":
                outputs.setdefault(event["sequence"], []).append(event["token"])
            elif kind == "forked" and event.get("copies_outputs"):
                first, *twins = event["sequences"]
                for twin in twins:
                    outputs[twin] = list(outputs.get(first, []))
            elif kind == "block_cached":
                index.add(event, prompts[event["request"]] + outputs.get(event["sequence"], []))
            elif kind == "block_evicted":
                index.forget(event["blocks"])
            elif kind == "block_uncached":
                index.forget([event["block"]])
    return out


@dataclass(frozen=True, slots=True)
class Totals:
    """Of a whole run. looked_up: tokens of all lookups; cached: those found; computed: tokens that
    steps computed, decoding included; evicted: blocks forgotten to make room."""

    looked_up: int
    cached: int
    computed: int
    evicted: int

    @property
    def hit_rate(self) -> float:
        """Cached tokens over tokens looked up."""
        return self.cached / self.looked_up if self.looked_up else 0.0


def totals(run: Json) -> Totals:
    found = lookups(run)
    evicted = sum(
        len(event["blocks"])
        for step in run["steps"]
        for event in step["events"]
        if event["type"] == "block_evicted"
    )
    return Totals(
        sum(one.num_tokens for one in found),
        sum(one.num_cached_tokens for one in found),
        sum(computed_tokens(run)),
        evicted,
    )


def computed_tokens(run: Json) -> list[int]:
    """Tokens that each step computed."""
    return [
        sum(share["num_scheduled_tokens"] for share in step["scheduled"].values())
        for step in run["steps"]
    ]


def hit_rate(run: Json) -> list[float | None]:
    """After each step, cached over looked-up tokens so far; None before the first lookup."""
    by_step: dict[int, list[Lookup]] = {}
    for one in lookups(run):
        by_step.setdefault(one.step, []).append(one)
    out: list[float | None] = []
    looked_up = cached = 0
    for step in run["steps"]:
        for one in by_step.get(step["step"], ()):
            looked_up += one.num_tokens
            cached += one.num_cached_tokens
        out.append(cached / looked_up if looked_up else None)
    return out


def kept(run: Json, prefix: list[int]) -> list[int]:
    """After each step, how many whole blocks of a prefix can be matched, from its start on."""
    header = run["header"]
    size = header["scenario"]["engine"]["block_size"]
    index = _Index(header)
    prompts: dict[str, list[int]] = dict(header["prompts"])
    outputs: dict[str, list[int]] = {}
    out = []
    for step in run["steps"]:
        prompts |= step.get("prompts", {})
        for event in step["events"]:
            if event["type"] == "token_sampled":
                outputs.setdefault(event["sequence"], []).append(event["token"])
            elif event["type"] == "block_cached":
                index.add(event, prompts[event["request"]] + outputs.get(event["sequence"], []))
            elif event["type"] == "block_evicted":
                index.forget(event["blocks"])
            elif event["type"] == "block_uncached":
                index.forget([event["block"]])
        place, found = index.roots.get((None, None)), 0
        while place is not None and (found + 1) * size <= len(prefix):
            place = place.next.get(tuple(prefix[found * size : (found + 1) * size]))
            if place is None or not place.copies:
                break
            found += 1
        out.append(found)
    return out


def step_us(step: Json) -> float:
    """What a step took in all, microseconds."""
    timing = step.get("timing", {})
    return float(sum(timing.get(k, 0) for k in ("schedule_us", "forward_us", "sample_us")))


def first_token_us(run: Json) -> dict[str, float]:
    """For each request whose answer has begun: from the beginning of the step in which it arrived
    to its first token, microseconds."""
    arrived: dict[str, int] = {}
    first: dict[str, int] = {}
    for k, step in enumerate(run["steps"]):
        for event in step["events"]:
            if event["type"] == "request_arrived":
                arrived[event["request"]] = k
            elif event["type"] == "token_sampled":
                first.setdefault(event["request"], k)
    steps = run["steps"]
    return {
        name: sum(step_us(s) + s.get("timing", {}).get("away_us", 0) for s in steps[k : last + 1])
        for name, k in arrived.items()
        if (last := first.get(name)) is not None
    }


@dataclass(frozen=True, slots=True)
class Ratio:
    """Of many paired values: the median, and the middle half of them."""

    median: float
    low: float
    high: float
    count: int


def scheduling_ratio(with_cache: Json, without: Json) -> Ratio | None:
    """Time of scheduling and bookkeeping with the cache on over off, step by step.

    The two runs must have done the same work: only steps with the same shares count. None if there
    are fewer than four.
    """
    pairs = [
        a["timing"]["schedule_us"] / b["timing"]["schedule_us"]
        for a, b in zip(with_cache["steps"], without["steps"], strict=False)
        if a["scheduled"]
        and _shares(a) == _shares(b)
        and a["timing"].get("schedule_us", 0) > 0
        and b["timing"].get("schedule_us", 0) > 0
    ]
    if len(pairs) < 4:
        return None
    low, _, high = quantiles(pairs, n=4)
    return Ratio(median(pairs), low, high, len(pairs))


def _shares(step: Json) -> Json:
    return {name: share["num_scheduled_tokens"] for name, share in step["scheduled"].items()}
