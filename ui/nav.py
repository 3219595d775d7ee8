"""The pages that exist. Imports nothing slow: navigation is declared before everything else.

The course is data: lessons/course.json lists its places in order. A place is shown as soon as its
page, or for a place to read its lesson, is there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from ui.paths import LESSONS, PAGES

if TYPE_CHECKING:
    from quiz.progress import Progress

PROGRESS = "kv.progress"
"""Where the session keeps what is known of the learner."""
HERE = "kv.page"
"""Where the session keeps the name of the page that is open."""
READING = PAGES / "reading.py"
"""The page of every place that is read and has no instrument: its lesson is all it has."""

TODO, BEGUN, DONE, MAP = "circle", "clock_loader_40", "check_circle", "map"
START = "Start"
"""The section of what leads into the course, and is none of its places."""


@dataclass(frozen=True, slots=True)
class Place:
    """A page of the course.

    name: of its lesson, its address and, where it has an instrument, of its file below pages/.
    mastery: the lesson that it completes, by the name that progress has for it. reads: its lesson
    is a text in parts; without a script of its own that is all its page has. needs: the places to
    know before, by name. minutes: about how long it takes, where that does not follow from its
    words; 0 where it does.
    """

    name: str
    title: str
    section: str
    mastery: str | None = None
    reads: bool = False
    needs: tuple[str, ...] = ()
    minutes: int = 0

    @property
    def file(self) -> Any:
        """The script that draws it."""
        own = PAGES / f"{self.name}.py"
        return READING if self.reads and not own.is_file() else own

    @property
    def exists(self) -> bool:
        return self.file.is_file() and (not self.reads or _lesson(self.name).is_file())


def _lesson(name: str) -> Any:
    return LESSONS / f"{name}.md"


def _title(name: str) -> str:
    """The title of a lesson: its first line."""
    if not _lesson(name).is_file():
        return name
    with _lesson(name).open(encoding="utf-8") as lines:
        return next(lines).removeprefix("# ").strip()


def planned() -> tuple[Place, ...]:
    """Every place of the course, whether it is there or not."""
    loaded = json.loads((LESSONS / "course.json").read_text(encoding="utf-8"))
    return tuple(
        Place(
            one["name"],
            one.get("title") or _title(one["name"]),
            section["title"],
            one.get("mastery"),
            one.get("reads", False),
            tuple(one.get("needs", ())),
            one.get("minutes", 0),
        )
        for section in loaded["sections"]
        for one in section["places"]
    )


COURSE = tuple(place for place in planned() if place.exists)
"""In the order of the sidebar."""
PLACES = {place.name: place for place in COURSE}
STATIONS = tuple(place for place in COURSE if place.section != START)
"""Those that one goes through, in order."""


def mark(place: Place, known: Progress | None) -> str:
    """How far the learner is, as the name of an icon. Done is what the gate says, nothing less."""
    if place.section == START:
        return MAP
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
    place = PLACES[name]
    icon = mark(place, st.session_state.get(PROGRESS))
    return st.Page(place.file, title=place.title, url_path=name, icon=f":material/{icon}:")


def sections() -> dict[str, list[Any]]:
    """Sections of the course with their pages, in order."""
    out: dict[str, list[Any]] = {START: [home()]}
    for place in COURSE:
        out.setdefault(place.section, []).append(page(place.name))
    return out
