"""Pools, tables and queries of tests, from a seed."""

from __future__ import annotations

import torch

from kernels.kv_blocks import FORMATS, KVBlocks
from kernels.store_kv import store_kv_torch

DTYPES = {form: dtype for dtype, form in FORMATS.items()}


def empty_blocks(
    form: str,
    dtype: torch.dtype,
    num_blocks: int,
    n_kv: int,
    block_size: int,
    d: int,
    device: str = "cpu",
) -> KVBlocks:
    """Blocks of a format, K and V in one tensor as the engine's pool has them, with scales of each
    token and head. What is not written yet is NaN, or the code of a large number."""
    stored = DTYPES.get(form, dtype)
    shape = (2, num_blocks, n_kv, block_size, d // 2 if form == "int4" else d)
    pool = torch.full(shape, 0x7F, dtype=torch.uint8, device=device)
    if form == "native":
        pool = torch.full(shape, float("nan"), dtype=dtype, device=device)
        return KVBlocks(pool[0], pool[1])
    pool = pool.view(stored)
    scales = torch.full(shape[:-1], float("nan"), dtype=torch.float32, device=device)
    return KVBlocks(pool[0], pool[1], scales[0], scales[1])


def filled(
    lengths: list[int],
    form: str,
    dtype: torch.dtype,
    n_kv: int,
    block_size: int,
    d: int,
    seed: int = 0,
    device: str = "cpu",
) -> tuple[KVBlocks, torch.Tensor]:
    """Blocks that hold sequences of these lengths, scattered, and their table [B, W] int32.

    Entries of the table behind a sequence's last block name a block that does not exist: reading
    one would read beside the pool.
    """
    generator = torch.Generator().manual_seed(seed)
    counts = [-(-length // block_size) for length in lengths]
    order = torch.randperm(sum(counts) + 1, generator=generator).tolist()
    blocks = empty_blocks(form, dtype, sum(counts) + 1, n_kv, block_size, d, device)
    table = torch.full((len(lengths), max(counts, default=0) + 1), 1 << 30, dtype=torch.int32)
    slots: list[int] = []
    for i, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        own = [order.pop() for _ in range(count)]
        table[i, :count] = torch.tensor(own, dtype=torch.int32)
        slots += [own[p // block_size] * block_size + p % block_size for p in range(length)]
    key, value = (
        torch.randn(len(slots), n_kv, d, generator=generator).to(dtype).to(device) for _ in "kv"
    )
    store_kv_torch(key, value, blocks, torch.tensor(slots, dtype=torch.int64, device=device))
    return blocks, table.to(device)


TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Of results near 1: the twin rounds once, a kernel also its weights before the second product."""


def assert_near(ours: torch.Tensor, twin: torch.Tensor) -> None:
    tolerance = TOLERANCE[twin.dtype]
    torch.testing.assert_close(ours, twin, rtol=tolerance, atol=tolerance)
