"""A derivation of the sizing library as a page shows it: every number as text, with its unit."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, Final

from core.sizing import units
from core.sizing.expressions import Call, Value

_ROUND: Final = re.compile(r"\.00(?= )")
"""Decimals that say nothing: 320.00 KiB."""


def number(value: object, unit: str = "") -> str:
    """A value as text: 2,621,440 B (2.62 MB = 2.50 MiB); 0.005265 s. A word stays as it is."""
    if value is None:
        return "no such number"
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    whole = isinstance(value, int) or abs(value) >= 1e6
    shown = f"{value:,.0f}" if whole else f"{value:,.6g}"
    if unit == "B" and abs(value) >= 1000:
        return f"{shown} B ({_ROUND.sub('', units.both(value))})"
    if unit == "B/s" and abs(value) >= 1e9:
        return f"{shown} B/s ({value / 1e9:,.4g} GB/s)"
    return f"{shown} {unit}".strip()


def command(call: Call) -> str:
    """What to type to have the same from the command line."""
    inputs = json.dumps(call.inputs, ensure_ascii=False)
    return f"python -m core calc {call.function} {shlex.quote(inputs)}"


def of_call(call: Call) -> dict[str, Any]:
    """One call: what was asked, its symbols and steps, what it rests on."""
    result = call.result
    return {
        "function": call.function,
        "inputs": ", ".join(f"{key} = {_input(given)}" for key, given in call.inputs.items()),
        "command": command(call),
        "value": number(result.value, result.unit),
        "scope": result.scope,
        "basis": result.basis,
        "source": result.source,
        "notes": list(result.notes),
        "symbols": [
            [one.symbol, one.meaning, number(one.value, one.unit)] for one in result.symbols
        ],
        "steps": [
            [step.formula, step.substituted, number(step.value, step.unit)] for step in result.steps
        ],
    }


def of_value(value: Value | None) -> dict[str, Any] | None:
    """An expression and the calls in it. expression: empty where it is one call and no more."""
    if value is None:
        return None
    alone = len(value.calls) == 1 and value.text.startswith(f"{value.calls[0].function}(")
    return {
        "expression": "" if alone else value.text,
        "calls": [of_call(call) for call in value.calls],
    }


def _input(given: object) -> str:
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
