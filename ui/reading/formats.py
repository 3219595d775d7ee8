"""Numbers of a lesson as text: a value, its unit, and the format that the lesson asks for."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from core.errors import KVScopeError
from core.sizing import units

Number = int | float
GAP = "\N{NO-BREAK SPACE}"


class ValueLineError(KVScopeError):
    """A line under `## values` cannot be computed; the message says which, and how to mend it."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A number with its base unit: B, B/s, s, FLOP, FLOP/s, fraction …; "" where it has none."""

    number: Number
    unit: str = ""


_RATES = {f"{name}/s": factor for name, factor in units.SIZES.items()}
_TIMES = {"s": Fraction(1), "ms": Fraction(1, 1000), "us": Fraction(1, 1_000_000)}
_FLOPS = {f"{p}FLOP": Fraction(10**e) for p, e in (("", 0), ("G", 9), ("T", 12), ("P", 15))}
_FLOP_RATES = {f"{name}/s": factor for name, factor in _FLOPS.items()}
_FRACTIONS = {"percent": Fraction(1, 100)}

_SCALED: tuple[tuple[str, dict[str, Fraction]], ...] = (
    ("B", units.SIZES),
    ("B/s", _RATES),
    ("s", _TIMES),
    ("FLOP", _FLOPS),
    ("FLOP/s", _FLOP_RATES),
    ("fraction", _FRACTIONS),
)
_SIGNS = {"percent": "%", "us": "µs"}
PLAIN = ("int", "num", "x", "thousand", "million", "billion")
_LARGE = {"thousand": 10**3, "million": 10**6, "billion": 10**9}


def three(number: Number) -> str:
    """Three significant digits, whole from a hundred on: 0.0366, 3.5, 41.2, 1,234."""
    if not math.isfinite(number):
        raise ValueLineError(f"{number} cannot be written as a number")
    if number == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(number)))
    if digits <= 0:
        return f"{round(number):,}".replace("-", "−")
    text = f"{number:,.{digits}f}"
    return text.rstrip("0").rstrip(".").replace("-", "−")


def known() -> list[str]:
    """Every word that may stand after `as`."""
    return [*PLAIN, *(name for _, table in _SCALED for name in table)]


def factor(unit: str, how: str) -> Fraction:
    """Base units in one of `how`: 2³⁰ for B in GiB. Raises ValueLineError where it is no unit of
    that kind."""
    for base, table in _SCALED:
        if base == unit and how in table:
            return table[how]
    raise ValueLineError(f"{unit or 'a plain number'} cannot be written as {how}")


def written(amount: Amount, how: str = "") -> str:
    """The amount as text. how: what stands after `as`; "" writes the number alone, whole if it is.

    Raises ValueLineError for a format that is not known or does not fit the unit.
    """
    number, unit = amount.number, amount.unit
    if "/" in how and how not in _RATES and how not in _FLOP_RATES:
        first, _, second = how.partition("/")
        return f"{written(amount, first)} ({written(amount, second)})"
    if how in ("", "num"):
        whole = how == "" and float(number).is_integer()
        return f"{int(number):,}".replace("-", "−") if whole else three(number)
    if how == "int":
        return f"{round(number):,}".replace("-", "−")
    if how == "x":
        return f"{three(number)}{GAP}×"
    if how in _LARGE:
        return f"{three(number / _LARGE[how])}{GAP}{how}"
    for base, table in _SCALED:
        if how in table:
            if unit not in ("", base) and (unit, how) != ("x", "percent"):
                raise ValueLineError(f"it is in {unit}, so it cannot be written as {how}")
            scaled = Fraction(number) / table[how]
            return f"{three(float(scaled))}{GAP}{_SIGNS.get(how, how)}"
    raise ValueLineError(f"there is no format {how!r}; known: {', '.join(known())}")


_LONG = re.compile(r"(?<![\w.])\d+\.\d{5,}(?:e[+-]?\d+)?|(?<![\w.])\d{5,}(?![\w.])")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def readable(line: str) -> str:
    """A line of a derivation with its long numbers cut to what an eye takes in: four digits of a
    fraction, commas in what is whole, a power of ten from a trillion on."""

    def shorter(found: re.Match[str]) -> str:
        number = float(found.group(0))
        if "." not in found.group(0) and number < 1e12:
            return f"{int(number):,}"
        mantissa, _, power = f"{number:.4g}".partition("e")
        if not power and number >= 1e12:
            mantissa, _, power = f"{number:.3e}".partition("e")
        if not power:
            return mantissa
        return f"{float(mantissa):g} · 10{str(int(power)).translate(_RAISED)}"

    return _LONG.sub(shorter, line)
