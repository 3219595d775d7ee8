"""What a run says about its prefix cache: pure functions of a run (run/1, a JSON object).

A lookup is an admission or a resume: the engine looks the prefix up, takes the blocks that it
finds, and computes the rest. `lookups` says of each how far the match went and why it ended there.

Resumes stand apart from every total and rate: what a preempted sequence finds of its own blocks
was computed for nobody else, so it says nothing about prompts that begin alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

LIMIT = "limit"  # all whole blocks but the one of the last token: no more is possible
SHORT = "short"  # the prompt has no whole block that could be matched
EMPTY = "empty"  # nothing is cached under this namespace
OTHER_SALT = "other_salt"  # the next block is cached, for another salt or adapter
EVICTED = "evicted"  # the next block was cached once and has been forgotten
COMPUTING = "computing"  # a running sequence has the next block's tokens, not all computed yet
DIFFERS = "differs"  # something is cached there, with other tokens
NEW = "new"  # nothing is cached behind the match


@dataclass(frozen=True, slots=True)
class Lookup:
    """One look into the cache. Tokens throughout, blocks where it says so.

    hit_blocks: blocks found. most_blocks: ⌊(num_tokens − 1) / block_size⌋, as one token is always
    computed. why: where the match ends (the constants above). differs_at: under `differs`, the
    first token, counted from 0, at which the prompt leaves the cached one that goes furthest.
    resumed: the sequence had run before, and had been preempted.
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
    resumed: bool = False

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


class _Coming:
    """The whole blocks that running sequences have yet to compute and cache, as prefixes.

    A prompt computed in chunks has some over several steps, and so has one whose newest token,
    sampled in the step before, fills a block.
    """

    def __init__(self, index: _Index) -> None:
        self._index = index
        self._of: dict[str, set[Any]] = {}

    def __contains__(self, prefix: Any) -> bool:
        return any(prefix in waited for waited in self._of.values())

    def _prefixes(self, request: str, tokens: list[int], blocks: range) -> set[Any]:
        space, size = self._index.space(request), self._index.block_size
        return {(space, tuple(tokens[: (i + 1) * size])) for i in blocks}

    def let_in(self, event: Json, tokens: list[int]) -> None:
        size = self._index.block_size
        blocks = range(event["num_cached_tokens"] // size, event["num_tokens"] // size)
        self._of[event["sequence"]] = self._prefixes(event["request"], tokens, blocks)

    def sampled(self, event: Json, tokens: list[int]) -> None:
        whole, rest = divmod(len(tokens), self._index.block_size)
        if not rest and event["sequence"] in self._of:
            blocks = range(whole - 1, whole)
            self._of[event["sequence"]] |= self._prefixes(event["request"], tokens, blocks)

    def forked(self, first: str, twins: list[str]) -> None:
        if first in self._of:
            self._of |= {twin: set() for twin in twins}

    def cached(self, event: Json, tokens: list[int]) -> None:
        blocks = range(event["index"], event["index"] + len(event["blocks"]))
        waited = self._of.get(event["sequence"])
        if waited:
            waited -= self._prefixes(event["request"], tokens, blocks)

    def left(self, names: list[str]) -> None:
        for name in names:
            self._of.pop(name, None)


def _why(
    index: _Index, request: str, tokens: list[int], hit: int, most: int, coming: _Coming
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
    coming = _Coming(index)
    size = index.block_size
    prompts: dict[str, list[int]] = dict(header["prompts"])
    outputs: dict[str, list[int]] = {}
    out: list[Lookup] = []

    def tokens_of(event: Json) -> list[int]:
        return prompts[event["request"]] + outputs.get(event["sequence"], [])

    for step in run["steps"]:
        prompts |= step.get("prompts", {})
        for event in step["events"]:
            kind = event["type"]
            if kind in ("admitted", "resumed"):
                request, name, tokens = event["request"], event["sequence"], tokens_of(event)
                total, cached = event["num_tokens"], event["num_cached_tokens"]
                hit, most = cached // size, max(0, total - 1) // size
                why, at = _why(index, request, tokens, hit, most, coming)
                again = kind == "resumed"
                one = Lookup(step["step"], request, name, total, hit, most, cached, why, at, again)
                out.append(one)
                coming.let_in(event, tokens)
            elif kind == "token_sampled":
                outputs.setdefault(event["sequence"], []).append(event["token"])
                coming.sampled(event, tokens_of(event))
            elif kind == "forked":
                first, *twins = event["sequences"]
                coming.forked(first, twins)
                for twin in twins if event.get("copies_outputs") else ():
                    outputs[twin] = list(outputs.get(first, []))
            elif kind == "block_cached":
                index.add(event, tokens_of(event))
                coming.cached(event, tokens_of(event))
            elif kind == "block_shared" and event["cause"] == "canonical":
                coming.cached(event, tokens_of(event))
            elif kind in ("preempted", "finished", "pruned"):
                coming.left(event.get("sequences") or [event["sequence"]])
            elif kind == "block_evicted":
                index.forget(event["blocks"])
            elif kind == "block_uncached":
                index.forget([event["block"]])
    return out


@dataclass(frozen=True, slots=True)
class Totals:
    """Of a whole run. looked_up: tokens of all admissions; cached: those found; computed: tokens
    that steps computed, decoding included; evicted: blocks forgotten to make room.
    again_looked_up, again_cached: of resumes after preemption, which count as no hits."""

    looked_up: int
    cached: int
    computed: int
    evicted: int
    again_looked_up: int = 0
    again_cached: int = 0

    @property
    def hit_rate(self) -> float:
        """Cached tokens over tokens looked up."""
        return self.cached / self.looked_up if self.looked_up else 0.0


def totals(run: Json) -> Totals:
    found = lookups(run)
    first = [one for one in found if not one.resumed]
    again = [one for one in found if one.resumed]
    evicted = sum(
        len(event["blocks"])
        for step in run["steps"]
        for event in step["events"]
        if event["type"] == "block_evicted"
    )
    return Totals(
        sum(one.num_tokens for one in first),
        sum(one.num_cached_tokens for one in first),
        sum(computed_tokens(run)),
        evicted,
        sum(one.num_tokens for one in again),
        sum(one.num_cached_tokens for one in again),
    )


def computed_tokens(run: Json) -> list[int]:
    """Tokens that each step computed."""
    return [
        sum(share["num_scheduled_tokens"] for share in step["scheduled"].values())
        for step in run["steps"]
    ]


def hit_rate(run: Json) -> list[float | None]:
    """After each step, cached over looked-up tokens of the admissions so far; None before the
    first one."""
    by_step: dict[int, list[Lookup]] = {}
    for one in lookups(run):
        if not one.resumed:
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
