"""Matrices in 8 bits: half the bytes of bfloat16, and the processor's int8 products.

Each output row of a weight matrix has one scale, its largest magnitude / 127, and numbers from −127
to 127 (symmetric, per output channel). Activations become uint8 as they come, each token by its own
largest magnitude: with one scale for all tokens of a step, an outlier blurs the others, and
perplexity rises by 50 % instead of 2 % (0.5 % is the weights' share). The product is ours where
there are compiled kernels (1.5, 1.5, 1.6 and 1.9 times as fast as their bfloat16 for 1, 8, 32 and
512 tokens), else FBGEMM's (`quantized::linear_dynamic`), half as fast as ours. torch's weight-only
int8 product wins only for one token, oneDNN's is slower than FBGEMM's.

Embeddings and the logits' matrix stay as they are: in 8 bits the latter costs more perplexity than
all layers together, for a tenth of a step's time.

Of FBGEMM nothing is taken for granted: the first use compares a product with the exact one. If the
operator is missing or wrong, the same 8-bit numbers are used in the model's dtype, and only speed
is lost.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch
from torch.nn.functional import linear

from core.model.errors import ModelError
from core.model.layers import Linear, LinearMap
from kernels.cpu import PackedWeight, pack_int8

_TINY = 1e-30
"""Stands for the largest magnitude of a row of zeros, which is divided by it."""


class Int8Linear:
    """x → x Wᵀ + b with W in int8. [T, n_in] of any dtype → [T, n_out] float32."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        numbers, scale = quantize(weight)
        zero_points = torch.zeros(len(scale), dtype=torch.int64)
        with warnings.catch_warnings():
            # torch means to drop quantized tensors one day; the operator has no other way in yet.
            warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
            quantized = torch._make_per_channel_quantized_tensor(
                numbers, scale.double(), zero_points, 0
            )
        self.packed: Any = torch.ops.quantized.linear_prepack(quantized, None)
        self.bias = None if bias is None else bias.float()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        largest = torch.linalg.vector_norm(x, float("inf"), -1, keepdim=True, dtype=torch.float32)
        largest.clamp_(min=_TINY)
        out: torch.Tensor = torch.ops.quantized.linear_dynamic(x / largest, self.packed, False)
        out.mul_(largest)
        return out if self.bias is None else out.add_(self.bias)


def int8_linear(weight: torch.Tensor, bias: torch.Tensor | None) -> LinearMap:
    """A map with the weight in 8 bits, by the fast product where it works.

    Raises ModelError on another device than the CPU.
    """
    if weight.device.type != "cpu":
        raise ModelError("int8 weights run on the CPU only: choose device cpu, or no int8")
    if int8_works():
        return Int8Linear(weight, bias)
    numbers, scale = quantize(weight)
    plain = Linear((numbers * scale[:, None]).to(weight.dtype), bias)
    return lambda x: plain(x.to(weight.dtype))


def packed_int8(weight: torch.Tensor, bias: torch.Tensor | None, gated: bool) -> PackedWeight:
    """The weight in 8 bits, for the compiled kernels."""
    return pack_int8(*quantize(weight), bias, gated)


def quantize(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[n_out, n_in] → int8 numbers of that shape, and float32 scales [n_out] of its rows."""
    weight = weight.float()
    scale = weight.abs().amax(1).clamp_(min=_TINY) / 127
    return (weight / scale[:, None]).round_().to(torch.int8), scale


@cache
def int8_works() -> bool:
    """Whether this torch on this processor multiplies in int8, and right."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(96, 512, generator=generator)
    x = torch.randn(5, 512, generator=generator)
    # All of one sign and as large as they get: where sums have 16 bits, these overflow them.
    weight[:8], x[0] = 1.0, 1.0
    try:
        if "fbgemm" not in torch.backends.quantized.supported_engines:
            return False
        torch.backends.quantized.engine = "fbgemm"
        exact = linear(x, weight)
        error = (Int8Linear(weight)(x) - exact).abs().max().item()
        return bool(error <= 0.02 * exact.abs().max().item())
    except (RuntimeError, AttributeError, NotImplementedError):
        return False
