"""What can be taken away: every figure of the place, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

from core.sizing import memory
from core.sizing.result import Result
from ui.kit import page
from ui.kit.page import Export
from ui.sizing import bench, figures, place
from ui.sizing.figures import Sized

NAME = "kv-sizing"


def results(done: Sized) -> Iterator[tuple[str, str, Result]]:
    """(group, name, result) of every figure that the page shows of this place."""
    yield "token", "kv_bytes_per_token", done.token
    if done.token_layer is not None:
        yield "token", "kv_bytes_per_token_layer", done.token_layer
    yield "token", "kv_bytes_per_token_gpu", done.token_gpu
    yield "sequence", "kv_bytes_sequence", done.sequence
    if done.planned is None:
        return
    one = memory.split(done.planned, done.place.n)
    for name, part in one.items():
        yield "memory of a GPU", name, part
    for name, part in memory.of_replica(done.planned, done.place.n).items():
        yield "memory of all GPUs", name, part
    for name, part in done.planned.results().items():
        yield "plan", name, part


def as_json(done: Sized) -> str:
    """All figures with their derivations, and what they follow from."""
    out = {
        "schema": "kv-sizing/1",
        "inputs": place.as_inputs(done.place),
        "model": {"name": done.spec.name, "source": done.spec.source},
        "warnings": list(done.spec.warnings),
        "results": [
            {
                "group": group,
                "name": name,
                "value": one.value,
                "unit": one.unit,
                "derivation": one.derivation(),
            }
            for group, name, one in results(done)
        ],
    }
    return json.dumps(out, ensure_ascii=False, indent=1) + "\n"


def as_csv(done: Sized) -> str:
    """All figures, one a row: group, name, value, unit, scope, basis, formula."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["group", "name", "value", "unit", "scope", "basis", "formula"])
    for group, name, one in results(done):
        formula = one.steps[-1].formula if one.steps else ""
        writer.writerow(
            [
                group,
                name,
                "" if one.value is None else one.value,
                one.unit,
                one.scope,
                one.basis,
                formula,
            ]
        )
    return out.getvalue()


def menu() -> None:
    """The menu of files; each is made when it is asked for, of the place as it then is."""
    page.exports(
        [
            Export(
                "Every figure, as JSON",
                f"{NAME}.json",
                "application/json",
                lambda: as_json(figures.sized(bench.now())),
            ),
            Export(
                "Every figure, as CSV",
                f"{NAME}.csv",
                "text/csv",
                lambda: as_csv(figures.sized(bench.now())),
            ),
        ]
    )
