"""Medians of five, with the range.

`measure` takes processor time of this process, not wall time: what it measures is single-threaded
and never waits, so the two are equal on a quiet machine, and on a shared one only this one means
anything. `alternate` takes wall time, of work that uses several threads: its candidates take turns,
so that what else the machine does falls on all of them alike.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import process_time

REPEATS = 5


@dataclass(frozen=True, slots=True)
class Timing:
    """A measured quantity, mostly seconds per unit: median of the repeats, least and greatest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: list[float]) -> Timing:
        """Of at least one sample."""
        return cls(statistics.median(samples), min(samples), max(samples))

    def show(self, scale: float, unit: str, digits: int = 0) -> str:
        """E.g. ``108 ns (104–131)``."""
        values = (self.median, self.low, self.high)
        median, low, high = (f"{value * scale:,.{digits}f}" for value in values)
        return f"{median} {unit} ({low}–{high})"

    def per_second(self, units: float) -> Timing:
        """The rate at which `units` are done, if this is the seconds they take."""
        return Timing(units / self.median, units / self.high, units / self.low)


def measure(setup: Callable[[], Callable[[], int]]) -> Timing:
    """Time what `setup` returns, afresh each time; it returns how many units it did.

    The garbage collector is off meanwhile: a collection in one repeat would hide what is compared.
    """
    samples = []
    for _ in range(REPEATS):
        work = setup()
        gc.collect()
        gc.disable()
        try:
            started = process_time()
            units = work()
            samples.append((process_time() - started) / units)
        finally:
            gc.enable()
        del work
    return Timing.of(samples)


def alternate(
    candidates: Mapping[str, Callable[[], float]], repeats: int = REPEATS, collect: bool = True
) -> dict[str, list[float]]:
    """Samples of each candidate, which returns the seconds that it took.

    Each runs once unmeasured; then all run in turn, every other round in reverse order. Sample i of
    one is comparable with sample i of another: they ran side by side. collect: garbage before each;
    needless where the clock is not this process's.
    """
    for candidate in candidates.values():
        candidate()
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(repeats):
        for name in sorted(candidates, key=list(candidates).index, reverse=turn % 2 == 1):
            if collect:
                gc.collect()
            samples[name].append(candidates[name]())
    return samples


def ratio(over: list[float], under: list[float]) -> Timing:
    """How many times as long `over` took as `under`: of the pairs that ran side by side."""
    return Timing.of([a / b for a, b in zip(over, under, strict=True)])
