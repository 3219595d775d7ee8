"""A kernel launch as a value: launched on a device, or compiled ahead of time without one.

What is compiled in the tests, on machines that have no GPU, is then what would be launched: the
same arguments and the same tile sizes, from the same function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton

INTERPRETED: bool = triton.knobs.runtime.interpret
"""True under TRITON_INTERPRET=1: kernels run in Python, on tensors in main memory."""


@dataclass(frozen=True, slots=True)
class Launch:
    """kernel: what `triton.jit` gave. grid: programs in x, y, z. arguments: by name, constants
    among them. num_warps: of 32 threads a program. num_stages: how many tiles of a loop are on
    their way from memory at once."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]
    num_warps: int = 4
    num_stages: int = 1

    def __call__(self) -> None:
        if 0 in self.grid:
            return
        self.kernel[self.grid](
            **self.arguments, num_warps=self.num_warps, num_stages=self.num_stages
        )
