"""From Python's numbers to a device, and back, without the processor waiting for the device.

A copy from ordinary memory to a GPU waits until all work before it is done: in the midst of a step
that costs the whole lead of the processor. From pinned memory it is queued like any other work.
torch's allocator of pinned memory reuses a piece only when the copy out of it has been made.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

import torch


def to_device(values: Seq[Any], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Numbers, or equally long lists of them, as a tensor on a device."""
    tensor = torch.tensor(values, dtype=dtype)
    return upload(tensor, device)


def upload(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor in main memory on a device; itself if that is the CPU."""
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


class Download:
    """A copy of a tensor in main memory, which `read` waits for.

    The copy, and an event behind it, are queued at once: work that is queued later is not waited
    for. On a CPU it is the tensor itself.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._event: Any = None
        if tensor.device.type == "cpu":
            self._copy = tensor
            return
        self._copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self._copy.copy_(tensor, non_blocking=True)
        make: Any = torch.cuda.Event
        self._event = make()
        self._event.record(torch.cuda.current_stream(tensor.device))

    def read(self) -> torch.Tensor:
        if self._event is not None:
            self._event.synchronize()
        return self._copy
