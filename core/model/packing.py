"""Matrices in oneDNN's packed layout: the largest single gain on a CPU.

The operators are private to torch (`torch.ops.mkldnn`), so nothing is taken for granted: the first
use tries a small product and compares it with `linear`. If an operator is missing, fails or
computes something else, plain `linear` is used and only speed is lost. `KV_SCOPE_PACK=0` switches
packing off.
"""

from __future__ import annotations

import os
from functools import cache

import torch
from torch.nn.functional import linear


def pack_weight(weight: torch.Tensor) -> torch.Tensor | None:
    """A packed copy of [n_out, n_in], or None where packing is not possible."""
    if weight.device.type != "cpu" or not packing_works(weight.dtype):
        return None
    packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight)
    return packed


def packed_linear(
    x: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """x [T, n_in] times a packed [n_out, n_in], transposed, plus bias [n_out]: [T, n_out]."""
    out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    return out


@cache
def packing_works(dtype: torch.dtype) -> bool:
    """Whether this torch on this processor packs matrices of a dtype, and multiplies them right."""
    if os.environ.get("KV_SCOPE_PACK") == "0" or dtype not in (torch.float32, torch.bfloat16):
        return False
    if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(96, 64, generator=generator).to(dtype)
    bias = torch.randn(96, generator=generator).to(dtype)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        for rows in (1, 3, 40):
            x = torch.randn(rows, 64, generator=generator).to(dtype)
            tolerance = 1e-4 if dtype == torch.float32 else 0.25
            for added in (None, bias):
                product = packed_linear(x, packed, added)
                if not torch.allclose(product, linear(x, weight, added), atol=tolerance):
                    return False
    except (RuntimeError, AttributeError, NotImplementedError):
        return False
    return True
