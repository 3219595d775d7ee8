"""What a link to the claims ledger can say, and the safe way back from one.

    ?claim=B041               the claim to open
    &q=block &topic=paging &source=chapter       what to list
    &mine=open                by one's own votes: open, voted, agree, differ
    &show=all &verdict=wrong  all verdicts, and only those of one kind

Whatever cannot be read is left out and named in one sentence; the rest of the link counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from core.sizing.claims import VERDICTS
from ui.claims import ledger
from ui.kit import address

NAMES: Final = ("claim", "q", "topic", "source", "mine", "verdict", "show")
MINE: Final = ("open", "voted", "agree", "differ")
MAX_QUERY_CHARS: Final = 80


def _fits(name: str, raw: object) -> bool:
    if not isinstance(raw, str):
        return False
    if name == "q":
        return 0 < len(raw) <= MAX_QUERY_CHARS and raw.isprintable()
    allowed: Mapping[str, object] = {
        "claim": ledger.known(),
        "topic": ledger.TITLES,
        "source": ledger.SOURCES,
        "mine": MINE,
        "verdict": VERDICTS,
        "show": ("all",),
    }
    return name in allowed and raw in allowed[name]  # type: ignore[operator]


def read(params: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
    """What the address asks for, and a sentence about what it asks in vain."""
    told = params.get("show") == "all"  # to list by verdict would tell each one before the vote

    def value(name: str, raw: str) -> str | None:
        return raw if _fits(name, raw) and (told or name != "verdict") else None

    return address.sort(params, NAMES, value)


def written(place: object) -> dict[str, str]:
    """The browser's place as parameters of the address; what does not belong there is dropped."""
    if not isinstance(place, dict):
        return {}
    return {name: place[name] for name in NAMES if name != "show" and _fits(name, place.get(name))}
