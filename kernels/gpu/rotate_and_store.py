"""RoPE and the store of K and V in one pass: a program has some heads of one token."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.gpu.arguments import blocks_arguments, power_of_two
from kernels.gpu.launch import Launch
from kernels.kv_blocks import KVBlocks

_NUMBERS = 2048
"""Of one program, in two halves of heads."""


@triton.jit
def rotate_kernel(
    qkv, cos, sin, norm_weight, slot_mapping, key, value, eps,
    key_block, key_head, key_token, value_block, value_head, value_token,
    N_Q: tl.constexpr, N_KV: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    NORM: tl.constexpr, STORE: tl.constexpr, HEADS: tl.constexpr, BLOCK_HALF: tl.constexpr,
):  # fmt: skip
    """Program (t, j): heads HEADS · j … of token t, each as its first and its second half."""
    row = tl.program_id(0).to(tl.int64)
    heads = (tl.program_id(1) * HEADS + tl.arange(0, HEADS)).to(tl.int64)
    half = tl.arange(0, BLOCK_HALF)
    HALF: tl.constexpr = HEAD_DIM // 2
    in_half = (half < HALF)[None, :]
    mask = (heads < N_Q + 2 * N_KV)[:, None] & in_half
    turned = (heads < N_Q + N_KV)[:, None]
    at = qkv + (row * (N_Q + 2 * N_KV) + heads[:, None]) * HEAD_DIM + half[None, :]
    low = tl.load(at, mask=mask, other=0.0).to(tl.float32)
    high = tl.load(at + HALF, mask=mask, other=0.0).to(tl.float32)
    a, b = low, high
    if NORM:
        mean = tl.sum(low * low + high * high, 1) / HEAD_DIM
        size = tl.rsqrt(mean + eps)[:, None]
        weight = norm_weight + heads[:, None] * HEAD_DIM + half[None, :]
        a *= size * tl.load(weight, mask=mask & turned, other=0.0)
        b *= size * tl.load(weight + HALF, mask=mask & turned, other=0.0)
    c = tl.load(cos + row * HALF + half, mask=half < HALF, other=0.0)[None, :]
    s = tl.load(sin + row * HALF + half, mask=half < HALF, other=0.0)[None, :]
    low = tl.where(turned, a * c - b * s, low).to(qkv.dtype.element_ty)
    high = tl.where(turned, b * c + a * s, high).to(qkv.dtype.element_ty)
    tl.store(at, low, mask=mask & turned)
    tl.store(at + HALF, high, mask=mask & turned)
    if STORE:
        slot = tl.load(slot_mapping + row).to(tl.int64)
        block, token = slot // BLOCK_SIZE, slot % BLOCK_SIZE
        stored = tl.where(mask, slot, -1) >= 0
        is_key = stored & turned & (heads >= N_Q)[:, None]
        to = key + block * key_block + token * key_token + half[None, :]
        to += (heads - N_Q)[:, None] * key_head
        tl.store(to, low, mask=is_key)
        tl.store(to + HALF, high, mask=is_key)
        is_value = stored & (heads >= N_Q + N_KV)[:, None]
        to = value + block * value_block + token * value_token + half[None, :]
        to += (heads - N_Q - N_KV)[:, None] * value_head
        tl.store(to, low, mask=is_value)
        tl.store(to + HALF, high, mask=is_value)


def rotate(
    qkv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    blocks: KVBlocks,
    slot_mapping: torch.Tensor | None,
    norm_weight: torch.Tensor | None,
    eps: float,
) -> None:
    """See `kernels.rotate_and_store`. slot_mapping: None to store nothing."""
    rotate_launch(qkv, cos, sin, blocks, slot_mapping, norm_weight, eps)()


def rotate_launch(
    qkv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    blocks: KVBlocks,
    slot_mapping: torch.Tensor | None,
    norm_weight: torch.Tensor | None,
    eps: float,
) -> Launch:
    """What is not given is not read; another tensor stands in for it."""
    t, all_heads, d = qkv.shape
    half = power_of_two(d // 2)
    heads = min(power_of_two(all_heads), max(1, _NUMBERS // (2 * half)))
    arguments = {k: v for k, v in blocks_arguments(blocks).items()
                 if "scale" not in k and "FORMAT" not in k}  # fmt: skip
    return Launch(
        rotate_kernel,
        (t, -(-all_heads // heads)),
        {
            **arguments,
            "qkv": qkv,
            "cos": cos,
            "sin": sin,
            "norm_weight": cos if norm_weight is None else norm_weight,
            "slot_mapping": cos if slot_mapping is None else slot_mapping,
            "eps": eps,
            "N_Q": all_heads - 2 * blocks.n_kv,
            "N_KV": blocks.n_kv,
            "HEAD_DIM": d,
            "BLOCK_SIZE": blocks.block_size,
            "NORM": norm_weight is not None,
            "STORE": slot_mapping is not None,
            "HEADS": heads,
            "BLOCK_HALF": half,
        },
    )
