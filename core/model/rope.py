"""Rotary positions: which angle each pair of a head turns by, and the turning."""

from __future__ import annotations

import math

import torch

from core.model.rope_config import (
    FactorScaling,
    LinearScaling,
    Llama3Scaling,
    RopeConfig,
    YarnScaling,
)


class RotaryEmbedding:
    """Turns pairs (i, i + d/2) of a head by position · frequency i (RoFormer, Su et al. 2021).

    A key is turned once, by its own position, before it is stored; so a block can be shared by
    every sequence that has the same tokens at the same positions, and by no other.
    """

    def __init__(
        self, rope: RopeConfig, head_dim: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.inverse_frequency = inverse_frequencies(rope, head_dim).to(device)  # [d/2] float32
        self.attention_factor = (
            rope.scaling.attention_factor
            if isinstance(rope.scaling, YarnScaling | FactorScaling)
            else 1.0
        )
        self.dtype = dtype

    def angles(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin at positions [T], as [T, 1, d] each; the sine's first half is negated.

        Computed in float32, once per step for all layers.
        """
        cos, sin = (half[:, None] for half in self.half_angles(positions))
        return torch.cat((cos, cos), -1).to(self.dtype), torch.cat((-sin, sin), -1).to(self.dtype)

    def half_angles(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin of each pair's angle at positions [T], [T, d/2] float32 each."""
        angles = torch.outer(positions.float(), self.inverse_frequency)
        cos, sin = angles.cos(), angles.sin()
        if self.attention_factor != 1.0:
            cos, sin = cos * self.attention_factor, sin * self.attention_factor
        return cos, sin


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, out: torch.Tensor) -> None:
    """Turn the heads x [T, n, d] by the angles [T, 1, d] of their tokens, into out (or x)."""
    swapped = x.roll(x.shape[-1] // 2, -1)  # the two halves change places
    torch.addcmul(x * cos, swapped, sin, out=out)


def inverse_frequencies(rope: RopeConfig, head_dim: int) -> torch.Tensor:
    """Radians per position of each pair, [d/2] float32 on the CPU: theta^(−2i/d), then scaled.

    Written with transformers' order of operations, so that the numbers are the same to the bit.
    """
    exponent = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
    wavelengths = rope.theta**exponent  # in positions per radian
    scaling = rope.scaling
    if scaling is None:
        return 1.0 / wavelengths
    if isinstance(scaling, LinearScaling):
        return 1.0 / wavelengths / scaling.factor
    if isinstance(scaling, FactorScaling):
        return 1.0 / (torch.tensor(scaling.factors) * wavelengths)
    if isinstance(scaling, Llama3Scaling):
        return _llama3(1.0 / wavelengths, scaling)
    return _yarn(wavelengths, scaling, rope.theta, head_dim)


def _llama3(plain: torch.Tensor, scaling: Llama3Scaling) -> torch.Tensor:
    original = scaling.original_max_position_embeddings
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    wavelength = 2 * math.pi / plain  # positions per full turn
    share = (original / wavelength - low) / (high - low)  # of the plain frequency, between the two
    mixed = (1 - share) * plain / scaling.factor + share * plain
    scaled = torch.where(wavelength > original / low, plain / scaling.factor, mixed)
    return torch.where(wavelength < original / high, plain, scaled)


def _yarn(
    wavelengths: torch.Tensor, scaling: YarnScaling, theta: float, head_dim: int
) -> torch.Tensor:
    def dimension(turns: float) -> float:
        """The pair that turns so many times within the original length."""
        original = scaling.original_max_position_embeddings
        return head_dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = dimension(scaling.beta_fast), dimension(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    if low == high:
        high += 0.001  # a ramp of no width
    pair = torch.arange(head_dim // 2, dtype=torch.float32)
    kept = 1 - ((pair - low) / (high - low)).clamp(0, 1)  # share of the plain frequency
    return 1.0 / (scaling.factor * wavelengths) * (1 - kept) + 1.0 / wavelengths * kept
