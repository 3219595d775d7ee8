"""The numbers to know, from `lessons/numbers.json`: each one a call into the library, run.

The file holds names, calls and units and no value. A number is

    {"id", "name", "call", "inputs", "unit", "scope"}        the value of one function
    {"id", "name", "compute", "unit", "scope"}               of an expression over functions

and may have `symbol`: a symbol of the call's derivation is meant and not its value (a data sheet's
bandwidth); `claims`: ids of the ledger's claims about it; `note`: what to keep in mind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from core import jsonio
from core.errors import InputFileError
from core.sizing import calls, units
from core.sizing.errors import SizingError
from core.sizing.expressions import Value, evaluate
from core.sizing.result import Number, Result

SCHEMA: Final = "kv-scope/numbers/1"
FILE: Final = Path(__file__).resolve().parents[2] / "lessons" / "numbers.json"
SCOPES: Final = ("", "token", "layer", "gpu", "replica", "model", "sequence", "request")
_PLAIN: Final = {
    "ms": (Fraction(1, 1000), "s"),
    "%": (Fraction(1, 100), "fraction"),
    "GFLOP": (Fraction(10**9), "FLOP"),
    "TFLOP/s": (Fraction(10**12), "FLOP/s"),
}
"""Unit → how many of the unit that functions answer in, and that unit."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One number, evaluated. value: in the unit that the library answers in, `base`; scale: how
    many of that one `unit` is. derived: the calls behind it."""

    id: str
    name: str
    unit: str
    scope: str
    value: Number
    base: str
    scale: Fraction
    derived: Value
    claims: tuple[str, ...] = ()
    note: str = ""

    @property
    def shown(self) -> str:
        """The value as people read it: bytes in both prefixes, all else in `unit`."""
        if self.base == "B":
            return units.both(self.value).replace(".00 ", " ")
        return f"{_digits(Fraction(repr(self.value)) / self.scale)} {self.unit}".strip()


@dataclass(frozen=True, slots=True)
class Group:
    """Numbers that belong together. about: one sentence that holds for all of them."""

    id: str
    title: str
    about: str
    entries: tuple[Entry, ...]


def load(path: Path = FILE) -> tuple[Group, ...]:
    """All groups with every number computed. Raises SizingError with the path in the file."""
    try:
        return read(jsonio.loads(path.read_bytes()))
    except OSError as error:
        raise SizingError("", f"cannot read {path.name}: {error.strerror or error}") from None
    except InputFileError as error:
        raise SizingError("", f"{path.name}: {error}") from None


def read(content: object) -> tuple[Group, ...]:
    """The same from the file's content."""
    whole = _object(content, "numbers", {"schema", "groups"}, set())
    if whole["schema"] != SCHEMA:
        raise SizingError("schema", f"must be {SCHEMA}")
    seen: set[str] = set()
    groups = []
    for index, given in enumerate(_list(whole["groups"], "groups")):
        path = f"groups[{index}]"
        _object(given, path, {"id", "title", "about", "numbers"}, set())
        entries = []
        for place, number in enumerate(_list(given["numbers"], f"{path}.numbers")):
            entry = _entry(number, f"{path}.numbers[{place}]")
            if entry.id in seen:
                raise SizingError(f"{path}.numbers[{place}].id", f"{entry.id} appears twice")
            seen.add(entry.id)
            entries.append(entry)
        groups.append(Group(given["id"], given["title"], given["about"], tuple(entries)))
    return tuple(groups)


def _entry(content: object, path: str) -> Entry:
    optional = {"call", "inputs", "compute", "symbol", "claims", "note"}
    given = _object(content, path, {"id", "name", "unit", "scope"}, optional)
    if ("call" in given) == ("compute" in given):
        raise SizingError(path, "must hold either call with inputs, or compute")
    if given["scope"] not in SCOPES:
        raise SizingError(f"{path}.scope", f"must be one of {', '.join(filter(None, SCOPES))}")
    expression = given.get("compute") or {"call": given["call"], "inputs": given.get("inputs", {})}
    derived = evaluate(expression, _library, path)
    value, answered = derived.number, _unit_of(derived, expression, given["unit"])
    if "symbol" in given:
        value, answered = _symbol(derived, given["symbol"], f"{path}.symbol")
    if value is None:
        raise SizingError(path, "there is no such number")
    scale, base = _scale(given["unit"])
    if base != answered:
        raise SizingError(f"{path}.unit", f"{given['unit']} is no unit of {answered}")
    return Entry(
        id=given["id"],
        name=given["name"],
        unit=given["unit"],
        scope=given["scope"],
        value=value,
        base=base,
        scale=scale,
        derived=derived,
        claims=tuple(given.get("claims", ())),
        note=given.get("note", ""),
    )


def _unit_of(derived: Value, expression: Mapping[str, Any], unit: str) -> str:
    """The unit that the value has: a function's own; of arithmetic over them, the one declared."""
    if "call" in expression:
        return derived.calls[-1].result.unit
    return _scale(unit)[1]


def _symbol(derived: Value, name: str, path: str) -> tuple[Number, str]:
    for symbol in derived.calls[-1].result.symbols:
        if symbol.symbol == name and isinstance(symbol.value, int | float):
            return symbol.value, symbol.unit
    raise SizingError(path, f"{name} is no symbol of {derived.calls[-1].function}")


def _scale(unit: str) -> tuple[Fraction, str]:
    """How many base units one is, and the base: ms → (1/1000, "s"), TB/s → (10¹², "B/s")."""
    if unit in _PLAIN:
        return _PLAIN[unit]
    size, rate = unit.removesuffix("/s"), unit.endswith("/s")
    if size in units.SIZES:
        return units.SIZES[size], "B/s" if rate else "B"
    return Fraction(1), unit


def _digits(number: Fraction) -> str:
    if number.denominator == 1:
        return f"{number.numerator:,}"
    value = float(number)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _library(function: str, inputs: Mapping[str, Any]) -> Result:
    return calls.call(function, inputs).result


def _object(content: object, path: str, required: set[str], optional: set[str]) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise SizingError(path, "must be an object")
    for name in sorted(required - content.keys()):
        raise SizingError(f"{path}.{name}", "is missing")
    for name in sorted(content.keys() - required - optional):
        raise SizingError(f"{path}.{name}", "is not known here")
    return content


def _list(content: object, path: str) -> list[Any]:
    if not isinstance(content, list):
        raise SizingError(path, "must be a list")
    return content
