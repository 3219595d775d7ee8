"""Causal attention of several tokens per sequence to its keys, read through block tables.

Whole prompts, chunks of them and suffixes after a prefix hit are one case: the queries are the last
tokens of a sequence, wherever they begin. Tile by tile as FlashAttention does it (Dao et al. 2022).

Shapes: T tokens of all B sequences end to end, n_q query heads, n_kv KV heads, d head_dim, W blocks
in the longest table.
"""

from __future__ import annotations

import torch

from kernels.dispatch import uses_triton
from kernels.kv_blocks import KVBlocks


def paged_prefill(
    query: torch.Tensor,
    blocks: KVBlocks,
    block_table: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    max_query_len: int,
    scale: float,
    window: int | None = None,
    backend: str | None = None,
) -> torch.Tensor:
    """query [T, n_q, d] → [T, n_q, d], in query's dtype. Their own K and V are stored before.

    query_start_loc: [B + 1] integers; sequence i has the rows from its start to the next one's;
    rows after the last are padding, and give 0. seq_lens: [B] integers, keys of each
    sequence: m queries see the keys up to their own, the last m. max_query_len: the most queries of
    one sequence, or more. block_table, scale, window: as in `paged_decode`.
    """
    _check(query, blocks, block_table, query_start_loc, seq_lens)
    if uses_triton(backend, query.device, query.dtype, blocks.head_dim):
        from kernels.gpu.paged_prefill import prefill

        return prefill(
            query, blocks, block_table, query_start_loc, seq_lens, max_query_len, scale, window
        )
    return paged_prefill_torch(query, blocks, block_table, query_start_loc, seq_lens, scale, window)


def paged_prefill_torch(
    query: torch.Tensor,
    blocks: KVBlocks,
    block_table: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    window: int | None = None,
) -> torch.Tensor:
    """The same, sequence by sequence, in float32."""
    out = torch.zeros_like(query)
    starts = query_start_loc.tolist()
    for i, length in enumerate(seq_lens.tolist()):
        own = slice(starts[i], starts[i + 1])
        m = own.stop - own.start
        if m == 0 or length == 0:
            continue
        first = 0 if window is None else max(0, length - m + 1 - window)
        first_block = first // blocks.block_size
        used = block_table[i, first_block : -(-length // blocks.block_size)].long()
        before = first_block * blocks.block_size
        key, value = (side[: length - before] for side in blocks.read(used))  # [L, n_kv, d]
        keys = torch.arange(before, length, device=query.device)[None, :]
        queries = torch.arange(length - m, length, device=query.device)[:, None]
        hidden = keys > queries
        if window is not None:
            hidden |= keys <= queries - window
        rows = query[own].float().view(m, blocks.n_kv, -1, blocks.head_dim)
        scores = torch.einsum("mhgd,lhd->hgml", rows, key) * scale
        weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), -1)
        out[own] = torch.einsum("hgml,lhd->mhgd", weights, value).reshape(m, *query.shape[1:])
    return out


def _check(
    query: torch.Tensor,
    blocks: KVBlocks,
    block_table: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
) -> None:
    _, n_q, d = query.shape
    b = len(seq_lens)
    if d != blocks.head_dim or n_q % blocks.n_kv or query.stride(-1) != 1:
        raise ValueError(
            f"queries {list(query.shape)} do not fit {blocks.n_kv} KV heads of {blocks.head_dim}"
        )
    if block_table.ndim != 2 or len(block_table) != b or query_start_loc.shape != (b + 1,):
        raise ValueError(
            f"{b} sequences need as many tables and {b + 1} starts, not "
            f"{list(block_table.shape)} and {list(query_start_loc.shape)}"
        )
