"""What the attention kernels share: reading stored numbers, and one step of the online softmax.

Shapes within a program: M rows (queries), N keys of a tile, D numbers of a head, filled up to a
power of two. Everything is reduced in float32.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load_codes(base, rows, in_rows, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
               FORMAT: tl.constexpr):  # fmt: skip
    """Stored numbers of N tokens, [N, BLOCK_D], unscaled; 0 where in_rows is false or past d.

    rows: [N] int64, where each token's head begins. Codes of 8 and 4 bits are exact in float16
    and in bfloat16; whole ones go by float32, since the interpreter casts none to bfloat16.
    """
    if FORMAT == "int4":
        half = tl.arange(0, BLOCK_D // 2)
        mask = in_rows[:, None] & (half < HEAD_DIM // 2)[None, :]
        pair = tl.load(base + rows[:, None] + half[None, :], mask=mask, other=0x88)
        low = (pair & 15).to(tl.int8) - 8
        high = (pair >> 4).to(tl.int8) - 8
        codes = tl.interleave(low, high).to(tl.float32)
    else:
        dims = tl.arange(0, BLOCK_D)
        mask = in_rows[:, None] & (dims < HEAD_DIM)[None, :]
        codes = tl.load(base + rows[:, None] + dims[None, :], mask=mask, other=0)
        if FORMAT == "fp8_e4m3":
            codes = decode_e4m3(codes)
        elif FORMAT == "int8":
            codes = codes.to(tl.float32)
    return codes


@triton.jit
def decode_e4m3(byte):
    """uint8 → float16, exact for every finite code, on GPUs without the format too.

    float16 has the same fields, wider: sign, 5 bits of exponent for 4, 10 of mantissa for 3. Put in
    place they say the number · 2⁻⁸, the difference of the exponents' biases; so do the subnormals.
    """
    bits = byte.to(tl.int16)
    shifted = ((bits & 0x80) << 8) | ((bits & 0x7F) << 7)
    return shifted.to(tl.float16, bitcast=True) * 256.0


@triton.jit
def matmul(a, b, UPCAST: tl.constexpr):
    """a · b in float32. Without tf32: float32 is asked for where its digits are wanted.

    UPCAST: the interpreter holds bfloat16 as whole numbers and would multiply those.
    """
    if UPCAST:
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, input_precision="ieee")


@triton.jit
def attend(query, key, value, key_scale, value_scale, table, positions, in_tile, visible, largest,
           total, out, scale, key_block, key_token, value_block, value_token, key_scale_block,
           key_scale_token, value_scale_block, value_scale_token,
           HEAD_DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr, BLOCK_D: tl.constexpr,
           KEY_FORMAT: tl.constexpr, VALUE_FORMAT: tl.constexpr, UPCAST: tl.constexpr):  # fmt: skip
    """One tile of N keys into the running softmax (Milakov & Gimelshein 2018) of M rows.

    query: [M, BLOCK_D]. key, value, their scales: pointers to the KV head; *_block, *_token: their
    strides. table: the sequence's row of the block table. positions [N]: of the keys; in_tile [N]:
    which of them to read at all. visible: [M, N], or [1, N] where all rows see the same. largest,
    total [M], out [M, BLOCK_D]: the state. scale: of the scores, log₂ e in it.
    """
    block = tl.load(table + positions // BLOCK_SIZE, mask=in_tile, other=0).to(tl.int64)
    token = (positions % BLOCK_SIZE).to(tl.int64)
    key_rows = block * key_block + token * key_token
    value_rows = block * value_block + token * value_token
    keys = load_codes(key, key_rows, in_tile, HEAD_DIM, BLOCK_D, KEY_FORMAT).to(query.dtype)
    scores = matmul(query, tl.trans(keys), UPCAST) * scale
    if KEY_FORMAT != "native":
        scale_rows = block * key_scale_block + token * key_scale_token
        scores *= tl.load(key_scale + scale_rows, mask=in_tile, other=0.0)[None, :]
    scores = tl.where(visible, scores, float("-inf"))
    now = tl.maximum(largest, tl.max(scores, 1))
    # A row that has seen no key yet: −∞ − −∞ would be NaN.
    base = tl.where(now == float("-inf"), 0.0, now)
    weights = tl.exp2(scores - base[:, None])
    shrunk = tl.exp2(largest - base)
    total = total * shrunk + tl.sum(weights, 1)
    values = load_codes(value, value_rows, in_tile, HEAD_DIM, BLOCK_D, VALUE_FORMAT).to(query.dtype)
    if VALUE_FORMAT == "native":
        part = matmul(weights.to(query.dtype), values, UPCAST)
    else:
        # The scales go into the weights, M · N products instead of N · D; relative to the tile's
        # largest, so that small ones are not lost in float16.
        scale_rows = block * value_scale_block + token * value_scale_token
        scales = tl.load(value_scale + scale_rows, mask=in_tile, other=0.0)
        top = tl.maximum(tl.max(scales, 0), 1e-30)
        weights *= (scales / top)[None, :]
        part = matmul(weights.to(query.dtype), values, UPCAST) * top
    return now, total, out * shrunk[:, None] + part
