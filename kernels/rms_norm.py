"""Root-mean-square normalisation (Zhang & Sennrich 2019), with the sum that precedes it."""

from __future__ import annotations

import torch

from kernels.dispatch import uses_triton

_WIDEST = 32_768


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    added: torch.Tensor | None = None,
    backend: str | None = None,
) -> torch.Tensor:
    """x [T, h] float32, the residual stream → x / √(mean(x²) + eps) · weight, in weight's dtype.

    weight: [h]. added: [T, h], added to x first, in place: one pass over the stream instead of two.
    Rounded once, at the end. ValueError for h above 32,768 on a GPU: a row stays in registers.
    """
    if x.dtype != torch.float32 or x.ndim != 2 or weight.shape != x.shape[1:]:
        raise ValueError(f"expected float32 [T, {len(weight)}], got {x.dtype} {list(x.shape)}")
    if added is not None and added.shape != x.shape:
        raise ValueError(f"{list(added.shape)} cannot be added to {list(x.shape)}")
    if uses_triton(backend, x.device, x.dtype, 1):
        from kernels.gpu.rms_norm import normalise

        if len(weight) > _WIDEST:
            raise ValueError(f"h {len(weight)} is above {_WIDEST}")
        return normalise(x, weight, eps, added)
    return rms_norm_torch(x, weight, eps, added)


def rms_norm_torch(
    x: torch.Tensor, weight: torch.Tensor, eps: float, added: torch.Tensor | None = None
) -> torch.Tensor:
    """The same, operator by operator."""
    if added is not None:
        x += added
    mean = x.square().mean(-1, keepdim=True)
    return (x * torch.rsqrt(mean + eps) * weight.float()).to(weight.dtype)
