"""Units of size and rate. GB is 10⁹ bytes, GiB is 2³⁰; both are shown, never mixed."""

from __future__ import annotations

import re
from difflib import get_close_matches
from fractions import Fraction
from typing import NoReturn

from core.sizing import checks
from core.sizing.errors import SizingError
from core.sizing.result import Result, Step, symbols

MIB, GIB = 1 << 20, 1 << 30

_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_PREFIXES = {**_DECIMAL, **_BINARY}

SIZES: dict[str, Fraction] = {
    **{f"{prefix}B": Fraction(factor) for prefix, factor in _PREFIXES.items()},
    **{f"{prefix}bit": Fraction(factor, 8) for prefix, factor in _PREFIXES.items()},
}
"""Bytes in one of each: kB, MB, GB (powers of 1000), KiB, MiB, GiB (of 1024), and bits."""

_RATES = {f"{name}/s": size for name, size in SIZES.items()}


def exact(value: float, path: str, minimum: float = 0.0) -> Fraction:
    """A number as the decimal that was written: 0.92 is 92/100, not the nearest double."""
    checks.number(value, path, minimum)
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def plain(value: Fraction) -> int | float:
    """An int where it is one."""
    return value.numerator if value.denominator == 1 else float(value)


def convert(value: float, from_: str, to: str) -> Result:
    """A size or a rate in another unit; bits and bytes convert, sizes and rates do not.

    from_, to: "B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "Gbit" …, or these with "/s".
    """
    table = _RATES if isinstance(from_, str) and from_.endswith("/s") else SIZES
    for unit, path in ((from_, "from_"), (to, "to")):
        if not isinstance(unit, str) or unit not in table:
            other = _RATES if table is SIZES else SIZES
            kind = "rate" if table is SIZES else "size"
            if isinstance(unit, str) and unit in other:
                raise SizingError(path, f"{unit} is a {kind}, and {from_} is not")
            _refuse(unit, path, table)
    amount = exact(value, "value", minimum=-float("inf"))
    factor = table[from_] / table[to]
    out = plain(amount * factor)
    return Result(
        out,
        to,
        symbols(("x", "the amount", value, from_), ("f", f"{to} in one {from_}", plain(factor))),
        (Step("x · f", f"{value} · {_shown(factor)}", out, to),),
    )


def _refuse(unit: object, path: str, table: dict[str, Fraction]) -> NoReturn:
    """An unknown unit, with those that may be meant: Gb is Gbit, gib is GiB or Gibit."""
    meant = []
    if isinstance(unit, str):
        bits = re.sub(r"(?<=[kMGTPi])b(?=$|/)|^b(?=$|/)", "bit", unit)
        plain = unit.replace("ps", "/s").replace("bit", "b").lower()
        same = [one for one in table if one.replace("bit", "b").lower() == plain]
        meant = [one for one in (bits, *same) if one in table]
        meant = meant or get_close_matches(unit[:20], table, 3)
    shown = checks.shown(unit)
    hint = f"did you mean {' or '.join(dict.fromkeys(meant))}?" if meant else ""
    raise SizingError(path, f"there is no unit {shown}; {hint or 'known: ' + ', '.join(table)}")


def _shown(factor: Fraction) -> str:
    return f"{factor}" if factor.denominator == 1 or factor.numerator == 1 else f"({factor})"


def both(num_bytes: float) -> str:
    """`85.90 GB = 80.00 GiB`, with prefixes that fit the size; below 1 kB the bytes alone."""
    size = abs(num_bytes)
    if size < 1000:
        return f"{num_bytes:g} B"
    power = 1
    while size >= 1000 ** (power + 1) and power < 5:
        power += 1
    decimal, binary = "kMGTP"[power - 1] + "B", "KMGTP"[power - 1] + "iB"
    return f"{num_bytes / 1000**power:,.2f} {decimal} = {num_bytes / 1024**power:,.2f} {binary}"
