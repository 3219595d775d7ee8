"""A number as a text prints it, and whether a computed one is that number.

What is printed has a precision (its last digit) and a unit, and the unit may not be meant: "KB"
over a count of 1,024s is common, and so is a prefix made of both 1,000 and 1,024.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

from core.sizing.errors import SizingError

_PREFIXES = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_PLAIN: Final = {
    "ms": (Fraction(1, 1000), "s"),
    "µs": (Fraction(1, 1_000_000), "s"),
    "%": (Fraction(1, 100), "fraction"),
    "million blocks": (Fraction(10**6), "blocks"),
}
_BYTES = re.compile(r"([kKMGTP])(i?)B(/s)?")
_DIGITS = re.compile(r"[-−]?\d{1,3}(,\d{3})+(\.\d+)?|[-−]?\d+(\.\d+)?")

Bound = Literal["", "below", "above", "at_most", "at_least"]
Reading = Literal["printed", "binary", "mixed"]
"""Of a unit: as it is printed; a decimal prefix that stands for powers of 1,024; one that mixes
1,000 and 1,024 (0.320 "MB" for 327,680 B, which are 320 KiB)."""

Agreement = Literal["exact", "rounded", "cut", ""]

CLOSE: Final = Fraction(1, 1000)
"""Within one in a thousand a printed number is the computed one; further off it is a rounding."""


@dataclass(frozen=True, slots=True)
class Printed:
    """A printed number: low = high unless it is a range. step: one unit of the last digit. bound:
    the text only says that the number lies so."""

    low: Fraction
    high: Fraction
    step: Fraction
    unit: str
    bound: Bound = ""

    @property
    def base(self) -> str:
        """The unit that computed values have: B, B/s, s, fraction, or the printed one itself."""
        return base(self.unit)

    def factors(self) -> tuple[tuple[Reading, Fraction], ...]:
        """What one printed unit may be in base units, the literal reading first."""
        return _factors(self.unit)

    def agrees(self, value: Fraction | None, factor: Fraction | None = None) -> Agreement:
        """Whether a value in base units is this number, one unit being `factor` (as printed).

        exact: to the printed digits and within one in a thousand, or within the range or bound.
        rounded: the digits are its rounding, but the value lies further off; cut: its digits with
        the rest cut off.
        """
        if value is None:
            return ""
        scaled = value / (self.factors()[0][1] if factor is None else factor)
        if self.bound:
            holds = {
                "below": scaled < self.low,
                "above": scaled > self.low,
                "at_most": scaled <= self.low,
                "at_least": scaled >= self.low,
            }[self.bound]
            return "exact" if holds else ""
        if self.low != self.high:
            half = self.step / 2
            return "exact" if self.low - half <= scaled <= self.high + half else ""
        off = abs(scaled - self.low)
        if off <= self.step / 2 and off <= abs(self.low) * CLOSE:
            return "exact"
        if off <= self.step / 2:
            return "rounded"
        cut = abs(self.low) <= abs(scaled) < abs(self.low) + self.step and scaled * self.low >= 0
        return "cut" if cut else ""

    def can_equal(self, other: Printed) -> bool:
        """Whether one quantity can be printed both ways. Other units: not compared, so True."""
        if self.bound or other.bound or self.unit != other.unit:
            return True
        if self.low != self.high or other.low != other.high:
            slack = max(self.step, other.step) / 2
            return max(self.low, other.low) <= min(self.high, other.high) + slack
        if self.step == other.step:
            return self.low == other.low
        coarse, fine = (self, other) if self.step > other.step else (other, self)
        return coarse.agrees(fine.low, Fraction(1)) != ""  # both in the same unit

    def __str__(self) -> str:
        words = {"below": "< ", "above": "> ", "at_most": "≤ ", "at_least": "≥ ", "": ""}
        ends = _digits(self.low, self.step)
        if self.low != self.high:
            ends += f"–{_digits(self.high, self.step)}"
        return f"{words[self.bound]}{ends} {self.unit}".strip()


def base(unit: str) -> str:
    """The base unit of a printed one: MB → B, GB/s → B/s, ms → s, % → fraction."""
    if unit in _PLAIN:
        return _PLAIN[unit][1]
    found = _BYTES.fullmatch(unit)
    return f"B{found[3] or ''}" if found else unit


def read(content: dict[str, Any], path: str) -> Printed:
    """{"value": "1.25", "unit": "GB"}; {"low", "high", "unit"}; {"below" | "above" | "at_most" |
    "at_least": "4", "unit": "%"}. Numbers are text, for their digits."""
    unit = content.get("unit", "")
    if not isinstance(unit, str):
        raise SizingError(f"{path}.unit", "must be a word")
    keys = set(content) - {"unit"}
    if keys == {"low", "high"}:
        low, step = _number(content["low"], f"{path}.low")
        high, other = _number(content["high"], f"{path}.high")
        if low >= high:
            raise SizingError(f"{path}.high", "must be above low")
        return Printed(low, high, min(step, other), unit)
    if keys == {"value"}:
        value, step = _number(content["value"], f"{path}.value")
        return Printed(value, value, step, unit)
    bounds: tuple[Bound, ...] = ("below", "above", "at_most", "at_least")
    for bound in bounds:
        if keys == {bound}:
            value, step = _number(content[bound], f"{path}.{bound}")
            return Printed(value, value, step, unit, bound)
    raise SizingError(path, "must hold value, low and high, or one bound, and a unit")


def _number(text: object, path: str) -> tuple[Fraction, Fraction]:
    if not isinstance(text, str) or not _DIGITS.fullmatch(text):
        raise SizingError(path, 'must be digits in quotes, as "1,310,720" or "0.64"')
    plain = text.replace(",", "").replace("−", "-")
    decimals = len(plain.partition(".")[2])
    return Fraction(plain), Fraction(1, 10**decimals)


def _factors(unit: str) -> tuple[tuple[Reading, Fraction], ...]:
    if unit in _PLAIN:
        return (("printed", _PLAIN[unit][0]),)
    found = _BYTES.fullmatch(unit)
    if not found:
        return (("printed", Fraction(1)),)
    power = _PREFIXES[found[1]]
    if found[2]:
        return (("printed", Fraction(1024**power)),)
    mixed = tuple(
        ("mixed", Fraction(1024**binary * 1000 ** (power - binary))) for binary in range(1, power)
    )
    factors: list[tuple[Reading, Fraction]] = [
        ("printed", Fraction(1000**power)),
        ("binary", Fraction(1024**power)),
    ]
    factors.extend(("mixed", factor) for _, factor in mixed)
    return tuple(factors)


def _digits(value: Fraction, step: Fraction) -> str:
    decimals = len(str(step.denominator)) - 1
    return f"{float(value):,.{decimals}f}"
