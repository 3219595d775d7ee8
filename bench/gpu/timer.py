"""How long a device takes for a piece of work: CUDA events on a GPU, the wall clock elsewhere."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Protocol

import torch

from bench.timing import alternate

Work = Callable[[], object]

FLUSH_BYTES = 512 << 20
"""Written between two runs: ten times the L2 of an H100 (50 MB), so that no run finds there what
the one before has read. An engine's layer finds nothing of its own either: others ran since."""

MOST_FLUSHES = 16
"""Before one run: of work that Python takes long to launch."""

_SPIN_UP_S = 0.5


class Timer(Protocol):
    """Seconds of a piece of work, which is called without arguments and may be called often."""

    label: str

    def seconds(self, work: Work) -> float:
        """Of one run: the mean of a few, each with cold caches."""
        ...

    def waits_for_host(self, work: Work) -> bool:
        """Whether Python takes longer to launch the work than the device has other work to do: then
        `seconds` may hold the launch, not the work."""
        ...


class WallTimer:
    """The wall clock, of a rehearsal on a CPU."""

    label = "wall clock, nothing flushed: a rehearsal, no measurement"

    def seconds(self, work: Work) -> float:
        started = perf_counter()
        work()
        return perf_counter() - started

    def waits_for_host(self, work: Work) -> bool:
        return False


class CudaTimer:
    """CUDA events around each run, and a flush of the L2 before it.

    The flush has a second use: the device is busy with it while Python launches the work, so that
    the first event is not followed by a wait. It is repeated for as long as that takes. runs: how
    many a sample is the mean of.
    """

    def __init__(self, device: torch.device, runs: int) -> None:
        self.device = device
        self.runs = runs
        self.label = f"CUDA events, L2 flushed before each run, {runs} runs a sample"
        self._flushed = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=device)
        self._spin_up()
        self._flush_seconds = statistics.median(self._timed(self._flushed.zero_, flushes=0))

    def seconds(self, work: Work) -> float:
        # Twice as long as one launch took: the next may take longer.
        flushes = 1 + int(2 * self._launch_seconds(work) / self._flush_seconds)
        return statistics.fmean(self._timed(work, flushes=min(flushes, MOST_FLUSHES)))

    def waits_for_host(self, work: Work) -> bool:
        launches = [self._launch_seconds(work) for _ in range(self.runs)]
        return statistics.median(launches) > MOST_FLUSHES * self._flush_seconds

    def _launch_seconds(self, work: Work) -> float:
        """How long Python is busy with it, on a device that is idle."""
        torch.cuda.synchronize(self.device)
        started = perf_counter()
        work()
        launched = perf_counter() - started
        torch.cuda.synchronize(self.device)
        return launched

    def _timed(self, work: Work, *, flushes: int) -> list[float]:
        """Seconds of each of `runs` runs; the device is waited for once, at the end."""
        event = partial(torch.cuda.Event, enable_timing=True)
        pairs = [(event(), event()) for _ in range(self.runs)]
        for start, end in pairs:
            for _ in range(flushes):
                self._flushed.zero_()
            start.record()
            work()
            end.record()
        torch.cuda.synchronize(self.device)
        return [start.elapsed_time(end) / 1e3 for start, end in pairs]

    def _spin_up(self) -> None:
        """Half a second of work: an idle GPU's clocks are low."""
        started = perf_counter()
        while perf_counter() - started < _SPIN_UP_S:
            self._flushed.zero_()
            torch.cuda.synchronize(self.device)


def take_turns(timer: Timer, works: Mapping[str, Work], repeats: int) -> dict[str, list[float]]:
    """Seconds of each, `repeats` samples. Each runs once unmeasured (kernels are compiled then),
    then all in turn, every other round in reverse order: sample i of one is comparable with sample
    i of another."""
    calls = {name: partial(timer.seconds, work) for name, work in works.items()}
    return alternate(calls, repeats, collect=False)
