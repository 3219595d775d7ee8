"""How far a quantised cache's keys and values are from those that were computed, by layer and head.

Pure functions of a run (dict, run/1) whose engine had `measure_kv_error`: each step that wrote
keys and values then carries, for K and for V, the sum of squared errors and of squares of every KV
head of every layer. Over all steps

    error of a head  =  √( Σ (x̂ − x)² / Σ x² )

is relative: 0.01 means that what is read back is wrong by a hundredth of its own size, root mean
square.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import Any

from core.errors import RunError

Json = dict[str, Any]
Rows = list[list[float]]
KINDS = ("key", "value")


@dataclass(frozen=True, slots=True)
class KVError:
    """key, value: relative error [layer][KV head]. key_all, value_all: over all layers and heads
    at once, so that a head with large numbers counts more."""

    key: Rows
    value: Rows
    key_all: float
    value_all: float


def of_run(run: Json) -> KVError | None:
    """The errors of a run over all its steps; None where it did not measure them.

    Raises RunError for a foreign run whose steps tell of other layers or heads, or of numbers that
    no sum can hold.
    """
    measured = [step["kv_error"] for step in run["steps"] if "kv_error" in step]
    if not measured:
        return None
    try:
        return _of_steps(measured)
    except (ValueError, OverflowError):  # lengths differ; too large
        raise RunError("not a valid run: the kv_error of its steps do not add up") from None


def _of_steps(measured: list[Json]) -> KVError:
    rows: dict[str, Rows] = {}
    whole: dict[str, float] = {}
    for kind in KINDS:
        errors = _sum([one[kind] for one in measured])
        squares = _sum([one[f"{kind}_squares"] for one in measured])
        rows[kind] = [
            [_relative(e, s) for e, s in zip(layer, of, strict=True)]
            for layer, of in zip(errors, squares, strict=True)
        ]
        whole[kind] = _relative(
            *(math.fsum(chain.from_iterable(table)) for table in (errors, squares))
        )
    return KVError(rows["key"], rows["value"], whole["key"], whole["value"])


def _sum(tables: list[Rows]) -> Rows:
    """Tables of one shape, added place by place."""
    return [
        [math.fsum(places) for places in zip(*layers, strict=True)]
        for layers in zip(*tables, strict=True)
    ]


def _relative(error: float, squares: float) -> float:
    """0 where nothing was written but zeros: those are stored as they are."""
    found = math.sqrt(error / squares) if squares > 0 else 0.0
    if math.isinf(found):
        raise OverflowError
    return found
