"""RMSNorm: a program has one token's row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.gpu.arguments import power_of_two
from kernels.gpu.launch import Launch


@triton.jit
def norm_kernel(x, weight, added, out, eps, x_row, added_row, out_row, WIDTH: tl.constexpr,
                ADD: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    within = columns < WIDTH
    numbers = tl.load(x + row * x_row + columns, mask=within, other=0.0)
    if ADD:
        more = tl.load(added + row * added_row + columns, mask=within, other=0.0)
        numbers += more.to(tl.float32)
        tl.store(x + row * x_row + columns, numbers, mask=within)
    size = tl.rsqrt(tl.sum(numbers * numbers, 0) / WIDTH + eps)
    scaled = numbers * size * tl.load(weight + columns, mask=within, other=0.0).to(tl.float32)
    tl.store(out + row * out_row + columns, scaled, mask=within)


def normalise(
    x: torch.Tensor, weight: torch.Tensor, eps: float, added: torch.Tensor | None
) -> torch.Tensor:
    """See `kernels.rms_norm`."""
    out = torch.empty(x.shape, dtype=weight.dtype, device=x.device)
    norm_launch(x, weight, eps, added, out)()
    return out


def norm_launch(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    added: torch.Tensor | None,
    out: torch.Tensor,
) -> Launch:
    """Without anything to add, x stands in for it: it is not read twice."""
    width = len(weight)
    block = power_of_two(width)
    return Launch(
        norm_kernel,
        (len(x),),
        {
            "x": x,
            "weight": weight,
            "added": x if added is None else added,
            "out": out,
            "eps": eps,
            "x_row": x.stride(0),
            "added_row": 0 if added is None else added.stride(0),
            "out_row": out.stride(0),
            "WIDTH": width,
            "ADD": added is not None,
            "BLOCK": block,
        },
        num_warps=min(16, max(1, block // 512)),
    )
