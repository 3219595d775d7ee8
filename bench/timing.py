"""Medians of five, with the range.

Processor time of this process, not wall time: what is measured is single-threaded and never waits,
so the two are equal on a quiet machine, and on a shared one only this one means anything.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time

REPEATS = 5


@dataclass(frozen=True, slots=True)
class Timing:
    """Processor seconds per unit: median of `REPEATS`, least and greatest."""

    median: float
    low: float
    high: float

    def show(self, scale: float, unit: str, digits: int = 0) -> str:
        """E.g. ``108 ns (104–131)``."""
        values = (self.median, self.low, self.high)
        median, low, high = (f"{value * scale:,.{digits}f}" for value in values)
        return f"{median} {unit} ({low}–{high})"


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
    return Timing(statistics.median(samples), min(samples), max(samples))
