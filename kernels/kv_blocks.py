"""One layer's pool of KV blocks as the kernels see it, and the formats its numbers may have.

Shapes: n_kv KV heads, d head_dim. A block holds block_size tokens; slot s is token s mod block_size
of block s // block_size. Inside a block the tokens of one head lie together.

A format is told by the dtype of what is stored::

    float32, float16, bfloat16    the number itself
    int8                          code · scale, codes −127 … 127
    float8_e4m3fn                 code · scale, codes −448 … 448 (OCP 8-bit floating point, 2023)
    uint8                         int4: two codes in a byte, −7 … 7, stored with 8 added; number 2j
                                  of a head in the low half of byte j, 2j + 1 in the high half

Scales have the shape [num_blocks, n_kv, block_size] whatever shares one: a scale of the whole
tensor or of a head is one number seen under many indices (`Tensor.expand`, strides of 0), a scale
of a token and head has memory of its own and goes wherever its block goes. K and V have separate
formats and scales: keys have outlier channels that values have not (KIVI, Liu et al. 2024).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

FORMATS = {torch.int8: "int8", torch.float8_e4m3fn: "fp8_e4m3", torch.uint8: "int4"}
"""Dtype of what is stored → format; any other dtype is stored as it is ("native")."""

LARGEST = {"int8": 127.0, "fp8_e4m3": 448.0, "int4": 7.0}
"""Largest code. What lies above it is clamped to it: an overflow is never NaN."""

LARGEST_NUMBER = 2.0**100
"""The largest number for which a scale is made. What lies above, an infinity too, is clamped to it:
read back it is finite, and so are its products with a query."""


def kv_format(stored: torch.Tensor) -> str:
    """ "native", "int8", "fp8_e4m3" or "int4"."""
    return FORMATS.get(stored.dtype, "native")


@dataclass(frozen=True, slots=True)
class KVBlocks:
    """One layer's K and V, and their scales.

    key, value: [num_blocks, n_kv, block_size, d], d / 2 bytes instead of d numbers for int4; any
    strides but that the last is 1. key_scale, value_scale: [num_blocks, n_kv, block_size] float32,
    any strides; None if the format is native. Raises ValueError if they do not fit each other.
    """

    key: torch.Tensor
    value: torch.Tensor
    key_scale: torch.Tensor | None = None
    value_scale: torch.Tensor | None = None

    def __post_init__(self) -> None:
        if self.key.shape[:3] != self.value.shape[:3] or self.key.ndim != 4:
            raise ValueError(f"K {list(self.key.shape)} and V {list(self.value.shape)} differ")
        if self.head_dim != _numbers(self.value):
            raise ValueError(f"K has head_dim {self.head_dim}, V has {_numbers(self.value)}")
        for stored, scale in ((self.key, self.key_scale), (self.value, self.value_scale)):
            if stored.stride(-1) != 1:
                raise ValueError("the numbers of one token and head must lie side by side")
            if (scale is None) != (kv_format(stored) == "native"):
                raise ValueError(f"{stored.dtype} blocks {'need' if scale is None else 'have no'} "
                                 "scales")  # fmt: skip
            if scale is None:
                continue
            if scale.shape != stored.shape[:3] or scale.dtype != torch.float32:
                raise ValueError(
                    f"scales must be float32 {list(stored.shape[:3])}, "
                    f"not {scale.dtype} {list(scale.shape)}"
                )

    @property
    def num_blocks(self) -> int:
        return self.key.shape[0]

    @property
    def n_kv(self) -> int:
        return self.key.shape[1]

    @property
    def block_size(self) -> int:
        return self.key.shape[2]

    @property
    def head_dim(self) -> int:
        return _numbers(self.key)

    def read(self, block_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of whole blocks [n] as float32 numbers, [n · block_size, n_kv, d] each."""

        def numbers(stored: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
            own = None if scale is None else scale[block_ids]
            return decode(stored[block_ids], own).transpose(1, 2).flatten(0, 1)

        return numbers(self.key, self.key_scale), numbers(self.value, self.value_scale)


def encode(x: torch.Tensor, form: str, scale: torch.Tensor) -> torch.Tensor:
    """Numbers [..., d] → codes [..., d] (int4: bytes [..., d / 2]): x / scale, rounded to even.

    scale: [...] float32, above 0.
    """
    largest = LARGEST[form]
    scaled = (x.float() / scale[..., None]).clamp(-largest, largest)
    if form == "fp8_e4m3":
        return scaled.to(torch.float8_e4m3fn)
    codes = scaled.round()
    if form == "int8":
        return codes.to(torch.int8)
    biased = (codes + 8).to(torch.uint8)
    return biased[..., 0::2] | biased[..., 1::2] << 4


def decode(stored: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    """What is stored, [..., d] (int4: [..., d / 2]) → float32 numbers [..., d]. scale: [...]."""
    if scale is None:
        return stored.float()
    if kv_format(stored) == "int4":
        codes = torch.stack((stored & 15, stored >> 4), -1).flatten(-2).float() - 8
    else:
        codes = stored.float()
    return codes * scale[..., None]


def dynamic_scale(x: torch.Tensor, form: str) -> torch.Tensor:
    """The scale that makes the largest number of each [..., d] the largest code: [...] float32.

    1 where all numbers are 0, or so small that no scale is: any will do, and 0 / 0 would be NaN.
    """
    largest = x.float().abs().amax(-1).clamp(max=LARGEST_NUMBER)
    scale = largest / LARGEST[form]
    return torch.where(scale > 0, scale, 1.0)


def _numbers(stored: torch.Tensor) -> int:
    return stored.shape[-1] * (2 if kv_format(stored) == "int4" else 1)
