"""The pages that exist. Imports nothing slow: navigation is declared before everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from ui.paths import PAGES

if TYPE_CHECKING:
    from quiz.progress import Progress

PROGRESS = "kv.progress"
"""Where the session keeps what is known of the learner."""
HERE = "kv.page"
"""Where the session keeps the name of the page that is open."""

TODO, BEGUN, DONE = "circle", "clock_loader_40", "check_circle"


@dataclass(frozen=True, slots=True)
class Place:
    """A page of the course.

    name: of its file below pages/, of its lesson, and its address. mastery: the lesson that it
    completes, by the name that progress has for it.
    """

    name: str
    title: str
    section: str
    mastery: str | None = None


COURSE = (
    Place("prefill_decode", "Prefill and decode", "Understand"),
    Place("kv_sizing", "KV sizing", "Understand"),
    Place("roofline", "Roofline", "Understand"),
    Place("block_pool", "Block pool", "Memory"),
    Place("batching", "Batching", "Memory"),
    Place("prefix_cache", "Prefix cache", "Memory"),
    Place("capacity_planner", "Capacity planner", "Decide"),
    Place("claims_ledger", "Claims ledger", "Decide"),
    Place("numbers", "Numbers to know", "Decide"),
    Place("exercises", "Exercises", "Decide"),
    Place("quiz", "Quiz", "Keep", mastery="four-questions"),
)
"""In the order of the sidebar. One more line here is one more page, everywhere."""


def mark(place: Place, known: Progress | None) -> str:
    """How far the learner is, as the name of an icon. Done is what the gate says, nothing less."""
    if known is None:
        return TODO
    if place.mastery is not None and place.mastery in known.completed:
        return DONE
    return BEGUN if place.name in known.begun else TODO


def marks(known: Progress | None) -> list[str]:
    return [mark(place, known) for place in COURSE]


def home() -> Any:
    return st.Page(PAGES / "home.py", title="Home", default=True, icon=":material/home:")


def page(name: str) -> Any:
    """A page of the course, with the learner's mark. Raises KeyError for a name without one."""
    place = {place.name: place for place in COURSE}[name]
    icon = mark(place, st.session_state.get(PROGRESS))
    return st.Page(
        PAGES / f"{name}.py", title=place.title, url_path=name, icon=f":material/{icon}:"
    )


def sections() -> dict[str, list[Any]]:
    """Sections of the course with their pages, in order."""
    out: dict[str, list[Any]] = {"Start": [home()]}
    for place in COURSE:
        out.setdefault(place.section, []).append(page(place.name))
    return out
