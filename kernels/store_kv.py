"""Write new keys and values where their slots say, in the format of the blocks.

Shapes: T tokens of the step, n_kv KV heads, d head_dim.
"""

from __future__ import annotations

import torch

from kernels.dispatch import uses_triton
from kernels.kv_blocks import KVBlocks, dynamic_scale, encode, kv_format


def store_kv(
    key: torch.Tensor,
    value: torch.Tensor,
    blocks: KVBlocks,
    slot_mapping: torch.Tensor,
    dynamic: bool = True,
    backend: str | None = None,
) -> None:
    """key, value [T, n_kv, d] → the slots [T] of blocks; a token of slot −1 is written nowhere.

    slot_mapping: integers, none twice but −1. For 8 and 4 bits: dynamic takes a scale of each token
    and head from its own numbers and writes it beside them (the scales must have memory of their
    own); otherwise the scales that are there are used, and what is too large for them is clamped.
    """
    _check(key, value, blocks, slot_mapping, dynamic)
    if uses_triton(backend, key.device, key.dtype, blocks.head_dim):
        from kernels.gpu.store_kv import store

        store(key, value, blocks, slot_mapping, dynamic)
    else:
        store_kv_torch(key, value, blocks, slot_mapping, dynamic)


def store_kv_torch(
    key: torch.Tensor,
    value: torch.Tensor,
    blocks: KVBlocks,
    slot_mapping: torch.Tensor,
    dynamic: bool = True,
) -> None:
    """The same with torch's indexing."""
    written = slot_mapping >= 0
    slots = slot_mapping[written].long()
    where = (slots // blocks.block_size, slice(None), slots % blocks.block_size)
    for new, stored, scales in (
        (key[written], blocks.key, blocks.key_scale),
        (value[written], blocks.value, blocks.value_scale),
    ):
        if scales is None:
            stored[where] = new.to(stored.dtype)
            continue
        form = kv_format(stored)
        if dynamic:
            scales[where] = dynamic_scale(new, form)
        codes = encode(new, form, scales[where])
        # torch cannot index fp8; its bytes are bytes.
        stored.view(torch.uint8)[where] = codes.view(torch.uint8)


def _check(
    key: torch.Tensor,
    value: torch.Tensor,
    blocks: KVBlocks,
    slot_mapping: torch.Tensor,
    dynamic: bool,
) -> None:
    expected = (len(slot_mapping), blocks.n_kv, blocks.head_dim)
    if key.shape != expected or value.shape != expected:
        raise ValueError(
            f"expected K and V {list(expected)}, got {list(key.shape)} and {list(value.shape)}"
        )
    if key.stride(-1) != 1 or value.stride(-1) != 1:
        raise ValueError("the numbers of one token and head must lie side by side")
    for scales in (blocks.key_scale, blocks.value_scale):
        if scales is not None and dynamic and 0 in scales.stride():
            raise ValueError("scales of each token and head need memory of their own: [num_blocks, "
                             "n_kv, block_size], not expanded")  # fmt: skip
