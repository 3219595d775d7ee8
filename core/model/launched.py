"""A step between its launch and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from core.model.kv_store import KVStore
from core.model.llama import Llama
from core.model.step_clock import StepClock
from core.model.step_inputs import StepInputs
from core.model.step_outputs import PendingOutput


@dataclass(frozen=True, slots=True)
class PlainStep:
    """A step of a `Llama`, whose numbers are on the device."""

    model: Llama
    store: KVStore
    inputs: StepInputs

    def forward(self, clock: StepClock) -> torch.Tensor:
        """Hidden states [T, h] float32, before the last norm."""
        return self.model.forward(self.inputs, self.store, clock)


@dataclass(frozen=True, slots=True)
class LaunchedStep:
    """A step that the device is computing: what `ModelRunner.launch` gives and `collect` takes.

    output, work: None if nothing was scheduled.
    """

    output: PendingOutput | None
    work: dict[str, int] | None
    clock: StepClock
