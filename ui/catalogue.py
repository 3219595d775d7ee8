"""The built-in scenarios: plain scenario files or workloads by number of blocks, and a list that
says what each one shows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from ui.paths import LESSONS, SCENARIOS


@dataclass(frozen=True, slots=True)
class Entry:
    """slug: its name in links, and the file's. shows, look: what it shows, and where to look.
    blocks: of a scenario that has no file but is made (see `core.pool_studies`); else 0."""

    slug: str
    group: str
    title: str
    shows: str
    look: str
    blocks: int = 0

    @property
    def text(self) -> str:
        """The scenario file, as it is."""
        if self.blocks:
            return _made(self.blocks)
        return (SCENARIOS / f"{self.slug}.json").read_text(encoding="utf-8")


@cache
def _made(num_blocks: int) -> str:
    from core.pool_studies import pool_scenario
    from ui.forms import pretty

    return pretty(pool_scenario(num_blocks))


@cache
def entries() -> dict[str, Entry]:
    """Every built-in scenario by slug, in the order of the course."""
    items = json.loads((LESSONS / "catalogue.json").read_text(encoding="utf-8"))
    return {item["slug"]: Entry(**item) for item in items}


@cache
def recorded() -> dict[str, dict[str, Any]]:
    """What the recorded runs show and where to look, by name; a run may be missing here. page,
    query: the page that a run is about, and the parameters that show it there."""
    loaded: dict[str, dict[str, Any]] = json.loads(
        (LESSONS / "recorded.json").read_text(encoding="utf-8")
    )
    return loaded


@cache
def words() -> dict[str, str]:
    """The text of the token ids that the built-in scenarios use.

    Without a model a token id stands for nothing; this list gives those of the built-in scripts a
    word each, so that a sequence can be read. It changes no decision of the engine.
    """
    loaded: dict[str, str] = json.loads((LESSONS / "words.json").read_text(encoding="utf-8"))
    return loaded
