"""Presenting: on every page the same keys, and a recorded run one key away.

A page that has a run plays its own. From any other the key leads to the run that shows what the
page is about: of a lesson the one of the part that is open, else the first that it shows, of others
the one in lessons/present.json, where "*" stands for all that are not named.
"""

from __future__ import annotations

import json
from functools import cache, lru_cache

import streamlit as st

from ui import lesson, nav
from ui.components.presenter import presenter
from ui.kit import page
from ui.lesson import Lesson
from ui.paths import LESSONS
from ui.reading import document, run_card
from ui.reading.document import Run

Address = tuple[str, dict[str, str]]
"""A page of the course and its query."""
PLAYERS = ("prefill_decode", "block_pool", "batching", "prefix_cache")
"""Pages whose instrument plays a run."""


def draw(here: str) -> None:
    """The keys, on the page of that name ("" is the first)."""
    wish = presenter(key="kv-presenter")
    if wish == "leave":
        page.set_present(False)
        st.rerun()
    if wish == "go":
        name, query = recorded(here, st.query_params.get("at", ""))
        st.switch_page(nav.page(name), query_params={**query, "present": "1"})


@lru_cache(maxsize=256)
def recorded(here: str, part: str = "") -> Address:
    """Where the page's recorded run is played. part: of a lesson, the one that is open."""
    place, listed = nav.PLACES.get(here), _listed()
    found = None
    if place is not None and place.reads:
        words = lesson.load(here)
        own = [name for name in words.sections if name.partition(".")[0] == part]
        found = _first_run(words, own) or _first_run(words, list(words.sections))
    return _played(found or Run(listed.get(here, listed["*"]), {}, ""))


def _played(run: Run) -> Address:
    """On its own page, unless that shows it as numbers alone: any run can be played as blocks."""
    name, query = run_card.target(run)
    if name not in PLAYERS or query.get("study") == "time":
        return "block_pool", {"run": run.name, **run.query}
    return name, query


def _first_run(words: Lesson, sections: list[str]) -> Run | None:
    for name in sections:
        for block in document.blocks(words[name]):
            if isinstance(block, Run):
                return block
    return None


@cache
def _listed() -> dict[str, str]:
    """Page → recorded run."""
    loaded: dict[str, str] = json.loads((LESSONS / "present.json").read_text(encoding="utf-8"))
    return loaded
