"""The measured points: every step of a run with its work, its time and its shares of the
ceilings that were measured on the same machine."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from core.errors import KVScopeError
from core.trace import roofline_metrics
from ui import runs
from ui.components.run_player import PackedRun

Json = dict[str, Any]

COLUMNS = ("flops", "bytes", "us", "intensity", "rate", "mfu", "mbu")
"""What is sent of each part of a step, in this order."""


def names() -> tuple[str, ...]:
    """The recorded runs of a real model, which have times."""
    return tuple(one.name for one in listed())


def listed() -> list[runs.Recorded]:
    return [one for one in runs.list_recorded() if one.label != "SIMULATED"]


def part(name: str) -> Json | None:
    """{name, title, header, ceilings, columns, rows} of a run; None where it is not here.

    A row is [step, kind, tokens, sequences, step_us, step, matrices, attention]; each of the last
    three is a list of COLUMNS, or None where that part did nothing.
    """
    try:
        played = runs.recorded(name)
    except KVScopeError:
        return None
    return _part(name, played.packed)


@lru_cache(maxsize=32)
def _part(name: str, packed: PackedRun) -> Json:
    return of_run(name, packed.run())


def of_run(name: str, run: Json) -> Json:
    """As `part`, of a run that is there."""
    header = run["header"]
    kept = ("label", "source", "recorded_at", "revision")
    rows = [
        [
            *(row[key] for key in ("step", "kind", "tokens", "sequences", "step_us")),
            *(_columns(row["parts"].get(key)) for key in ("step", "matrices", "attention")),
        ]
        for row in roofline_metrics.steps(run)
    ]
    return {
        "name": name,
        "title": header["scenario"].get("name") or name,
        "header": {key: header[key] for key in kept if key in header},
        "ceilings": roofline_metrics.ceilings(run),
        "columns": list(COLUMNS),
        "rows": rows,
    }


def _columns(found: Json | None) -> list[float | None] | None:
    """Counts as they are; rates and shares to six digits, which is more than a clock has."""
    return None if found is None else [_short(found[key]) for key in COLUMNS]


def _short(value: float | None) -> float | None:
    return float(f"{value:.6g}") if isinstance(value, float) else value
