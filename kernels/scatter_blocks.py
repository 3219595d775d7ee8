"""Write blocks that lie in one piece to where a pool has room for them: swap in, or receive."""

from __future__ import annotations

import torch

from kernels.dispatch import moves_with_triton


def scatter_blocks(
    pool: torch.Tensor,
    block_ids: torch.Tensor,
    blocks: torch.Tensor,
    backend: str | None = None,
) -> None:
    """blocks [2, n, …] → pool[:, block_ids], both contiguous. block_ids: [n] integers, none twice
    but −1, which is skipped."""
    expected = (pool.shape[0], len(block_ids), *pool.shape[2:])
    if blocks.shape != expected or blocks.dtype != pool.dtype:
        raise ValueError(
            f"expected {pool.dtype} {list(expected)}, got {blocks.dtype} {list(blocks.shape)}"
        )
    if moves_with_triton(backend, pool):
        from kernels.gpu.blocks import scatter

        scatter(pool, block_ids, blocks)
    else:
        scatter_blocks_torch(pool, block_ids, blocks)


def scatter_blocks_torch(pool: torch.Tensor, block_ids: torch.Tensor, blocks: torch.Tensor) -> None:
    """The same with torch's indexing, of bytes."""
    kept = block_ids >= 0
    pool.view(torch.uint8)[:, block_ids[kept].long()] = blocks.view(torch.uint8)[:, kept]
