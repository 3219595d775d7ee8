"""What a link to the numbers can say, and the safe way back from one.

    ?number=ridge-h100-sxm5   the number to open
    &group=gpus               one group alone
    &cover=1                  values are covered until one looks

Whatever cannot be read is left out and named in one sentence; the rest of the link counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from ui.kit import address
from ui.numbers import sheet

NAMES: Final = ("number", "group", "cover")


@cache
def _allowed() -> dict[str, frozenset[str]]:
    found = sheet.groups()
    return {
        "number": frozenset(entry.id for group in found for entry in group.entries),
        "group": frozenset(group.id for group in found),
        "cover": frozenset({"1"}),
    }


def read(params: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
    """What the address asks for, and a sentence about what it asks in vain."""
    return address.sort(params, NAMES, lambda name, raw: raw if raw in _allowed()[name] else None)


def written(place: object) -> dict[str, str]:
    """The browser's place as parameters of the address; what does not belong there is dropped."""
    if not isinstance(place, dict):
        return {}
    found = {name: place.get(name) for name in NAMES}
    return {
        name: raw for name, raw in found.items() if isinstance(raw, str) and raw in _allowed()[name]
    }
