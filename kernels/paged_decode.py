"""Attention of one new token per sequence to its keys, read through block tables (PagedAttention,
Kwon et al. 2023), with the keys of a sequence split among programs (Flash-Decoding, Dao et al.
2023).

Shapes: B sequences, n_q query heads, n_kv KV heads, d head_dim, W blocks in the longest table.
"""

from __future__ import annotations

import torch

from kernels.dispatch import uses_triton
from kernels.kv_blocks import KVBlocks


def paged_decode(
    query: torch.Tensor,
    blocks: KVBlocks,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    window: int | None = None,
    keys_per_split: int | None = None,
    backend: str | None = None,
) -> torch.Tensor:
    """query [B, n_q, d] → [B, n_q, d], in query's dtype.

    block_table: [B, W] integers; only the entries of keys in view are read. seq_lens: [B] integers,
    keys of each sequence, the query's own the last; 0: a padded row, whose output is 0. scale: of
    the scores, usually d^−½. window: the query sees so many keys, its own the last. A table may
    begin at a later block than the sequence does, with seq_lens counted from there.

    keys_per_split: a multiple of 64; by default it follows from W · block_size. While it stays the
    same, a sequence's result does not depend on what else is in the batch, to the bit: the places
    where its keys are split depend on it alone. Nothing waits for the device, so a call with fixed
    shapes can be part of a CUDA graph.
    """
    _check(query, blocks, block_table, seq_lens)
    if uses_triton(backend, query.device, query.dtype, blocks.head_dim):
        from kernels.gpu.paged_decode import decode

        return decode(query, blocks, block_table, seq_lens, scale, window, keys_per_split)
    return paged_decode_torch(query, blocks, block_table, seq_lens, scale, window)


def paged_decode_torch(
    query: torch.Tensor,
    blocks: KVBlocks,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    window: int | None = None,
) -> torch.Tensor:
    """The same, sequence by sequence, in float32."""
    out = torch.zeros_like(query)
    for i, length in enumerate(seq_lens.tolist()):
        if length == 0:
            continue
        first = 0 if window is None else max(0, length - window)
        first_block = first // blocks.block_size
        used = block_table[i, first_block : -(-length // blocks.block_size)].long()
        before = first_block * blocks.block_size
        view = slice(first - before, length - before)
        key, value = (side[view] for side in blocks.read(used))  # [L, n_kv, d]
        rows = query[i].float().view(blocks.n_kv, -1, blocks.head_dim)
        weights = torch.softmax(torch.einsum("hgd,lhd->hgl", rows, key) * scale, -1)
        out[i] = torch.einsum("hgl,lhd->hgd", weights, value).reshape(query.shape[1:])
    return out


def _check(
    query: torch.Tensor, blocks: KVBlocks, block_table: torch.Tensor, seq_lens: torch.Tensor
) -> None:
    b, n_q, d = query.shape
    if d != blocks.head_dim or n_q % blocks.n_kv or query.stride(-1) != 1:
        raise ValueError(
            f"queries {list(query.shape)} do not fit {blocks.n_kv} KV heads of {blocks.head_dim}"
        )
    if block_table.ndim != 2 or len(block_table) != b or seq_lens.shape != (b,):
        raise ValueError(
            f"{b} queries need a block table and a length each, not "
            f"{list(block_table.shape)} and {list(seq_lens.shape)}"
        )
