"""KVBlocks as kernel arguments."""

from __future__ import annotations

from typing import Any

import torch

from kernels.kv_blocks import KVBlocks, kv_format

LOG2_E = 1.4426950408889634
"""exp(x) = 2^(x · log₂ e): GPUs have an instruction for powers of two."""


def stored_bytes(stored: torch.Tensor) -> torch.Tensor:
    """What a kernel is given: fp8 as bytes, since Triton has no such type for an A100."""
    return stored.view(torch.uint8) if stored.dtype == torch.float8_e4m3fn else stored


def blocks_arguments(blocks: KVBlocks) -> dict[str, Any]:
    """Pointers, strides and formats. Without scales the pointers of the numbers stand in for them:
    no kernel reads there."""
    arguments: dict[str, Any] = {}
    for name, stored, scale in (
        ("key", blocks.key, blocks.key_scale),
        ("value", blocks.value, blocks.value_scale),
    ):
        arguments[name] = stored_bytes(stored)
        arguments[name + "_scale"] = arguments[name] if scale is None else scale
        strides = (0, 0, 0) if scale is None else scale.stride()
        for axis, step, scale_step in zip(
            ("block", "head", "token"), stored.stride(), strides, strict=False
        ):
            arguments[f"{name}_{axis}"] = step
            arguments[f"{name}_scale_{axis}"] = scale_step
        arguments[name.upper() + "_FORMAT"] = kv_format(stored)
    return arguments


def power_of_two(n: int, least: int = 1) -> int:
    """The smallest power of two that is at least n and least."""
    return max(least, 1 << (n - 1).bit_length())
