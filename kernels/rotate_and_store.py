"""Rotary positions (RoFormer, Su et al. 2021) on queries and keys, and the store of K and V.

Shapes: T tokens, n_q query heads, n_kv KV heads, d head_dim.
"""

from __future__ import annotations

import torch

from kernels.dispatch import uses_triton
from kernels.kv_blocks import KVBlocks
from kernels.store_kv import store_kv, store_kv_torch


def rotate_and_store(
    qkv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    blocks: KVBlocks,
    slot_mapping: torch.Tensor,
    norm_weight: torch.Tensor | None = None,
    eps: float = 0.0,
    dynamic: bool = True,
    backend: str | None = None,
) -> None:
    """Normalise (where there are weights) and turn queries and keys in place; store K and V.

    qkv: [T, n_q + 2 · n_kv, d], contiguous. cos, sin: [T, d / 2] float32, contiguous; pair (i, i +
    d / 2) turns by angle i. blocks, slot_mapping, dynamic: as in `store_kv`. norm_weight: [n_q +
    n_kv, d] float32, contiguous. One pass over qkv for native blocks; for others a second kernel
    stores.
    """
    t, heads, d = qkv.shape
    if heads <= 2 * blocks.n_kv or d != blocks.head_dim or not qkv.is_contiguous():
        raise ValueError(f"qkv {list(qkv.shape)} does not fit {blocks.n_kv} KV heads of "
                         f"{blocks.head_dim}")  # fmt: skip
    if cos.shape != (t, d // 2) or sin.shape != cos.shape or slot_mapping.shape != (t,):
        raise ValueError(f"expected {t} rows of {d // 2} angles and {t} slots, got "
                         f"{list(cos.shape)} and {list(slot_mapping.shape)}")  # fmt: skip
    if uses_triton(backend, qkv.device, qkv.dtype, d):
        from kernels.gpu.rotate_and_store import rotate

        native = blocks.key_scale is None and blocks.value_scale is None
        rotate(qkv, cos, sin, blocks, slot_mapping if native else None, norm_weight, eps)
        if not native:
            key, value = _sides(qkv, blocks)
            store_kv(key, value, blocks, slot_mapping, dynamic, "triton")
    else:
        rotate_and_store_torch(qkv, cos, sin, blocks, slot_mapping, norm_weight, eps, dynamic)


def rotate_and_store_torch(
    qkv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    blocks: KVBlocks,
    slot_mapping: torch.Tensor,
    norm_weight: torch.Tensor | None = None,
    eps: float = 0.0,
    dynamic: bool = True,
) -> None:
    """The same in float32, rounded once."""
    own = qkv[:, : -blocks.n_kv].float()
    if norm_weight is not None:
        own *= torch.rsqrt(own.square().mean(-1, keepdim=True) + eps) * norm_weight
    low, high = own.chunk(2, -1)
    c, s = cos[:, None], sin[:, None]
    qkv[:, : -blocks.n_kv] = torch.cat((low * c - high * s, high * c + low * s), -1).to(qkv.dtype)
    store_kv_torch(*_sides(qkv, blocks), blocks, slot_mapping, dynamic)


def _sides(qkv: torch.Tensor, blocks: KVBlocks) -> tuple[torch.Tensor, torch.Tensor]:
    return qkv[:, -2 * blocks.n_kv : -blocks.n_kv], qkv[:, -blocks.n_kv :]
