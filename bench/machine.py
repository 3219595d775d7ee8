"""What figures of the engine depend on besides the code: the machine's ceilings."""

from __future__ import annotations

from dataclasses import dataclass

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
