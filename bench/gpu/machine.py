"""What a GPU's figures depend on besides the code: the device, its driver and clocks, versions."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from core.trace.run import revision
from core.version import VERSION

_QUERY = (
    "name", "driver_version", "memory.total", "clocks.sm", "clocks.max.sm", "clocks.mem",
    "clocks.max.mem", "power.draw", "power.limit", "temperature.gpu", "utilization.gpu",
)  # fmt: skip


def describe(device: torch.device, backend: str) -> dict[str, Any]:
    """Facts that a report begins with."""
    facts: dict[str, Any] = {
        "kv_scope": f"{VERSION}, revision {revision() or 'unknown'}",
        "torch": f"{torch.__version__}, CUDA {torch.version.cuda or 'none'}",
        "triton": _version("triton"),
        "python": platform.python_version(),
        "kernels": backend,
    }
    if device.type == "cuda":
        one = torch.cuda.get_device_properties(device)
        facts["device"] = (
            f"{one.name}, compute capability {one.major}.{one.minor}, "
            f"{one.multi_processor_count} multiprocessors, {one.total_memory / 1e9:.1f} GB"
        )
        facts["before"] = clocks() or "nvidia-smi is not here: driver and clocks are unknown"
    else:
        facts["device"] = "CPU"
    return facts


def clocks() -> dict[str, str] | None:
    """Driver, clocks, power and temperature as nvidia-smi has them; None where it cannot say. With
    several GPUs the first that is visible: what torch takes."""
    found = shutil.which("nvidia-smi")
    if found is None:
        return None
    try:
        done = subprocess.run(
            [found, f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return None
    values = [value.strip() for value in lines[0].split(",")]
    return dict(zip(_QUERY, values, strict=False))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
