"""What this machine can do at most: memory read bandwidth and matrix-product speed, measured.

The ceilings of a roofline (Williams, Waterman & Patterson 2009). They are measured with the threads
that the engine uses, kept in the cache directory, and not used again once the processor, the
threads or torch are others. On CUDA the same is timed with events; that path has been written by
the documentation and was never run: this project is developed without a GPU.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch.nn.functional import linear

from core.model.cache import cache_dir
from core.model.config_fields import read_json_object
from core.model.device import device_name, processor_name
from core.model.errors import ModelConfigError, ModelError
from core.model.int8 import Int8Linear, int8_works, packed_int8
from core.model.packing import pack_weight, packed_linear
from kernels.cpu import CpuKernels, PackedWeight, cpu_kernels, pack

SCHEMA = "calibration/1"
REPEATS = 7


@dataclass(frozen=True, slots=True)
class Rate:
    """Units per second: median of several measurements, least and greatest."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """One device's ceilings.

    processor: with the number of threads, for a CPU. kernels: "compiled" if ours were among those
    measured, else "torch". read_bytes_per_s: an array far larger than the caches, by
    torch's sum or by a product of ours with one row, whichever is faster.
    matmul_flops_per_s: of a square product by dtype; "… packed" in oneDNN's own layout and
    "… compiled" by our kernels, where these work; int8 with its activations' scaling.
    """

    device: str
    processor: str
    threads: int
    torch: str
    kernels: str
    date: str
    read_bytes_per_s: Rate
    matmul_flops_per_s: dict[str, Rate]

    def best_flops_per_s(self, dtype: str) -> float:
        """The fastest product of a dtype."""
        names = (dtype, f"{dtype} packed", f"{dtype} compiled")
        rates = (self.matmul_flops_per_s.get(name) for name in names)
        return max(rate.median for rate in rates if rate is not None)

    def ceilings(self, dtype: str) -> dict[str, Any] | None:
        """What a run's header keeps of it: {read_bytes_per_s, flops_per_s, dtype, date}.

        None if no product of that dtype was measured.
        """
        try:
            flops = self.best_flops_per_s(dtype)
        except ValueError:
            return None
        return {
            "read_bytes_per_s": round(self.read_bytes_per_s.median),
            "flops_per_s": round(flops),
            "dtype": dtype,
            "date": self.date,
        }


@torch.inference_mode()
def measure(
    device: torch.device, *, array_bytes: int = 256 << 20, size: int = 2048, repeats: int = REPEATS
) -> Calibration:
    """Measure a device: a few seconds on an idle one.

    array_bytes: read for the bandwidth; must exceed the last-level cache several times. size: of
    the square matrices, large enough that reading them does not count.
    """
    array = torch.ones(array_bytes // 4, dtype=torch.float32, device=device)
    bandwidth = _rate(array.sum, array.nbytes, device, repeats)
    del array
    kernels = _kernels(device)
    if kernels is not None:
        read, num_bytes = _read_by_kernel(kernels, array_bytes)
        by_kernel = _rate(read, num_bytes, device, repeats)
        bandwidth = max(bandwidth, by_kernel, key=lambda rate: rate.median)
    products: dict[str, Rate] = {}
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        x = torch.rand(size, size, device=device).to(dtype)
        weight = torch.rand(size, size, device=device).to(dtype)
        flops = 2 * size**3
        products[name] = _rate(partial(linear, x, weight), flops, device, repeats)
        packed = pack_weight(weight)
        if packed is not None:
            multiply = partial(packed_linear, x, packed)
            products[f"{name} packed"] = _rate(multiply, flops, device, repeats)
    if device.type == "cpu" and int8_works():
        multiply_int8 = Int8Linear(torch.rand(size, size))
        operands = torch.rand(size, size)
        products["int8"] = _rate(partial(multiply_int8, operands), flops, device, repeats)
    if kernels is not None:
        x, weight = (torch.rand(size, size).bfloat16() for _ in range(2))
        packings = {"bfloat16": pack(weight), "int8": packed_int8(weight, None, False)}
        for name, packed_weight in packings.items():
            multiply = partial(kernels.linear, x, packed_weight)
            products[f"{name} compiled"] = _rate(multiply, flops, device, repeats)
    return Calibration(
        **_conditions(device),
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        read_bytes_per_s=bandwidth,
        matmul_flops_per_s=products,
    )


def calibration_path() -> Path:
    """Where calibrations are kept: one file for all devices of this machine."""
    return cache_dir() / "calibration.json"


def store(calibration: Calibration) -> Path:
    """Keep it, in place of an earlier one of the same device. Raises ModelError."""
    path = calibration_path()
    devices = {**_stored(path), calibration.device: asdict(calibration)}
    text = json.dumps({"schema": SCHEMA, "devices": devices}, indent=2) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".calibration")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        raise ModelError(
            f"the calibration cannot be kept in {path}: {error.strerror or error}; "
            "KV_SCOPE_CACHE names another directory"
        ) from error
    return path


def load(device: torch.device) -> Calibration | None:
    """The kept calibration of a device; None if there is none, or it was made under other
    conditions: another processor, other threads, another torch, with or without our kernels."""
    raw = _stored(calibration_path()).get(device_name(device))
    now = _conditions(device)
    if not isinstance(raw, dict) or any(raw.get(key) != now[key] for key in now):
        return None
    try:
        products = raw["matmul_flops_per_s"]
        return Calibration(
            **now,
            date=str(raw["date"]),
            read_bytes_per_s=_parse(raw["read_bytes_per_s"]),
            matmul_flops_per_s={str(name): _parse(rate) for name, rate in products.items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # damaged: as good as none, measuring again mends it


def _conditions(device: torch.device) -> dict[str, Any]:
    return {
        "device": device_name(device),
        "processor": processor_name(device),
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "kernels": "torch" if _kernels(device) is None else "compiled",
    }


def _read_by_kernel(kernels: CpuKernels, array_bytes: int) -> tuple[Callable[[], Any], int]:
    """A product of one row with a matrix of about so many bytes; and how many they are."""
    n_in = 2048
    panels = torch.zeros(max(1, array_bytes // (64 * n_in)), n_in // 2, 32, 2).bfloat16()
    weight = PackedWeight(panels, None, 32 * len(panels), n_in, False)
    return partial(kernels.linear_float32, torch.zeros(1, n_in).bfloat16(), weight), panels.nbytes


def _kernels(device: torch.device) -> CpuKernels | None:
    return cpu_kernels(cache_dir()) if device.type == "cpu" else None


def _stored(path: Path) -> dict[str, Any]:
    """device → its record, of a file that may be absent, damaged or of another version."""
    try:
        content = read_json_object(path)
    except ModelConfigError:
        return {}
    devices = content.get("devices")
    return devices if content.get("schema") == SCHEMA and isinstance(devices, dict) else {}


def _parse(raw: Any) -> Rate:
    rate = Rate(float(raw["median"]), float(raw["low"]), float(raw["high"]))
    if not 0 < rate.low <= rate.median <= rate.high:
        raise ValueError("a rate out of order")
    return rate


def _rate(work: Callable[[], Any], units: int, device: torch.device, repeats: int) -> Rate:
    """Units per second of `work`, which does that many of them."""
    seconds = _cuda_seconds if device.type == "cuda" else _cpu_seconds
    work()  # first use: page faults, kernels looked up
    rates = [units / seconds(work) for _ in range(repeats)]
    return Rate(statistics.median(rates), min(rates), max(rates))


def _cpu_seconds(work: Callable[[], Any]) -> float:
    started = perf_counter()
    work()
    return perf_counter() - started


def _cuda_seconds(work: Callable[[], Any]) -> float:
    event: Any = torch.cuda.Event
    start, end = event(enable_timing=True), event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3
