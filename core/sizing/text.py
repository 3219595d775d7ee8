"""Numbers as a derivation prints them: integers in full up to 10¹³, the rest to six digits."""

from __future__ import annotations

from core.sizing.result import Number


def num(value: Number | None) -> str:
    """327680 → "327,680"; 0.03665245 → "0.0366525"; 989400000000000 → "9.894e14"."""
    if value is None:
        return "none"
    whole = isinstance(value, int) or (value.is_integer() and abs(value) < 1e9)
    if whole and abs(value) < 10**13:
        return f"{int(value):,}"
    return f"{value:.6g}".replace("e+", "e")
