"""Pools, tables and queries on the device, from a seed; and how many bytes and operations attention
over them must cost at least."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import torch

from bench.gpu.shapes import DecodeCase, Heads, PrefillCase
from kernels.kv_blocks import FORMATS, LARGEST, KVBlocks, dynamic_scale, encode

_DTYPES = {form: dtype for dtype, form in FORMATS.items()}
_PER_TENSOR = {"fp8_e4m3"}
_LARGEST_NORMAL = 6.0
"""No drawn number is likely to exceed it: what one scale for a whole tensor must reach."""

_AT_ONCE = 1 << 26
"""Numbers drawn in float32 at a time, so that filling a pool takes little memory beside it."""


@dataclass(frozen=True, slots=True)
class Pool:
    """One layer's blocks, and sequences of equal length in them, scattered.

    block_table: [B, W] int32, every block used once. seq_lens: [B] int32.
    """

    blocks: KVBlocks
    block_table: torch.Tensor
    seq_lens: torch.Tensor
    pool: torch.Tensor
    """The blocks' memory, [2, num_blocks, n_kv, block_size, …]."""

    def contiguous(self) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V [B, n_kv, L, d] of native blocks in order, one piece of memory each."""
        length = int(self.seq_lens[0])
        sides = []
        for side in (self.blocks.key, self.blocks.value):
            gathered = side[self.block_table.long()]  # [B, W, n_kv, block_size, d]
            whole = gathered.transpose(1, 2).flatten(2, 3)
            sides.append(whole[:, :, :length].contiguous())
        return sides[0], sides[1]


def make_pool(
    batch: int,
    length: int,
    heads: Heads,
    form: str,
    block_size: int,
    dtype: torch.dtype,
    device: torch.device,
    seed: int = 0,
) -> Pool:
    """A pool that holds `batch` sequences of `length` keys each, normally distributed numbers."""
    generator = torch.Generator(device).manual_seed(seed)
    width = -(-length // block_size)
    num_blocks = batch * width
    shape = (2, num_blocks, heads.n_kv, block_size)
    stored_d = heads.d // 2 if form == "int4" else heads.d
    pool = torch.empty(*shape, stored_d, dtype=_DTYPES.get(form, dtype), device=device)
    scales = None
    if form in _PER_TENSOR:
        one = torch.tensor(_LARGEST_NORMAL / LARGEST[form], device=device)
        scales = one.expand(shape)
    elif form != "native":
        scales = torch.empty(shape, dtype=torch.float32, device=device)
    step = max(1, _AT_ONCE // (heads.n_kv * block_size * heads.d))
    for side in range(2):
        for first in range(0, num_blocks, step):
            part = (side, slice(first, first + step))
            rows = pool[part].shape[0]
            x = torch.randn(
                rows, heads.n_kv, block_size, heads.d, generator=generator, device=device
            )
            if scales is None:
                pool[part] = x
                continue
            if form not in _PER_TENSOR:
                scales[part] = dynamic_scale(x, form)
            # torch cannot copy between views of every dtype; bytes are bytes.
            pool[part].view(torch.uint8).copy_(encode(x, form, scales[part]).view(torch.uint8))
    order = torch.randperm(num_blocks, generator=generator, device=device)
    key_scale, value_scale = (None, None) if scales is None else (scales[0], scales[1])
    return Pool(
        KVBlocks(pool[0], pool[1], key_scale, value_scale),
        order.view(batch, width).to(torch.int32),
        torch.full((batch,), length, dtype=torch.int32, device=device),
        pool,
    )


def unbroken(pool: Pool) -> Pool:
    """The same native numbers with one block for each sequence: a table of one entry."""
    key, value = pool.contiguous()
    whole = torch.stack((key, value))  # [2, B, n_kv, L, d]: B blocks of L tokens
    table = torch.arange(len(key), dtype=torch.int32, device=key.device)[:, None]
    return Pool(KVBlocks(whole[0], whole[1]), table, pool.seq_lens, whole)


def draw(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, seed: int = 1
) -> torch.Tensor:
    """Normally distributed numbers."""
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn(shape, generator=generator, device=device).to(dtype)


def starts(batch: int, queries: int, device: torch.device) -> torch.Tensor:
    """query_start_loc [B + 1] int32 of sequences with as many queries each."""
    values = [0, *accumulate([queries] * batch)]
    return torch.tensor(values, dtype=torch.int32, device=device)


def key_bytes(heads: Heads, form: str, dtype: torch.dtype) -> float:
    """Bytes of one token's K and V of a layer, with the scales that are the token's own."""
    each = {"native": float(dtype.itemsize), "int4": 0.5}.get(form, 1.0) * heads.d
    if form != "native" and form not in _PER_TENSOR:
        each += 4
    return 2 * heads.n_kv * each


def decode_bytes(case: DecodeCase, dtype: torch.dtype) -> float:
    """Bytes that must move at least: each key and value once, queries and results once."""
    heads = case.heads
    queries = 2 * case.batch * heads.n_q * heads.d * dtype.itemsize
    return case.batch * case.context * key_bytes(heads, case.form, dtype) + queries


def decode_flops(case: DecodeCase) -> int:
    """Operations of both products, a multiplication and an addition being two."""
    return 4 * case.batch * case.context * case.heads.n_q * case.heads.d


def prefill_flops(case: PrefillCase) -> int:
    """The same of prefill: query i of m sees the prefix and i + 1 of the m keys."""
    m = case.queries
    pairs = m * case.prefix + m * (m + 1) // 2
    return 4 * case.batch * pairs * case.heads.n_q * case.heads.d
