"""What a link to the prefill and decode page can say, and the safe way back from one.

    ?run=one_question     a recorded run          ?exp=double      an experiment's recorded runs
    &step=3 &follow=B     where to stand, and whose request to follow
    &prompt=… &chat=0 &max=48                     what to ask the engine
    &ttft=500 &gap=50 &machine=h100-sxm5          targets, and whose roofline

Whatever cannot be read is left out and named in one sentence; the rest of the link counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ui.kit import address
from ui.prefill.modelled import SHOWN

EXPERIMENTS = ("double", "batch", "cache")
MAX_PROMPT_CHARS = 4_000
NAMES = ("run", "exp", "step", "follow", "prompt", "chat", "max", "ttft", "gap", "machine")
_LIMITS = {"step": (0, 100_000), "max": (1, 256), "ttft": (1, 60_000), "gap": (1, 60_000)}


def _number(name: str, raw: str) -> int | None:
    low, high = _LIMITS[name]
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 6):
        return None
    return int(raw) if low <= int(raw) <= high else None


def _value(name: str, raw: str) -> Any:
    """The value of one parameter, or None if it cannot be what the page can show."""
    if name in _LIMITS:
        return _number(name, raw)
    if name == "exp":
        return raw if raw in EXPERIMENTS else None
    if name == "machine":
        return raw if raw in SHOWN else None
    if name == "chat":
        return raw != "0"
    if name == "prompt":
        return raw if 0 < len(raw) <= MAX_PROMPT_CHARS else None
    fits = re.fullmatch(r"[A-Za-z0-9][\w .#-]{0,79}", raw) is not None and ".." not in raw
    return raw if fits else None


def read(params: Mapping[str, str]) -> tuple[dict[str, Any], str | None]:
    """What the address asks for, and a sentence about what it asks in vain."""
    return address.sort(params, NAMES, _value)


def written(place: object) -> dict[str, str]:
    """The browser's place as parameters of the address; what does not belong there is dropped."""
    if not isinstance(place, dict):
        return {}
    given = {k: v for k, v in place.items() if k in NAMES and isinstance(v, str)}
    return {k: v for k, v in given.items() if _value(k, v) is not None}
