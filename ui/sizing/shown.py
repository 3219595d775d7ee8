"""A result of the library as the browser gets it: the value, how it was reached, and the formula in
pieces so that each letter can be pointed at."""

from __future__ import annotations

import re
from typing import Any

from core.sizing.result import Result, Step, Symbol
from core.sizing.units import both

Json = dict[str, Any]

_OPERATOR = re.compile(r" (·|\+|−|/) ")
_AROUND = re.compile(r"^([(⌈⌊]*)(.*?)([)⌉⌋]*)$")


def figure(result: Result, label: str) -> Json:
    """{label, value, unit, both, scope, basis, notes, source, symbols, steps}; `both`: GB and GiB.

    symbols: [letter, meaning, value, unit]; steps: [formula, with values, value, unit].
    """
    value = result.value
    return {
        "label": label,
        "value": value,
        "unit": result.unit,
        "both": both(value) if result.unit == "B" and value is not None else "",
        "scope": result.scope,
        "basis": result.basis,
        "notes": list(result.notes),
        "source": result.source,
        "symbols": [[one.symbol, one.meaning, one.value, one.unit] for one in result.symbols],
        "steps": [[one.formula, one.substituted, one.value, one.unit] for one in result.steps],
    }


def line(step: Step, known: dict[str, Symbol]) -> Json:
    """A step in pieces: [{"op"} or {"sym", "text", "value", "before", "after"}], and its value.

    Formula and values run in step, piece for piece; where they do not, the pieces are the values
    alone.
    """
    letters, values = _pieces(step.formula), _pieces(step.substituted)
    paired = len(letters) == len(values) and all(
        (a in "·+−/") == (b in "·+−/") for a, b in zip(letters, values, strict=True)
    )
    out: list[Json] = []
    for index, piece in enumerate(values):
        if piece in "·+−/":
            out.append({"op": "×" if piece == "·" else piece})
            continue
        before, value, after = _split(piece)
        letter = _split(letters[index])[1] if paired else ""
        symbol = known.get(letter)
        out.append(
            {
                "sym": symbol.symbol if symbol else letter,
                "text": symbol.meaning if symbol else "",
                "value": value,
                "before": before,
                "after": after,
            }
        )
    return {"pieces": out, "value": step.value, "unit": step.unit, "formula": step.formula}


def lines(result: Result) -> list[Json]:
    """All steps of a result in pieces."""
    known = {one.symbol: one for one in result.symbols}
    return [line(step, known) for step in result.steps]


def _pieces(text: str) -> list[str]:
    return [piece for piece in _OPERATOR.split(text) if piece]


def _split(piece: str) -> tuple[str, str, str]:
    found = _AROUND.match(piece)
    assert found is not None  # every text matches
    return found.group(1), found.group(2), found.group(3)


_LONG = re.compile(r"\d+\.\d{5,}")
_WHOLE = re.compile(r"(?<![\d.,])\d{4,}(?![\d.])")


def legible(text: str) -> str:
    """Arithmetic for the eye: thousands apart, and no more digits than one reads."""
    short = _LONG.sub(lambda found: f"{float(found[0]):.4g}", text)
    return _WHOLE.sub(lambda found: f"{int(found[0]):,}", short)
