"""What figures depend on besides the code: the machine's ceilings, and what else it was doing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch

from core.model import calibrate
from core.model.calibrate import Calibration
from core.model.work import StepWork


def ceilings(quick: bool) -> Calibration:
    """The kept calibration of this processor, threads and torch; measured now if there is none.

    quick: measured small, and not kept.
    """
    device = torch.device("cpu")
    found = calibrate.load(device)
    if found is not None:
        return found
    if quick:
        return calibrate.measure(device, array_bytes=64 << 20, size=512, repeats=3)
    measured = calibrate.measure(device)
    calibrate.store(measured)
    return measured


@dataclass(frozen=True, slots=True)
class Shares:
    """How near a measured time comes to each ceiling: 1 is as fast as the machine can be."""

    memory: float
    compute: float

    @classmethod
    def of(cls, work: StepWork, seconds: float, machine: Calibration, dtype: str) -> Shares:
        """Of work done in that time, its products in a dtype."""
        return cls(
            work.bytes / seconds / machine.read_bytes_per_s.median,
            work.flops / seconds / machine.best_flops_per_s(dtype),
        )


class OtherWork:
    """How much of the processor's time went to other processes since it was made."""

    def __init__(self) -> None:
        self._started = perf_counter()
        self._busy, self._own = _busy_seconds(), _own_seconds()

    def share(self) -> float | None:
        """0 … 1 of all cores; None where the system does not say."""
        busy = _busy_seconds()
        if busy is None or self._busy is None:
            return None
        others = busy - self._busy - (_own_seconds() - self._own)
        capacity = (perf_counter() - self._started) * (os.cpu_count() or 1)
        return max(0.0, others / capacity)


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _busy_seconds() -> float | None:
    """Processor seconds of the whole machine that were neither idle nor waiting for a disk."""
    try:
        line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
        fields = [int(field) for field in line.split()[1:9]]
        return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
