"""Which device and dtype a run uses, and their honest names."""

from __future__ import annotations

import platform
from pathlib import Path

import torch

from core.model.errors import ModelError

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def pick_device(name: str | None) -> torch.device:
    """The named device, or CUDA if there is one, else the CPU. Raises ModelError."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.partition(":")[0] not in ("cpu", "cuda"):
        raise ModelError(f"device {name!r} is not supported; choose cpu or cuda")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ModelError("device cuda was asked for, but torch finds no CUDA device here")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ModelError(f"device {name!r} is not a device name") from error


def pick_dtype(name: str | None) -> torch.dtype:
    """float32 or bfloat16 (the default, in which the weights are stored). Raises ModelError."""
    name = "bfloat16" if name is None else name
    if name not in _DTYPES:
        raise ModelError(f"dtype {name!r} is not supported; choose {' or '.join(_DTYPES)}")
    return _DTYPES[name]


def check_weights(name: str | None) -> None:
    """None (as the dtype says) or "int8". Raises ModelError."""
    if name not in (None, "int8"):
        raise ModelError(f"weights {name!r} are not supported; choose int8, or leave them out")


def device_name(device: torch.device) -> str:
    """ "CPU", or the GPU's product name."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def processor_name(device: torch.device) -> str:
    """The processor's model name, and for a CPU how many threads torch uses."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_cpu_model()}, {torch.get_num_threads()} threads"


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except (OSError, UnicodeDecodeError):
        pass
    return platform.processor() or platform.machine()
