"""Collect scattered blocks into one piece of memory, to be swapped out or sent away."""

from __future__ import annotations

import torch

from kernels.dispatch import moves_with_triton


def gather_blocks(
    pool: torch.Tensor, block_ids: torch.Tensor, backend: str | None = None
) -> torch.Tensor:
    """pool [2, num_blocks, …], contiguous → [2, n, …]: the blocks [n], in that order.

    block_ids: integers; −1 gives a block of zeros. Scales are gathered by another call.
    """
    if moves_with_triton(backend, pool):
        from kernels.gpu.blocks import gather

        return gather(pool, block_ids)
    return gather_blocks_torch(pool, block_ids)


def gather_blocks_torch(pool: torch.Tensor, block_ids: torch.Tensor) -> torch.Tensor:
    """The same with torch's indexing, of bytes: torch cannot index every dtype."""
    found = pool.view(torch.uint8)[:, block_ids.long().clamp(min=0)]
    found[:, block_ids < 0] = 0
    return found.view(pool.dtype)
