"""Which implementation a kernel call uses: the one place where that is decided.

"triton" is the kernels of `kernels.gpu`, "torch" the same in plain torch operators, which runs
everywhere and says what each kernel means. The choice depends on the device, the dtype and the
shape, never on the numbers, so it is made once for a model, and a run's header can show it.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from functools import cache

import torch

LARGEST_HEAD_DIM = 256
"""Wider heads would need more registers and shared memory than the tiles are made for."""

_OLDEST = (8, 0)
"""Compute capability from which on there are bfloat16 tensor cores: A100."""

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True, slots=True)
class Backend:
    """name: "triton" or "torch". reason: why, in a few words, for a run's header."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})"


def choose(device: torch.device, dtype: torch.dtype, head_dim: int) -> Backend:
    """The backend for tensors of this kind. `KV_SCOPE_TRITON=0` takes torch everywhere."""
    if os.environ.get("KV_SCOPE_TRITON") == "0":
        return Backend("torch", "KV_SCOPE_TRITON=0")
    if device.type != "cuda":
        return Backend("torch", f"device {device.type}")
    if not _installed():
        return Backend("torch", "triton is not installed")
    major, minor = torch.cuda.get_device_capability(device)
    if (major, minor) < _OLDEST:
        return Backend("torch", f"compute capability {major}.{minor} is below 8.0")
    if dtype not in _DTYPES:
        return Backend("torch", f"{dtype} is not a dtype of the kernels")
    if head_dim > LARGEST_HEAD_DIM:
        return Backend("torch", f"head_dim {head_dim} is above {LARGEST_HEAD_DIM}")
    return Backend("triton", f"{_triton_version()}, sm_{major}{minor}")


def uses_triton(named: str | None, device: torch.device, dtype: torch.dtype, head_dim: int) -> bool:
    """What a public function asks: named is the caller's own choice, None for `choose`'s.

    ValueError if "triton" is named where it cannot run: silently taking another would make a
    measurement of it a lie.
    """
    if named is None:
        return choose(device, dtype, head_dim).name == "triton"
    if named not in ("triton", "torch"):
        raise ValueError(f"backend {named!r} is unknown; choose triton or torch")
    if named == "triton" and not _installed():
        raise ValueError("triton is not installed")
    if named == "triton" and device.type != "cuda":
        from kernels.gpu.launch import INTERPRETED

        if not INTERPRETED:
            raise ValueError(f"triton runs on {device.type} only with TRITON_INTERPRET=1")
    return named == "triton"


def moves_with_triton(named: str | None, pool: torch.Tensor) -> bool:
    """The same for kernels that move whole blocks, whatever the numbers in them are.

    ValueError if the pool is not [2, num_blocks, …] in one piece.
    """
    if pool.ndim < 3 or pool.shape[0] != 2 or not pool.is_contiguous():
        raise ValueError(
            f"expected a contiguous pool [2, num_blocks, …], got {list(pool.shape)} "
            f"with strides {pool.stride()}"
        )
    return uses_triton(named, pool.device, torch.float32, 1)


@cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None


@cache
def _triton_version() -> str:
    from importlib.metadata import version

    return f"triton {version('triton')}"
