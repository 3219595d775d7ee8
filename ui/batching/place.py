"""What a link to the batching page can say, and the safe way back from one.

    ?study=policies       static or continuous     ?study=arrivals    requests over time
    ?study=landing        a long prompt lands      ?study=pressure    memory runs out
    &source=simulated &seats=3 &watermark=10       what the scheduler is to do
    &chunk=64                                      the chunk that a long prompt is cut into
    &rate=30 &count=24 &mix=chat &pattern=poisson &seed=7
    &step=6 &request=E &axis=ms &ttft=500 &gap=50  where to stand, and the targets

Whatever cannot be read is left out and named in one sentence; the rest of the link counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ui.kit import address

STUDIES = {
    "policies": "Static or continuous",
    "arrivals": "Arrivals",
    "landing": "A long prompt lands",
    "pressure": "Memory pressure",
}
SOURCES = {"recorded": "Recorded", "simulated": "Try it"}
CHUNKS = (256, 64)
MIXES = {"chat": "Short chats", "documents": "Long prompts", "mixed": "Both"}
PATTERNS = {"poisson": "At random", "uniform": "Evenly", "burst": "In bursts"}

WORDS: dict[str, tuple[str, ...]] = {
    "study": tuple(STUDIES),
    "source": tuple(SOURCES),
    "mix": tuple(MIXES),
    "pattern": tuple(PATTERNS),
    "axis": ("steps", "ms"),
}
LIMITS = {
    "seats": (1, 8),
    "watermark": (0, 40),
    "rate": (5, 100),
    "count": (4, 48),
    "seed": (0, 999_999),
    "step": (0, 100_000),
}
"""Whole numbers. watermark: percent of the pool; rate: requests in 100 steps."""
TARGETS = {"ttft": (0.1, 600_000.0), "gap": (0.1, 600_000.0)}
"""In milliseconds where a model ran, in steps where none did."""

DEFAULTS: dict[str, Any] = {
    "study": "policies",
    "source": "recorded",
    "seats": 4,
    "watermark": 0,
    "chunk": CHUNKS[0],
    "rate": 25,
    "count": 20,
    "mix": "mixed",
    "pattern": "poisson",
    "seed": 1,
    "step": 0,
    "request": None,
    "axis": None,
    "ttft": None,
    "gap": None,
}
NAMES = tuple(DEFAULTS)
STANDING = ("step", "request", "axis", "ttft", "gap")
"""What belongs to one picture: another picture begins without it."""
SETTINGS = {
    "policies": ("source", "seats"),
    "arrivals": ("seats", "rate", "count", "mix", "pattern", "seed"),
    "landing": ("chunk",),
    "pressure": ("source", "seats", "watermark"),
}
"""Which controls a study has. The others stay out of its link."""


def _value(name: str, raw: str) -> Any:
    """The value of one parameter, or None if it cannot be what the page can show."""
    if name in WORDS:
        return raw if raw in WORDS[name] else None
    if name == "request":
        return raw if re.fullmatch(r"[\w .#-]{1,80}", raw) else None
    if name in TARGETS:
        low, high = TARGETS[name]
        fits = re.fullmatch(r"\d{1,6}(\.\d{1,4})?", raw, re.ASCII)
        return float(raw) if fits and low <= float(raw) <= high else None
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 6):
        return None
    number = int(raw)
    if name == "chunk":
        return number if number in CHUNKS else None
    low, high = LIMITS[name]
    return number if low <= number <= high else None


def read(params: Mapping[str, str]) -> tuple[dict[str, Any], str | None]:
    """Where the address stands, defaults filled in, and a sentence about what it asks in vain."""
    found, notice = address.sort(params, NAMES, _value)
    return {**DEFAULTS, **found}, notice


def written(place: Mapping[str, Any]) -> dict[str, str]:
    """The parameters that lead back to a place: those of its study that are not the default."""
    names = ("study", *SETTINGS[place["study"]], *STANDING)
    out = {}
    for name in names:
        value = place[name]
        if value is not None and value != DEFAULTS[name]:
            out[name] = f"{value:g}" if isinstance(value, float) else str(value)
    return out


def reported(standing: Mapping[str, Any]) -> dict[str, Any]:
    """What the browser says of where the reader rests; what cannot be a place is dropped."""
    out: dict[str, Any] = {}
    for name in STANDING:
        value = standing.get(name)
        if isinstance(value, float | int) and not isinstance(value, bool):
            value = f"{value:.4f}".rstrip("0").rstrip(".")
        out[name] = _value(name, value) if isinstance(value, str) else None
    out["step"] = out["step"] or 0
    return out
