"""What a prefix cache costs in scheduling and bookkeeping: two runs of the same work, side by side.

Pure functions of runs (run/1, JSON objects), one recorded with the cache and one without.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

WORK = frozenset(("admitted", "resumed", "block_cached", "block_uncached", "block_evicted"))
"""Events of steps in which a prefix cache does something."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Scheduling and bookkeeping of `count` steps together, microseconds, with a cache and
    without."""

    count: int
    with_us: float
    without_us: float

    @property
    def ratio(self) -> float:
        return self.with_us / self.without_us

    @property
    def more_us(self) -> float:
        """What the cache adds to one step."""
        return (self.with_us - self.without_us) / self.count


@dataclass(frozen=True, slots=True)
class SchedulingCost:
    """all: every step. busy: those in which the cache looks up, takes in or evicts. quiet: the
    others, in which it has nothing to do: they tell how far two runs of the same work differ."""

    all: Cost
    busy: Cost
    quiet: Cost


def scheduling_cost(with_cache: Json, without: Json) -> SchedulingCost | None:
    """What scheduling and bookkeeping take with the cache on, beside the same steps without.

    Sums, and no median of steps: in most steps a cache has nothing to do. The two runs must have
    done the same work, so only steps with the same shares count. None unless there are both busy
    and quiet ones.
    """
    pairs = [
        (a, a["timing"]["schedule_us"], b["timing"]["schedule_us"])
        for a, b in zip(with_cache["steps"], without["steps"], strict=False)
        if a["scheduled"]
        and _shares(a) == _shares(b)
        and a["timing"].get("schedule_us", 0) > 0
        and b["timing"].get("schedule_us", 0) > 0
    ]
    busy = [one for one in pairs if _works(one[0])]
    quiet = [one for one in pairs if not _works(one[0])]
    if not busy or not quiet:
        return None
    return SchedulingCost(_cost(pairs), _cost(busy), _cost(quiet))


def _works(step: Json) -> bool:
    return any(event["type"] in WORK for event in step["events"])


def _cost(pairs: list[tuple[Json, float, float]]) -> Cost:
    return Cost(len(pairs), sum(on for _, on, _ in pairs), sum(off for _, _, off in pairs))


def _shares(step: Json) -> Json:
    return {name: share["num_scheduled_tokens"] for name, share in step["scheduled"].items()}
