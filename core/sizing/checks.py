"""Checks of single inputs: each refuses with the field's path and one sentence."""

from __future__ import annotations

import math

from core.sizing.errors import SizingError

LARGEST = 2**63 - 1
"""No count of bytes, tokens or parameters is larger; what is, is a slip of the keyboard."""
FARTHEST = 1e30
"""No rate, time, price or factor is larger, and no divisor smaller than one over it, so that no
result overflows."""


def whole(value: object, path: str, minimum: int = 0, maximum: int = LARGEST) -> int:
    """A whole number within bounds. 4096.0 is one; "4096", True, None and NaN are not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SizingError(path, f"must be a whole number, not {shown(value)}")
    if isinstance(value, float):
        if not math.isfinite(value) or value != int(value):
            raise SizingError(path, f"must be a whole number, not {value}")
        value = int(value)
    if value > maximum == LARGEST:
        raise SizingError(path, f"is too large: {shown(value)}")
    if not minimum <= value <= maximum:
        raise SizingError(path, f"must be {_bounds(minimum, maximum)}, not {shown(value)}")
    return value


def number(
    value: object,
    path: str,
    minimum: float = 0.0,
    maximum: float = math.inf,
    *,
    above: bool = False,
) -> float:
    """A finite number within bounds; above: the minimum itself is refused."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SizingError(path, f"must be a number, not {shown(value)}")
    try:
        out = float(value)
    except OverflowError:
        raise SizingError(path, "is too large") from None
    if not math.isfinite(out):
        raise SizingError(path, f"must be a finite number, not {value}")
    if abs(out) > FARTHEST or (above and 0 < abs(out) < 1 / FARTHEST):
        raise SizingError(path, f"is too {'large' if abs(out) > 1 else 'small'}: {shown(value)}")
    if out < minimum or out > maximum or (above and out == minimum):
        floor = f"greater than {minimum:g}" if above else f"at least {minimum:g}"
        ceiling = "" if maximum == math.inf else f" and at most {maximum:g}"
        raise SizingError(path, f"must be {floor}{ceiling}, not {shown(value)}")
    return out


def amount(value: object, path: str, minimum: float = 0.0, *, above: bool = False) -> int | float:
    """A finite number within bounds, a whole one as an exact `int`: bytes stay integers."""
    out = number(value, path, minimum, above=above)
    if isinstance(value, int):
        return value
    return int(out) if out.is_integer() else out


def share(value: object, path: str) -> float:
    """A fraction from 0 to 1."""
    return number(value, path, 0.0, 1.0)


def positive(value: object, path: str) -> float:
    """A finite number greater than 0."""
    return number(value, path, 0.0, above=True)


def choice(value: object, path: str, allowed: tuple[str, ...]) -> str:
    """One of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        raise SizingError(path, f"must be one of {', '.join(allowed)}, not {shown(value)}")
    return value


def _bounds(minimum: int, maximum: int) -> str:
    return f"at least {minimum:,}" if maximum == LARGEST else f"{minimum:,} to {maximum:,}"


def shown(value: object) -> str:
    """A value as a sentence can hold it."""
    text = repr(value) if isinstance(value, str) else f"{value}"
    if isinstance(value, dict | list):
        text = "an object" if isinstance(value, dict) else "a list"
    elif value is None:
        text = "null"
    elif isinstance(value, bool):
        text = "true" if value else "false"
    return text if len(text) <= 60 else text[:57] + "…"
