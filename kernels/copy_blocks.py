"""Copy whole blocks within a pool: what copy-on-write needs before a shared block is written."""

from __future__ import annotations

import torch

from kernels.dispatch import moves_with_triton


def copy_blocks(
    pool: torch.Tensor,
    sources: torch.Tensor,
    destinations: torch.Tensor,
    backend: str | None = None,
) -> None:
    """pool[:, destinations[i]] = pool[:, sources[i]], in the order of i.

    pool: [2, num_blocks, …], contiguous, K and V of one layer; their scales, [2, num_blocks, …] as
    well, are copied by another call, or a block's codes would be read with another block's scale.
    sources, destinations: [n] integers. The order matters: one copy's destination may be the next
    one's source.
    """
    if sources.shape != destinations.shape or sources.ndim != 1:
        raise ValueError(
            f"{list(sources.shape)} sources, but {list(destinations.shape)} destinations"
        )
    if moves_with_triton(backend, pool):
        from kernels.gpu.blocks import copy

        copy(pool, sources, destinations)
    else:
        copy_blocks_torch(pool, sources, destinations)


def copy_blocks_torch(
    pool: torch.Tensor, sources: torch.Tensor, destinations: torch.Tensor
) -> None:
    """The same, one by one."""
    for source, destination in zip(sources.tolist(), destinations.tolist(), strict=True):
        pool[:, destination] = pool[:, source]
