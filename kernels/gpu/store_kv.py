"""Store by slot: a program writes K and V of one token, as they are or rounded to 8 or 4 bits."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.gpu.arguments import blocks_arguments, power_of_two
from kernels.gpu.launch import Launch
from kernels.kv_blocks import LARGEST, LARGEST_NUMBER, KVBlocks

_TOP = tl.constexpr(LARGEST_NUMBER)

_NUMBERS = 4096
"""Of K, or of V, that one program holds at most; a token with more heads has more programs."""


@triton.jit
def round_to_even(x):
    """|x| < 2²²: adding 1.5 · 2²³ leaves no bits for the fraction, and the sum rounds to even."""
    return (x + 12582912.0) - 12582912.0


@triton.jit
def encode_e4m3(x):
    """float32 within ±448 → uint8, rounded to even, on GPUs without the format too."""
    bits = x.to(tl.int32, bitcast=True)
    size = bits & 0x7FFFFFFF
    # 20 of float32's 23 bits of mantissa go; the exponent's bias falls from 127 to 7.
    normal = ((size + 0x7FFFF + ((size >> 20) & 1)) >> 20) - (120 << 3)
    # Below 2⁻⁶ the codes are even steps of 2⁻⁹: the last bits of 2¹⁴ + |x|.
    small = (tl.abs(x) + 16384.0).to(tl.int32, bitcast=True) - 0x46800000
    code = tl.where(size < 0x3C800000, small, normal)
    return (code | ((bits >> 24) & 0x80)).to(tl.uint8)


@triton.jit
def scale_of(top, LARGEST: tl.constexpr):
    """`kv_blocks.dynamic_scale`, of the largest number."""
    scale = tl.div_rn(tl.minimum(top, _TOP), LARGEST)
    return tl.where(scale > 0, scale, 1.0)


@triton.jit
def store_side(new, stored, scales, rows, scale_rows, heads, in_heads, new_head, stored_head,
               scale_head, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, FORMAT: tl.constexpr,
               LARGEST: tl.constexpr, DYNAMIC: tl.constexpr):  # fmt: skip
    """One token's heads, of K or of V. rows, scale_rows: where the token begins."""
    source = new + heads[:, None] * new_head
    target = stored + rows + heads[:, None] * stored_head
    scale_at = scales + scale_rows + heads * scale_head
    if FORMAT == "native":
        dims = tl.arange(0, BLOCK_D)
        mask = in_heads[:, None] & (dims < HEAD_DIM)[None, :]
        x = tl.load(source + dims[None, :], mask=mask, other=0.0)
        tl.store(target + dims[None, :], x, mask=mask)
    elif FORMAT == "int4":
        half = tl.arange(0, BLOCK_D // 2)
        mask = in_heads[:, None] & (half < HEAD_DIM // 2)[None, :]
        even = tl.load(source + 2 * half[None, :], mask=mask, other=0.0).to(tl.float32)
        odd = tl.load(source + 2 * half[None, :] + 1, mask=mask, other=0.0).to(tl.float32)
        if DYNAMIC:
            scale = scale_of(tl.maximum(tl.max(tl.abs(even), 1), tl.max(tl.abs(odd), 1)), LARGEST)
            tl.store(scale_at, scale, mask=in_heads)
        else:
            scale = tl.load(scale_at, mask=in_heads, other=1.0)
        even = round_to_even(tl.clamp(tl.div_rn(even, scale[:, None]), -LARGEST, LARGEST))
        odd = round_to_even(tl.clamp(tl.div_rn(odd, scale[:, None]), -LARGEST, LARGEST))
        byte = (even + 8.0).to(tl.int32) | ((odd + 8.0).to(tl.int32) << 4)
        tl.store(target + half[None, :], byte.to(tl.uint8), mask=mask)
    else:
        dims = tl.arange(0, BLOCK_D)
        mask = in_heads[:, None] & (dims < HEAD_DIM)[None, :]
        x = tl.load(source + dims[None, :], mask=mask, other=0.0).to(tl.float32)
        if DYNAMIC:
            scale = scale_of(tl.max(tl.abs(x), 1), LARGEST)
            tl.store(scale_at, scale, mask=in_heads)
        else:
            scale = tl.load(scale_at, mask=in_heads, other=1.0)
        x = tl.clamp(tl.div_rn(x, scale[:, None]), -LARGEST, LARGEST)
        if FORMAT == "fp8_e4m3":
            tl.store(target + dims[None, :], encode_e4m3(x), mask=mask)
        else:
            tl.store(target + dims[None, :], round_to_even(x).to(tl.int8), mask=mask)


@triton.jit
def store_kernel(
    new_key, new_value, key, value, key_scale, value_scale, slot_mapping,
    new_key_row, new_key_head, new_value_row, new_value_head,
    key_block, key_head, key_token, value_block, value_head, value_token,
    key_scale_block, key_scale_head, key_scale_token, value_scale_block, value_scale_head,
    value_scale_token,
    N_KV: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    KEY_FORMAT: tl.constexpr, VALUE_FORMAT: tl.constexpr, KEY_LARGEST: tl.constexpr,
    VALUE_LARGEST: tl.constexpr, DYNAMIC: tl.constexpr, HEADS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Program (t, j): token t, its KV heads HEADS · j … ."""
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping + row).to(tl.int64)
    if slot >= 0:
        block = slot // BLOCK_SIZE
        token = slot % BLOCK_SIZE
        heads = (tl.program_id(1) * HEADS + tl.arange(0, HEADS)).to(tl.int64)
        in_heads = heads < N_KV
        store_side(
            new_key + row * new_key_row, key, key_scale, block * key_block + token * key_token,
            block * key_scale_block + token * key_scale_token, heads, in_heads, new_key_head,
            key_head, key_scale_head, HEAD_DIM, BLOCK_D, KEY_FORMAT, KEY_LARGEST, DYNAMIC,
        )  # fmt: skip
        store_side(
            new_value + row * new_value_row, value, value_scale,
            block * value_block + token * value_token,
            block * value_scale_block + token * value_scale_token, heads, in_heads,
            new_value_head, value_head, value_scale_head, HEAD_DIM, BLOCK_D, VALUE_FORMAT,
            VALUE_LARGEST, DYNAMIC,
        )  # fmt: skip


def store(
    key: torch.Tensor,
    value: torch.Tensor,
    blocks: KVBlocks,
    slot_mapping: torch.Tensor,
    dynamic: bool,
) -> None:
    """See `kernels.store_kv`."""
    store_launch(key, value, blocks, slot_mapping, dynamic)()


def store_launch(
    key: torch.Tensor,
    value: torch.Tensor,
    blocks: KVBlocks,
    slot_mapping: torch.Tensor,
    dynamic: bool,
) -> Launch:
    arguments = blocks_arguments(blocks)
    block_d = power_of_two(blocks.head_dim, 2)
    heads = min(power_of_two(blocks.n_kv), max(1, _NUMBERS // block_d))
    return Launch(
        store_kernel,
        (len(slot_mapping), -(-blocks.n_kv // heads)),
        {
            **arguments,
            "new_key": key,
            "new_value": value,
            "slot_mapping": slot_mapping,
            "new_key_row": key.stride(0),
            "new_key_head": key.stride(1),
            "new_value_row": value.stride(0),
            "new_value_head": value.stride(1),
            "N_KV": blocks.n_kv,
            "HEAD_DIM": blocks.head_dim,
            "BLOCK_SIZE": blocks.block_size,
            "KEY_LARGEST": LARGEST.get(arguments["KEY_FORMAT"], 0.0),
            "VALUE_LARGEST": LARGEST.get(arguments["VALUE_FORMAT"], 0.0),
            "DYNAMIC": dynamic,
            "HEADS": heads,
            "BLOCK_D": block_d,
        },
    )
