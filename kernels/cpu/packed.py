"""Weights laid out as the products of `linear.h` read them: from the first byte to the last."""

from __future__ import annotations

from dataclasses import dataclass

import torch

_PANEL = 32
_LANES = 16


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A matrix [n_out, n_in] in panels of 32 rows (see linear.h), and its bias, if it has one.

    panels: [number of panels, n_in / 2, 32, 2] bfloat16, or [number of panels, n_in / 4, 32, 4]
    int8. bias: [32 · number of panels] float32, or None. gated: rows of a gate and of up in turns,
    16 and 16, as `swiglu` reads them. scale, offset: of int8, [32 · number of panels] float32 and
    int32; None for bfloat16.
    """

    panels: torch.Tensor
    bias: torch.Tensor | None
    n_out: int
    n_in: int
    gated: bool
    scale: torch.Tensor | None = None
    offset: torch.Tensor | None = None


def pack(
    weight: torch.Tensor, bias: torch.Tensor | None = None, gated: bool = False
) -> PackedWeight:
    """Lay a bfloat16 matrix out for `linear`; gated: [gate; up], for `swiglu`. n_in is even."""
    if weight.dtype != torch.bfloat16:
        raise ValueError(f"expected bfloat16, got {weight.dtype}")
    n_out, n_in = weight.shape
    order = _panel_order(n_out, gated)
    panels = _panels(weight, order, 2)
    return PackedWeight(panels, _in_order(bias, order), n_out, n_in, gated)


def pack_int8(
    numbers: torch.Tensor,
    scale: torch.Tensor,
    bias: torch.Tensor | None = None,
    gated: bool = False,
) -> PackedWeight:
    """The same for W = scale · numbers, int8 [n_out, n_in] and float32 [n_out]. n_in: fours."""
    if numbers.dtype != torch.int8:
        raise ValueError(f"expected int8, got {numbers.dtype}")
    n_out, n_in = numbers.shape
    order = _panel_order(n_out, gated)
    panels = _panels(numbers, order, 4)
    offset = 128 * panels.sum((1, 3), dtype=torch.int32).flatten()
    return PackedWeight(
        panels, _in_order(bias, order), n_out, n_in, gated, _in_order(scale, order), offset
    )


def _panels(weight: torch.Tensor, order: torch.Tensor, piece: int) -> torch.Tensor:
    n_in = weight.shape[1]
    if n_in % piece:
        raise ValueError(f"n_in must be a multiple of {piece}, not {n_in}")
    rows = weight.new_zeros(len(order), n_in)
    held = order >= 0
    rows[held] = weight[order[held]]
    return rows.view(-1, _PANEL, n_in // piece, piece).transpose(1, 2).contiguous()


def _in_order(values: torch.Tensor | None, order: torch.Tensor) -> torch.Tensor | None:
    """[n_out] → float32 in the panels' order, 0 where there is no row."""
    if values is None:
        return None
    out = torch.zeros(len(order))
    held = order >= 0
    out[held] = values[order[held]].float()
    return out


def _panel_order(n_out: int, gated: bool) -> torch.Tensor:
    """Which row of the matrix each row of the panels is; −1 for none."""
    if gated and n_out % 2:
        raise ValueError(f"a gate and its up have as many rows each: not {n_out} in all")
    if not gated:
        order = torch.full((-(-n_out // _PANEL) * _PANEL,), -1)
        order[:n_out] = torch.arange(n_out)
        return order
    half = n_out // 2
    order = torch.full((-(-half // _LANES), 2, _LANES), -1)
    for side in range(2):
        column = torch.arange(len(order) * _LANES).view(-1, _LANES)
        order[:, side] = torch.where(column < half, column + side * half, -1)
    return order.flatten()
