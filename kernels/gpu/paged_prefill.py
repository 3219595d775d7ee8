"""Paged prefill attention: a program has some queries of one head, and goes through its keys."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.gpu.arguments import LOG2_E, blocks_arguments, power_of_two
from kernels.gpu.launch import INTERPRETED, Launch
from kernels.gpu.tiles import attend
from kernels.kv_blocks import KVBlocks


@triton.jit
def prefill_kernel(
    query, key, value, key_scale, value_scale, block_table, query_start_loc, seq_lens, out, scale,
    query_row, query_head, key_block, key_head, key_token, value_block, value_head, value_token,
    key_scale_block, key_scale_head, key_scale_token, value_scale_block, value_scale_head,
    value_scale_token, table_row, out_row, out_head,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr, WINDOW: tl.constexpr,
    KEY_FORMAT: tl.constexpr, VALUE_FORMAT: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, BLOCK_D: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """Program (t, h, i): tile t of sequence i's queries, query head h.

    Heads of one group lie side by side in the grid: what one reads, the next finds in the L2.
    """
    head = tl.program_id(1)
    sequence = tl.program_id(2).to(tl.int64)
    kv_head = (head // GROUP).to(tl.int64)
    start_row = tl.load(query_start_loc + sequence).to(tl.int64)
    num_queries = (tl.load(query_start_loc + sequence + 1) - start_row).to(tl.int32)
    tile = tl.program_id(0) * ROWS
    if tile < num_queries:
        length = tl.load(seq_lens + sequence).to(tl.int32)
        rows = tile + tl.arange(0, ROWS)
        computed = length - num_queries
        dims = tl.arange(0, BLOCK_D)
        mask = (rows < num_queries)[:, None] & (dims < HEAD_DIM)[None, :]
        rows_in_all = (start_row + rows)[:, None]
        q = tl.load(
            query + rows_in_all * query_row + head * query_head + dims[None, :],
            mask=mask,
            other=0.0,
        )
        first = 0
        if WINDOW > 0:
            first = tl.maximum(computed + tile + 1 - WINDOW, 0)
        last = tl.minimum(computed + tile + ROWS, length)
        largest = tl.full([ROWS], float("-inf"), tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        result = tl.zeros([ROWS, BLOCK_D], tl.float32)
        for start in range(first // KEYS * KEYS, last, KEYS):
            positions = start + tl.arange(0, KEYS)
            in_tile = (positions >= first) & (positions < last)
            behind = (computed + rows)[:, None] - positions[None, :]
            visible = in_tile[None, :] & (behind >= 0)
            if WINDOW > 0:
                visible = visible & (behind < WINDOW)
            largest, total, result = attend(
                q, key + kv_head * key_head, value + kv_head * value_head,
                key_scale + kv_head * key_scale_head, value_scale + kv_head * value_scale_head,
                block_table + sequence * table_row, positions, in_tile, visible, largest,
                total, result, scale, key_block, key_token, value_block, value_token,
                key_scale_block, key_scale_token, value_scale_block, value_scale_token,
                HEAD_DIM, BLOCK_SIZE, BLOCK_D, KEY_FORMAT, VALUE_FORMAT, UPCAST,
            )  # fmt: skip
        result /= tl.where(total > 0, total, 1.0)[:, None]
        tl.store(out + rows_in_all * out_row + head * out_head + dims[None, :], result, mask=mask)


def prefill(
    query: torch.Tensor,
    blocks: KVBlocks,
    block_table: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    max_query_len: int,
    scale: float,
    window: int | None,
) -> torch.Tensor:
    """See `kernels.paged_prefill`."""
    out = torch.zeros(query.shape, dtype=query.dtype, device=query.device)
    prefill_launch(
        query, blocks, block_table, query_start_loc, seq_lens, max_query_len, scale, window, out
    )()
    return out


def prefill_launch(
    query: torch.Tensor,
    blocks: KVBlocks,
    block_table: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    max_query_len: int,
    scale: float,
    window: int | None,
    out: torch.Tensor,
) -> Launch:
    """out: as query; rows of no sequence are left as they are."""
    _, n_q, d = query.shape
    block_d = power_of_two(d, 16)
    quantised = blocks.key_scale is not None or blocks.value_scale is not None
    rows, keys, num_warps, num_stages = _tile(block_d, query.dtype, quantised)
    rows = min(rows, power_of_two(max_query_len, 16))
    return Launch(
        prefill_kernel,
        (-(-max_query_len // rows), n_q, len(seq_lens)),
        {
            **blocks_arguments(blocks),
            "query": query,
            "query_row": query.stride(0),
            "query_head": query.stride(1),
            "block_table": block_table,
            "table_row": block_table.stride(0),
            "query_start_loc": query_start_loc,
            "seq_lens": seq_lens,
            "out": out,
            "out_row": out.stride(0),
            "out_head": out.stride(1),
            "scale": scale * LOG2_E,
            "GROUP": n_q // blocks.n_kv,
            "HEAD_DIM": d,
            "BLOCK_SIZE": blocks.block_size,
            "WINDOW": window or 0,
            "ROWS": rows,
            "KEYS": keys,
            "BLOCK_D": block_d,
            "UPCAST": INTERPRETED,
        },
        num_warps,
        num_stages,
    )


def _tile(block_d: int, dtype: torch.dtype, quantised: bool) -> tuple[int, int, int, int]:
    """Queries and keys of a tile, warps, stages. The result of a tile stays in registers: 128 · 128
    float32 numbers are 64 of each of 256 threads' 255. Codes are turned into numbers in registers
    too, so their tiles are smaller; larger ones spill on an A100."""
    if block_d * dtype.itemsize > 256 or quantised:
        return 64, 32, 8, 2
    return 128, 64, 8, 2
