"""What can be taken away: the modelled figures and the measured steps of the place."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

from core.sizing.result import Result
from ui.kit import page
from ui.kit.page import Export
from ui.roofline import bench, figures, live, measured
from ui.roofline.place import Place

NAME = "roofline"


def results(place: Place) -> Iterator[tuple[str, str, Result]]:
    """(where, name, result) of every modelled figure of the place."""
    lead = figures.roof(place.roofs[0])
    for point in figures.points(place):
        yield lead.short, f"intensity, {point.label}", point.at
        if point.reaches is not None:
            yield lead.short, f"attainable, {point.label}", point.reaches
    for name in place.roofs:
        for what, one in figures.of_roof(place, name).items():
            yield figures.roof(name).short, what, one


def as_csv(place: Place) -> str:
    """All modelled figures, one a row: where, name, value, unit, formula, bound."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["where", "name", "value", "unit", "formula", "notes"])
    for where, name, one in results(place):
        formula = one.steps[-1].formula if one.steps else ""
        value = "" if one.value is None else one.value
        writer.writerow([where, name, value, one.unit, formula, "; ".join(one.notes)])
    return out.getvalue()


def as_json(place: Place) -> str:
    """All figures with their derivations, what they follow from, and the run's measured steps."""
    out = {
        "schema": "roofline/1",
        "inputs": {**vars(place), "roofs": list(place.roofs)},
        "modelled": [
            {
                "where": where,
                "name": name,
                "value": one.value,
                "unit": one.unit,
                "derivation": one.derivation(),
            }
            for where, name, one in results(place)
        ],
        "measured": live.part(place.run) or measured.part(place.run),
    }
    return json.dumps(out, ensure_ascii=False, indent=1) + "\n"


def menu() -> None:
    """The menu of files; each is made when it is asked for, of the place as it then is."""
    page.exports(
        [
            Export(
                "Modelled figures, as CSV", f"{NAME}.csv", "text/csv", lambda: as_csv(bench.now())
            ),
            Export(
                "Everything, as JSON",
                f"{NAME}.json",
                "application/json",
                lambda: as_json(bench.now()),
            ),
        ]
    )
