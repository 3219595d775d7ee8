"""Where a step's time goes: one lap after another, each for one part, so that the parts sum up.

`lap` closes the time since the lap before and adds it to a part. A lap costs about 0.2 µs on a CPU,
a step of 30 layers has some 240 of them: 0.05 ms, under 1 % of the default model's shortest step.

On CUDA a lap records an event, and the times are read once the step has ended: the device works on
its own time, and the processor's clock would measure how fast kernels are launched. That path
follows torch's documentation and was never run: this project is developed without a GPU.
"""

from __future__ import annotations

from itertools import pairwise
from time import perf_counter_ns
from typing import Any, Protocol

import torch

ATTENTION, LINEAR, OTHER = 0, 1, 2
"""Parts of a forward pass. ATTENTION: K and V written, contexts gathered, scores, softmax, values.
LINEAR: all products with a weight matrix. OTHER: the rest, from the step's inputs to the norms."""

_NAMES = ("attention_us", "linear_us", "other_us")


class StepClock(Protocol):
    """One step's: a `lap` at the end of each piece of work, `end_forward`, `end`, then `read`."""

    def lap(self, part: int) -> None: ...

    def whole(self) -> None:
        """The parts of this step cannot be told apart: nobody sees the inside of a graph."""
        ...

    def end_forward(self) -> None:
        """The logits are there; what comes now is sampling, and laps count no more."""
        ...

    def end(self) -> None: ...

    def read(self) -> dict[str, float]:
        """Microseconds: `forward_us`, its parts where they were timed, and `sample_us`."""
        ...


class CpuClock:
    """The processor's own clock."""

    def __init__(self) -> None:
        self._ns = [0, 0, 0]
        self._forward: dict[str, float] = {}
        self._whole = False
        self._last = perf_counter_ns()

    def lap(self, part: int) -> None:
        now = perf_counter_ns()
        self._ns[part] += now - self._last
        self._last = now

    def whole(self) -> None:
        self._whole = True

    def end_forward(self) -> None:
        self._forward = _named([ns / 1000 for ns in self._ns], self._whole)
        self._computed = perf_counter_ns()

    def end(self) -> None:
        self._sample_us = (perf_counter_ns() - self._computed) / 1000

    def read(self) -> dict[str, float]:
        return {**self._forward, "sample_us": self._sample_us}


class CudaClock:
    """Events in the device's own queue. `read` waits for the last of them."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._laps: list[tuple[int, Any]] = [(OTHER, self._mark())]
        self._open, self._whole = True, False
        self._end: Any = None

    def lap(self, part: int) -> None:
        if self._open:
            self._laps.append((part, self._mark()))

    def whole(self) -> None:
        self._open, self._whole = False, True

    def end_forward(self) -> None:
        self._laps.append((OTHER, self._mark()))
        self._open = False

    def end(self) -> None:
        self._end = self._mark()

    def read(self) -> dict[str, float]:
        us = [0.0, 0.0, 0.0]
        self._end.synchronize()
        for (_, before), (part, after) in pairwise(self._laps):
            us[part] += 1000 * before.elapsed_time(after)  # which is in milliseconds
        sample_us = 1000 * self._laps[-1][1].elapsed_time(self._end)
        return {**_named(us, self._whole), "sample_us": sample_us}

    def _mark(self) -> Any:
        make: Any = torch.cuda.Event
        event = make(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event


class NoClock:
    """Times nothing: for a forward pass that is captured, or done to see what memory it takes."""

    def lap(self, part: int) -> None: ...

    def whole(self) -> None: ...

    def end_forward(self) -> None: ...

    def end(self) -> None: ...

    def read(self) -> dict[str, float]:
        return {}


def step_clock(device: torch.device) -> StepClock:
    """A clock of a device, started."""
    return CudaClock(device) if device.type == "cuda" else CpuClock()


def _named(us: list[float], whole: bool) -> dict[str, float]:
    parts = {} if whole else dict(zip(_NAMES, us, strict=True))
    return {"forward_us": sum(us), **parts}
