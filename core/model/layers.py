"""The parts of a Llama layer but attention: linear maps, normalisation, the MLP.

Shapes: T tokens of the step (all sequences end to end), h hidden size, n_q query heads, n_kv KV
heads, d head_dim.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import linear, rms_norm, silu

from core.model.packing import pack_weight, packed_linear
from core.model.step_clock import LINEAR, OTHER, StepClock

LinearMap = Callable[[torch.Tensor], torch.Tensor]
"""[T, n_in] → [T, n_out]."""


class Linear:
    """x → x Wᵀ + b. [T, n_in] → [T, n_out].

    weight: [n_out, n_in]. bias: [n_out], or None for no b. On a CPU the matrix is packed into
    oneDNN's own layout where that works: 2 to 3 times as fast in float32. The plain matrix is let
    go of then.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        packed = pack_weight(weight)
        self.packed = packed is not None
        self.weight = weight if packed is None else packed
        self.bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.packed:
            return packed_linear(x, self.weight, self.bias)
        return linear(x, self.weight, self.bias)


class RMSNorm:
    """x / √(mean(x²) + eps) · weight (Zhang & Sennrich 2019), computed in float32.

    x: [T, h] float32, the residual stream → [T, h] in the weight's dtype: rounded once, at the end.
    """

    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        self.dtype = weight.dtype
        # √h · x / √(Σx² + h·eps) is the same number in fewer operations than by the mean.
        h = weight.shape[-1]
        self.weight = weight.float() * h**0.5
        self.floor = torch.tensor((h * eps) ** 0.5, device=weight.device)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        # Four small operations where torch's own rms_norm needs ten on a CPU, half of them casts.
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True).hypot_(self.floor)
        out = torch.empty(x.shape, dtype=self.dtype, device=x.device)
        return torch.mul(x / length, self.weight, out=out)


class HeadNorm:
    """RMSNorm over head_dim of each query and key head (Qwen3). [T, n, d] → [T, n, d].

    query, key: weights [d]; every query head has the one, every key head the other, so they are
    laid side by side, [n_q + n_kv, d], for one product.
    """

    def __init__(
        self, query: torch.Tensor, key: torch.Tensor, n_q: int, n_kv: int, eps: float
    ) -> None:
        self.weight = stack_head_norms(query, key, n_q, n_kv)
        self.eps = eps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, x.shape[-1:], None, self.eps) * self.weight


def stack_head_norms(query: torch.Tensor, key: torch.Tensor, n_q: int, n_kv: int) -> torch.Tensor:
    """[n_q + n_kv, d]: each query head's weights [d], then each key head's."""
    return torch.cat((query.expand(n_q, -1), key.expand(n_kv, -1)))


class MLP:
    """down(silu(gate(x)) · up(x)) (SwiGLU, Shazeer 2020). gate and up are one map."""

    def __init__(self, gate_up: LinearMap, down: LinearMap) -> None:
        self.gate_up, self.down = gate_up, down

    def __call__(self, x: torch.Tensor, clock: StepClock) -> torch.Tensor:
        """[T, h] → [T, h]."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        clock.lap(LINEAR)
        activated = silu(gate).mul_(up)
        clock.lap(OTHER)
        out = self.down(activated)
        clock.lap(LINEAR)
        return out
