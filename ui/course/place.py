"""What a link to the course's page can say, and the safe way back from one.

    ?q=paged attention        what to look for
    &view=terms &term=block   the list of terms, open at one

Whatever cannot be read is left out and named in one sentence; the rest of the link counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ui.kit import address, glossary

NAMES: Final = ("q", "view", "term")
VIEWS: Final = ("map", "terms")
MAX_QUERY_CHARS: Final = 80


def fits(name: str, raw: object) -> bool:
    if not isinstance(raw, str):
        return False
    if name == "q":
        return 0 < len(raw) <= MAX_QUERY_CHARS and raw.isprintable()
    if name == "view":
        return raw in VIEWS
    return name == "term" and any(term.slug == raw for term in glossary.entries())


def read(params: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
    """What the address asks for, and a sentence about what it asks in vain."""
    return address.sort(params, NAMES, lambda name, raw: raw if fits(name, raw) else None)


def written(place: object) -> dict[str, str]:
    """The browser's place as parameters of the address; what does not belong there is dropped."""
    if not isinstance(place, dict):
        return {}
    kept = {name: place[name] for name in NAMES if fits(name, place.get(name))}
    return {name: value for name, value in kept.items() if (name, value) != ("view", "map")}
