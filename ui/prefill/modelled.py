"""Accelerators that are not here: their data sheets, for the MODELLED picture."""

from __future__ import annotations

from typing import Any

from core.sizing import gpus

SHOWN = {"h100-sxm5": "H100", "a100-sxm4-80": "A100"}
DTYPE = "bf16"


def machines() -> list[dict[str, Any]]:
    """[{id, short, title, flops, bytes, note}]: dense bf16 peak in FLOP/s, memory bytes/s."""
    out = []
    for name, short in SHOWN.items():
        gpu = gpus.get(name)
        out.append(
            {
                "id": name,
                "short": short,
                "title": gpu.title,
                "flops": gpu.peaks[DTYPE],
                "bytes": gpu.bandwidth,
                "note": f"dense {DTYPE}",
            }
        )
    return out


def step_seconds(work: dict[str, int], flops: float, memory: float) -> float:
    """The least time of a step's work: matrices and attention one after the other, each for the
    longer of computing and moving, as `core.sizing.step_time` counts."""
    matrices = max(
        (work["linear_flops"] + work["logits_flops"]) / flops,
        (work["weight_bytes"] + work["logits_bytes"]) / memory,
    )
    attention = max(
        work["attention_flops"] / flops,
        (work["kv_read_bytes"] + work["kv_write_bytes"]) / memory,
    )
    return matrices + attention
