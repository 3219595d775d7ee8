"""Presenting: on every page the same keys, and a recorded run one key away.

A page that has a run plays its own. From any other the key leads to the run that shows what the
page is about: of a lesson the first that it shows, of others the one in lessons/present.json, where
"*" stands for all that are not named.
"""

from __future__ import annotations

import json
from functools import cache

import streamlit as st

from ui import lesson, nav
from ui.components.presenter import presenter
from ui.kit import page
from ui.paths import LESSONS
from ui.reading import document, run_card
from ui.reading.document import Run

Address = tuple[str, dict[str, str]]
"""A page of the course and its query."""


def draw(here: str) -> None:
    """The keys, on the page of that name ("" is the first)."""
    wish = presenter(key="kv-presenter")
    if wish == "leave":
        page.set_present(False)
        st.rerun()
    if wish == "go":
        name, query = recorded(here)
        st.switch_page(nav.page(name), query_params={**query, "present": "1"})


@cache
def recorded(here: str) -> Address:
    """Where the page's recorded run is played."""
    place, listed = nav.PLACES.get(here), _listed()
    found = _first_run(here) if place is not None and place.reads else None
    return run_card.target(found or Run(listed.get(here, listed["*"]), {}, ""))


def _first_run(name: str) -> Run | None:
    words = lesson.load(name)
    for section in words.sections.values():
        for block in document.blocks(section):
            if isinstance(block, Run):
                return block
    return None


@cache
def _listed() -> dict[str, str]:
    """Page → recorded run."""
    loaded: dict[str, str] = json.loads((LESSONS / "present.json").read_text(encoding="utf-8"))
    return loaded
