"""This machine's measured ceilings, read without torch: `python -m core calibrate` leaves them.

The engine's own reader (`core.model.calibrate.load`) checks that processor, threads, torch and
kernels are still the same; here the run says under which conditions it was made, and the page takes
only ceilings that were measured under the same.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

SCHEMA = "calibration/1"
COMMAND = "python -m core calibrate"


@dataclass(frozen=True, slots=True)
class Ceilings:
    """One device's. bytes: read per second. flops: FLOP/s by dtype, the fastest way of each."""

    device: str
    processor: str
    torch: str
    kernels: str
    date: str
    bytes: float
    flops: dict[str, float]


def stored() -> list[dict[str, Any]]:
    """Every device's ceilings as JSON; empty where nothing was measured or the file is damaged."""
    try:
        from core.errors import KVScopeError
        from core.model.cache import cache_dir
        from core.model.config_fields import read_json_object
    except ImportError:
        return []
    try:
        content = read_json_object(cache_dir() / "calibration.json")
    except (KVScopeError, OSError):
        return []
    devices = content.get("devices")
    if content.get("schema") != SCHEMA or not isinstance(devices, dict):
        return []
    found = (parse(raw) for raw in devices.values())
    return [asdict(one) for one in found if one is not None]


def parse(raw: Any) -> Ceilings | None:
    """A device's record of the file; None if it cannot be what it should be."""
    try:
        flops: dict[str, float] = {}
        for name, rate in raw["matmul_flops_per_s"].items():
            dtype = name.split(" ")[0]  # "bfloat16 packed", "bfloat16 compiled": ways of one dtype
            flops[dtype] = max(flops.get(dtype, 0.0), float(rate["median"]))
        found = Ceilings(
            device=str(raw["device"]),
            processor=str(raw["processor"]),
            torch=str(raw["torch"]),
            kernels=str(raw.get("kernels", "torch")),
            date=str(raw["date"]),
            bytes=float(raw["read_bytes_per_s"]["median"]),
            flops=flops,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    good = found.bytes > 0 and found.flops and all(rate > 0 for rate in found.flops.values())
    return found if good else None
