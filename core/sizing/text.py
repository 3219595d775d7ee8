"""Numbers as text: exact where a derivation puts them in, short where a sentence mentions them."""

from __future__ import annotations

from core.sizing.result import Number


def num(value: Number) -> str:
    """For `Step.substituted`: nothing is rounded, so that whoever computes it again gets the value.

    327680.0 → "327680", 0.1 + 0.2 → "0.30000000000000004".
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return repr(value)


def short(value: Number) -> str:
    """For notes: "327,680", "0.0366525", "9.894e14"."""
    whole = isinstance(value, int) or value.is_integer()
    if whole and abs(value) < 10**13:
        return f"{int(value):,}"
    return f"{value:,.6g}".replace("e+", "e")
