"""Paged decode attention in two kernels: every split of every sequence's keys, then their sum."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.gpu.arguments import LOG2_E, blocks_arguments, power_of_two
from kernels.gpu.launch import INTERPRETED, Launch
from kernels.gpu.tiles import attend
from kernels.kv_blocks import KVBlocks

_ROWS = 64
"""Query heads of one program at most. A group of fewer than 16 is filled up to 16, the least that a
tensor core multiplies; one of more is cut, and each part reads the keys again (from the L2)."""

_SPLITS = 64
"""Splits of the longest sequence, about; each has _LEAST_KEYS at least."""

_LEAST_KEYS = 256


@triton.jit
def split_kernel(
    query, key, value, key_scale, value_scale, block_table, seq_lens, partial, lse, scale,
    query_row, query_head, key_block, key_head, key_token, value_block, value_head, value_token,
    key_scale_block, key_scale_head, key_scale_token, value_scale_block, value_scale_head,
    value_scale_token, table_row, num_splits,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr, WINDOW: tl.constexpr,
    KEYS_PER_SPLIT: tl.constexpr, KEY_FORMAT: tl.constexpr, VALUE_FORMAT: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, BLOCK_D: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """Program (i, j, s): split s of sequence i's keys, part j of the KV heads' query heads.

    Writes partial [B, n_q, num_splits, d], the split's own attention, and lse [B, n_q, num_splits],
    log₂ of its weights' sum, both float32. A split without keys in view writes nothing.
    """
    sequence = tl.program_id(0).to(tl.int64)
    parts = (GROUP + ROWS - 1) // ROWS
    kv_head = (tl.program_id(1) // parts).to(tl.int64)
    split = tl.program_id(2)
    length = tl.load(seq_lens + sequence).to(tl.int32)
    first = split * KEYS_PER_SPLIT
    last = tl.minimum(first + KEYS_PER_SPLIT, length)
    if WINDOW > 0:
        first = tl.maximum(first, length - WINDOW)
    if first < last:
        rows = tl.program_id(1) % parts * ROWS + tl.arange(0, ROWS)
        heads = kv_head * GROUP + rows
        dims = tl.arange(0, BLOCK_D)
        mask = (rows < GROUP)[:, None] & (dims < HEAD_DIM)[None, :]
        q = tl.load(
            query + sequence * query_row + heads[:, None] * query_head + dims[None, :],
            mask=mask,
            other=0.0,
        )
        largest = tl.full([ROWS], float("-inf"), tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        out = tl.zeros([ROWS, BLOCK_D], tl.float32)
        for start in range(first // KEYS * KEYS, last, KEYS):
            positions = start + tl.arange(0, KEYS)
            in_view = (positions >= first) & (positions < last)
            largest, total, out = attend(
                q, key + kv_head * key_head, value + kv_head * value_head,
                key_scale + kv_head * key_scale_head, value_scale + kv_head * value_scale_head,
                block_table + sequence * table_row, positions, in_view, in_view[None, :], largest,
                total, out, scale, key_block, key_token, value_block, value_token,
                key_scale_block, key_scale_token, value_scale_block, value_scale_token,
                HEAD_DIM, BLOCK_SIZE, BLOCK_D, KEY_FORMAT, VALUE_FORMAT, UPCAST,
            )  # fmt: skip
        heads_in_all = tl.num_programs(1) // parts * GROUP
        slots = (sequence * heads_in_all + heads) * num_splits + split
        tl.store(lse + slots, largest + tl.log2(total), mask=rows < GROUP)
        tl.store(
            partial + slots[:, None] * HEAD_DIM + dims[None, :], out / total[:, None], mask=mask
        )


@triton.jit
def combine_kernel(
    partial, lse, seq_lens, out, out_row, out_head, num_splits,
    HEAD_DIM: tl.constexpr, WINDOW: tl.constexpr, KEYS_PER_SPLIT: tl.constexpr,
    BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Program (i, h): the splits of sequence i, head h, weighted by their sums. 0 without any."""
    sequence, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    slot = (sequence * tl.num_programs(1) + head) * num_splits
    dims = tl.arange(0, BLOCK_D)
    length = tl.load(seq_lens + sequence).to(tl.int32)
    first = 0
    if WINDOW > 0:
        first = tl.maximum(length - WINDOW, 0) // KEYS_PER_SPLIT
    largest = tl.full([BLOCK_D], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_D], tl.float32)
    result = tl.zeros([BLOCK_D], tl.float32)
    for split in range(first, tl.cdiv(length, KEYS_PER_SPLIT)):
        weight = tl.load(lse + slot + split)
        part = tl.load(partial + (slot + split) * HEAD_DIM + dims, mask=dims < HEAD_DIM, other=0.0)
        now = tl.maximum(largest, weight)
        result = result * tl.exp2(largest - now) + part * tl.exp2(weight - now)
        total = total * tl.exp2(largest - now) + tl.exp2(weight - now)
        largest = now
    result /= tl.where(total > 0, total, 1.0)
    tl.store(out + sequence * out_row + head * out_head + dims, result, mask=dims < HEAD_DIM)


def decode(
    query: torch.Tensor,
    blocks: KVBlocks,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    window: int | None,
    keys_per_split: int | None,
) -> torch.Tensor:
    """See `kernels.paged_decode`."""
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    for launch in decode_launches(
        query, blocks, block_table, seq_lens, scale, window, keys_per_split, out
    ):
        launch()
    return out


def decode_launches(
    query: torch.Tensor,
    blocks: KVBlocks,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    window: int | None,
    keys_per_split: int | None,
    out: torch.Tensor,
) -> list[Launch]:
    """The two launches, in order. out: as query; the second writes all of it."""
    b, n_q, d = query.shape
    group = n_q // blocks.n_kv
    most_keys = max(1, block_table.shape[1] * blocks.block_size)
    if keys_per_split is None:
        keys_per_split = power_of_two(-(-most_keys // _SPLITS), _LEAST_KEYS)
    num_splits = -(-most_keys // keys_per_split)
    rows, block_d = min(_ROWS, power_of_two(group, 16)), power_of_two(d, 16)
    quantised = blocks.key_scale is not None or blocks.value_scale is not None
    keys, num_warps, num_stages = _tile(block_d, query.dtype, quantised)
    if keys_per_split % keys:
        raise ValueError(f"keys_per_split must be a multiple of {keys}, not {keys_per_split}")
    partial = query.new_empty((b, n_q, num_splits, d), dtype=torch.float32)
    lse = query.new_empty((b, n_q, num_splits), dtype=torch.float32)
    shared = {
        "HEAD_DIM": d,
        "WINDOW": window or 0,
        "KEYS_PER_SPLIT": keys_per_split,
        "BLOCK_D": block_d,
        "num_splits": num_splits,
        "partial": partial,
        "lse": lse,
        "seq_lens": seq_lens,
    }
    split = Launch(
        split_kernel,
        (b, blocks.n_kv * -(-group // rows), num_splits),
        {
            **shared,
            **blocks_arguments(blocks),
            "query": query,
            "query_row": query.stride(0),
            "query_head": query.stride(1),
            "block_table": block_table,
            "table_row": block_table.stride(0),
            "scale": scale * LOG2_E,
            "GROUP": group,
            "BLOCK_SIZE": blocks.block_size,
            "ROWS": rows,
            "KEYS": keys,
            "UPCAST": INTERPRETED,
        },
        num_warps,
        num_stages,
    )
    combine = Launch(
        combine_kernel,
        (b, n_q),
        {**shared, "out": out, "out_row": out.stride(0), "out_head": out.stride(1)},
    )
    return [split, combine]


def _tile(block_d: int, dtype: torch.dtype, quantised: bool) -> tuple[int, int, int]:
    """Keys of a tile, warps, stages: K and V of two tiles under way at once, in an A100's 163 KiB
    also for float32 and d = 256. Codes become numbers in registers: fewer at a time."""
    return (32 if quantised or block_d * dtype.itemsize > 256 else 64), 4, 2
