"""The course's instrument on its page: what the reader does there, and the address."""

from __future__ import annotations

import streamlit as st

from ui import nav
from ui.components.course_map import course_map
from ui.course import data, place
from ui.kit import store
from ui.kit.address import Address
from ui.lesson import Lesson
from ui.reading import way

ADDRESS = Address("course", place.NAMES)
PLACE, NOTICE = "course.place", "course.notice"
_KEY = "course.map"


def start() -> None:
    """Take in what the address asks for."""
    asked = ADDRESS.arrived()
    if asked is None and PLACE in st.session_state:
        return
    st.session_state[PLACE], st.session_state[NOTICE] = place.read(asked or {})
    ADDRESS.write(place.written(st.session_state[PLACE]))


@st.fragment
def draw(words: Lesson, *, present: bool) -> None:
    """Search, map and terms. A fragment: what is typed goes into the address and no further."""

    def moved() -> None:
        st.session_state[PLACE] = place.written(st.session_state[_KEY].place)
        ADDRESS.write(st.session_state[PLACE])

    known = store.progress()
    ahead = data.next_place(known)
    shown = {
        "place": st.session_state[PLACE],
        "sections": data.sections(known),
        "terms": data.terms(),
        "next": ahead.name if ahead else None,
        "pages": list(nav.PLACES),
        "words": {key: words[key] for key in ("hint", "nothing", "unreachable")},
        "present": present,
    }
    way.follow(course_map(shown, key=_KEY, on_place=moved))
