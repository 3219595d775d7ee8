"""Numbers as text for the further topics, alike within a question, and the models they draw from.

Three significant digits everywhere, so that no option stands out by how it is written.
"""

from __future__ import annotations

from math import floor, log10

from core.sizing.result import Number
from quiz.items import Answer

MODELS = (
    "llama-3.1-8b",
    "llama-3.1-70b",
    "llama-3.1-405b",
    "qwen2.5-7b",
    "qwen2.5-72b",
    "qwen3-8b",
    "qwen3-32b",
    "mistral-7b",
    "mistral-small-3",
    "glm-4.5-air",
)
"""Published models whose layers are all alike and grouped: the formula is the whole of it."""
GIB = 2**30


def three(value: Number) -> str:
    """0.0162, 4.87, 98.6, 1,342: three digits, or all that stand before the point."""
    number = float(f"{float(value):.3g}") if abs(float(value)) < 1000 else float(value)
    if number == 0:
        return "0"
    return f"{number:,.{max(0, 2 - floor(log10(abs(number))))}f}"


def of(value: Number, unit: str) -> Answer:
    return Answer(f"{three(value)} {unit}")


def exact(size: Number) -> Answer:
    """Bytes, and the same in KiB."""
    return Answer(f"{size:,} B", f"{three(float(size) / 1024)} KiB")


def gib(size: Number) -> str:
    return f"{three(float(size) / GIB)} GiB"


def gb(size: Number) -> str:
    return f"{three(float(size) / 1e9)} GB"


def times(ratio: Number) -> str:
    return f"{three(ratio)} ×"


def share3(part: Number) -> str:
    return f"{three(100 * float(part))}\u2009%"
