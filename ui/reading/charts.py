"""Charts of the lessons: lessons/charts/NAME.json says what to draw, the library computes it.

    {"title": "…", "about": "One sentence: what to see.",
     "x": {"label": "Context", "unit": "tokens", "name": "tokens", "log": true,
           "values": [1024, 2048]  or  "from": 1024, "to": 131072, "points": 40},
     "y": {"label": "KV per sequence", "unit": "GiB", "log": true},
     "lines": [{"label": "Llama 3 70B", "function": "kv_bytes_sequence", "inputs": {…}}],
     "rules": [{"axis": "y", "at": 40, "label": "40 GiB"}]}

`x.name` is the input that varies; inputs may hold "$x" in its place, at several places. A line's
`scale` multiplies its values; without one they are converted to the unit of y where that is a unit
of theirs.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

from core.errors import KVScopeError
from core.sizing import calls
from ui.paths import LESSONS
from ui.reading.formats import ValueLineError, factor

FOLDER = LESSONS / "charts"
VARIES = "$x"
STYLES = "abcdef"
"""A colour and a dash for each line; so many lines a chart may have."""

Json = dict[str, Any]


class ChartError(KVScopeError):
    """A chart's file cannot be drawn; the message names the file."""


@lru_cache(maxsize=128)
def data(name: str) -> Json:
    """What the component draws. Raises ChartError."""
    path = FOLDER / f"{name}.json"
    try:
        spec = json.loads(path.read_text(encoding="utf-8"))
        return computed(spec)
    except (OSError, json.JSONDecodeError, KVScopeError, KeyError) as exc:
        raise ChartError(f"charts/{name}.json: {exc}") from exc


def computed(spec: Json) -> Json:
    """A chart's file with its lines computed. Raises KVScopeError where a function refuses."""
    x, y = spec["x"], spec["y"]
    places = values_of(x)
    if len(spec["lines"]) > len(STYLES):
        raise ChartError(f"has more than {len(STYLES)} lines")
    lines = [
        {
            "name": line["label"],
            "style": STYLES[index],
            "values": [_height(line, x, place, y.get("unit", "")) for place in places],
            "call": _words(line["function"], line["inputs"]),
        }
        for index, line in enumerate(spec["lines"])
    ]
    return {
        "title": spec["title"],
        "about": spec["about"],
        "unit": y.get("unit", ""),
        "x": {**{key: x.get(key, "") for key in ("label", "unit")}, "values": places,
              "log": x.get("log", False)},
        "y": {"label": y["label"], "log": y.get("log", False)},
        "lines": lines,
        "rules": spec.get("rules", []),
        "label": {"label": "MODELLED", "source": {"inputs": _shared(spec["lines"])}},
    }  # fmt: skip


def values_of(x: Json) -> list[int | float]:
    """The places of the axis, in order: those that are listed, or so many from one to another."""
    if "values" in x:
        return list(x["values"])
    first, last, points = x["from"], x["to"], x["points"]
    whole = isinstance(first, int) and isinstance(last, int)
    out: list[int | float] = []
    for index in range(points):
        part = index / (points - 1)
        if x.get("log"):
            place = math.exp(math.log(first) + part * (math.log(last) - math.log(first)))
        else:
            place = first + part * (last - first)
        out.append(round(place) if whole else place)
    return sorted(set(out))


def _height(line: Json, x: Json, place: float, unit: str) -> float | None:
    result = calls.call(line["function"], _with(line["inputs"], x["name"], place)).result
    if result.value is None:
        return None
    if "scale" in line:
        return float(result.value * line["scale"])
    try:
        return float(Fraction(result.value) / factor(result.unit, unit))
    except ValueLineError:
        return float(result.value)  # y speaks of it in words of its own: "users"


def _with(inputs: Json, name: str, place: float) -> Json:
    """The inputs of one call."""
    filled, found = _filled(inputs, place)
    return filled if found else {**filled, name: place}


def _filled(given: Any, place: float) -> tuple[Any, bool]:
    """The same with the place put in for every "$x", and whether there was one."""
    if given == VARIES:
        return place, True
    if isinstance(given, dict):
        parts = {key: _filled(value, place) for key, value in given.items()}
        return {key: part for key, (part, _) in parts.items()}, any(p for _, p in parts.values())
    if isinstance(given, list):
        listed = [_filled(value, place) for value in given]
        return [part for part, _ in listed], any(p for _, p in listed)
    return given, False


def _word(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def _words(function: str, inputs: Json) -> str:
    return f"{function}({', '.join(f'{key}={_word(given)}' for key, given in inputs.items())})"


def _shared(lines: list[Json]) -> dict[str, str]:
    """The inputs that all lines have in common, and the function if it is one."""
    first = lines[0]["inputs"]
    shared = {
        key: _word(given)
        for key, given in first.items()
        if given != VARIES and all(line["inputs"].get(key) == given for line in lines)
    }
    functions = list(dict.fromkeys(line["function"] for line in lines))
    return {"by": ", ".join(functions), **shared}
