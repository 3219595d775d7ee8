"""How large the KV pool of a GPU may be: what is left of its memory once a step has been measured.

    pool = utilization · total − others − weights − activations − graphs

others       all that torch did not allocate here: other processes, the CUDA context, libraries
weights      allocated once the model is loaded
activations  what the most demanding steps need beyond the weights, at their peak, measured: prompts
             of `max_num_batched_tokens`, and `max_num_seqs` decodes of the longest contexts; both
             sampled from
graphs       memory of the decode graphs, which are captured when the pool is there: the decodes'
             activations once more (graphs share theirs), and a fixed amount for each graph

`gpu_memory_utilization` is vLLM's name; there, too, it is a share of all of the GPU's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from core.model.errors import MemoryBudgetError, ModelError
from core.model.memory import MARGIN

GRAPH_BYTES = 4 << 20
"""Kept free for each graph beside its activations. An estimate: no GPU has measured it."""


class DeviceMemory(Protocol):
    """Bytes of one device. total, free: of all processes. allocated, reserved, peak: of torch's
    allocator here, by tensors, in all, and by tensors at most since `reset_peak`, which also gives
    back what the allocator has reserved and does not use."""

    def total(self) -> int: ...

    def free(self) -> int: ...

    def allocated(self) -> int: ...

    def reserved(self) -> int: ...

    def peak(self) -> int: ...

    def reset_peak(self) -> None: ...


class CudaMemory:
    """What CUDA and torch's allocator say."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def total(self) -> int:
        return int(torch.cuda.mem_get_info(self._device)[1])

    def free(self) -> int:
        return int(torch.cuda.mem_get_info(self._device)[0])

    def allocated(self) -> int:
        return torch.cuda.memory_allocated(self._device)

    def reserved(self) -> int:
        return torch.cuda.memory_reserved(self._device)

    def peak(self) -> int:
        return torch.cuda.max_memory_allocated(self._device)

    def reset_peak(self) -> None:
        torch.cuda.synchronize(self._device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self._device)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes of a device, and what each is for. utilization: share of total, 0 … 1."""

    total: int
    utilization: float
    others: int
    weights: int
    activations: int
    graphs: int

    @property
    def pool(self) -> int:
        """What is left for the KV pool; below 0 if the rest does not fit either."""
        kept = self.others + self.weights
        asked = int(self.utilization * self.total) - kept - self.activations - self.graphs
        return min(asked, self.total - kept - MARGIN)  # what a pool must leave (`KVStore`)

    def num_blocks(self, bytes_per_block: int, least: int = 1) -> int:
        """Blocks that fit. Raises MemoryBudgetError if these are fewer than least."""
        num_blocks = max(0, self.pool) // bytes_per_block
        if num_blocks < least:
            raise MemoryBudgetError(
                f"no room for {least:,} KV block{'s' * (least != 1)} of {_gb(bytes_per_block)}: "
                f"{self}; raise gpu_memory_utilization, or lower max_num_batched_tokens or "
                "max_num_seqs"
            )
        return num_blocks

    def __str__(self) -> str:
        return (
            f"{self.utilization:g} of {_gb(self.total)} is {_gb(self.utilization * self.total)}, "
            f"less {_gb(self.others)} of others, {_gb(self.weights)} of weights, "
            f"{_gb(self.activations)} of activations, {_gb(self.graphs)} for graphs"
        )


def measure(
    memory: DeviceMemory,
    utilization: float,
    prompts: Callable[[], None],
    decodes: Callable[[], None],
    num_graphs: int,
) -> MemoryPlan:
    """Run the most demanding steps, and see what they take.

    prompts, decodes: each computes one. num_graphs: to be captured later. Raises ModelError for a
    utilization that is no share, MemoryBudgetError where the steps do not fit.
    """
    if not 0.0 < utilization <= 1.0:
        raise ModelError(
            f"gpu_memory_utilization {utilization:g} is no share: give a number above 0, at most 1"
        )
    try:
        decodes()  # once, so that what stays (workspaces of libraries, buffers) counts as weights
        memory.reset_peak()
        weights = memory.allocated()
        of_decodes = _peak_of(memory, decodes) - weights
        of_prompts = _peak_of(memory, prompts) - weights
    except torch.OutOfMemoryError as error:
        raise MemoryBudgetError(
            f"a step does not fit beside the weights in {_gb(memory.total())}: lower "
            "max_num_batched_tokens or max_num_seqs, or choose a smaller model"
        ) from error
    total = memory.total()
    others = max(0, total - memory.free() - memory.reserved())
    memory.reset_peak()
    return MemoryPlan(
        total=total,
        utilization=utilization,
        others=others,
        weights=weights,
        activations=max(of_prompts, of_decodes),
        graphs=num_graphs * GRAPH_BYTES + of_decodes if num_graphs else 0,
    )


def _peak_of(memory: DeviceMemory, step: Callable[[], None]) -> int:
    memory.reset_peak()
    step()
    return memory.peak()


def _gb(num_bytes: float) -> str:
    return f"{num_bytes / 1e9:,.2f} GB"
