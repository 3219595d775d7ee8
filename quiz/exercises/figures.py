"""A number as a text says it. Bytes say which prefix they are in, and may say both."""

from __future__ import annotations

from fractions import Fraction

from core.sizing import units
from core.sizing.units import SIZES

_TIMES = {"s": 1, "ms": 10**3, "us": 10**6}


def shown(value: Fraction, form: str) -> str:
    """form: a size (KiB, MB …), two of them (GiB/GB), a rate (GB/s, Gbit/s), s, ms, us, percent,
    x, int, num, or words that follow a number ("FLOP/B"). Raises KeyError for an unknown size."""
    if form == "int":
        return f"{round(value):,}"
    if form == "percent":
        return f"{_digits(value * 100)}\u00a0%"
    if form == "x":
        return f"{_digits(value)}\u00a0×"
    if form in ("num", ""):
        return _digits(value)
    if form == "B":
        return f"{round(value):,}\u00a0B"
    if form == "both":
        return units.both(float(value)).replace(".00 ", " ").replace(" ", "\u00a0")
    if form in _TIMES:
        return f"{_digits(value * _TIMES[form])}\u00a0{form.replace('us', 'µs')}"
    first, _, second = form.partition("/")
    if form == "TFLOP/s":
        return f"{_digits(value / 10**12)}\u00a0{form}"
    if first in SIZES and second in SIZES:
        return f"{shown(value, first)} ({shown(value, second)})"
    if first in SIZES and second in ("", "s"):
        return f"{_digits(value / SIZES[first])}\u00a0{form}"
    return f"{_digits(value)}\u00a0{form}"


def _digits(value: Fraction) -> str:
    """Whole numbers whole; else three significant digits, and no digit before the point lost."""
    if value.denominator == 1:
        return f"{value.numerator:,}"
    size = abs(value)
    if size >= 100:
        return f"{float(value):,.0f}" if size >= 1000 else f"{float(value):,.1f}".removesuffix(".0")
    text = f"{float(value):.3g}"
    return f"{float(value):.6f}".rstrip("0") if "e" in text else text
