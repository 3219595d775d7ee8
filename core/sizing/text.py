"""Numbers as a derivation prints them: integers in full, the rest to six significant digits."""

from __future__ import annotations

from core.sizing.result import Number


def num(value: Number | None) -> str:
    """327680 → "327,680"; 0.0366524 → "0.0366524"; 9.894e14 stays "9.894e+14"."""
    if value is None:
        return "none"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e9:
        value = int(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
