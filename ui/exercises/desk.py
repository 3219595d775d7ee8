"""The exercise one stands at: chosen, drawn, and kept in step with the address."""

from __future__ import annotations

import html
import secrets

import streamlit as st

from quiz.exercises import exercise
from quiz.exercises.exercise import LEVELS, MAX_DRAW, Exercise
from ui import nav
from ui.exercises import answers, number_part, place, words_part
from ui.exercises.place import Place
from ui.kit import store, text
from ui.kit.address import Address

PLACE, NOTICE = "exercises.place", "exercises.notice"
ADDRESS = Address("exercises", place.NAMES)
_WHICH = "exercises.which"


def start() -> None:
    """Take over what the address asks for, if someone has just arrived by it."""
    asked = ADDRESS.arrived()
    if asked is not None:
        st.session_state[PLACE], st.session_state[NOTICE] = place.read(asked)
        st.session_state.pop(_WHICH, None)


def here() -> Place:
    found: Place = st.session_state[PLACE]
    return found


@st.fragment
def draw(*, present: bool) -> None:
    """A fragment: an answer redraws the exercise and nothing else of the page."""
    store.follow()
    _choose()
    at = here()
    made = at.exercise
    ADDRESS.write(place.written(at))
    with st.container(key="kv-ex"):
        left, right = st.columns([2, 3], gap="large")
        with left, st.container(key="kv-ex-given"):
            _given(at, made, present=present)
        with right, st.container(key="kv-ex-parts"):
            for part in made.parts:
                if part.target is not None:
                    number_part.draw(at, part, present=present)
                else:
                    words_part.draw(at, made, part)
    store.keep(redraw=False)


def _choose() -> None:
    def chosen() -> None:
        st.session_state[PLACE] = Place(st.session_state[_WHICH])
        st.session_state[NOTICE] = None

    if _WHICH not in st.session_state:
        st.session_state[_WHICH] = here().id
    st.segmented_control(
        "Exercise",
        list(exercise.files()),
        format_func=lambda id: exercise.files()[id]["short"],
        key=_WHICH,
        required=True,
        on_change=chosen,
        label_visibility="collapsed",
    )


def _given(at: Place, made: Exercise, *, present: bool) -> None:
    """What is given: level, title, statement, what was changed of it, and other numbers."""
    right, asked = answers.solved(at)
    same = [one for one in exercise.files().values() if one["level"] == made.level]
    st.html(
        f'<div class="kv-ex-head"><p>{html.escape(LEVELS[made.level])}, {made.number} of '
        f"{len(same)}</p><h2>{html.escape(made.title)}</h2>"
        f'<p role="status">{right} of {asked} numbers right</p></div>'
    )
    text.draw(made.statement)
    if made.varies:
        with st.container(horizontal=True):
            st.button(
                "Other numbers",
                icon=":material/casino:",
                on_click=_another,
                key="exercises.another",
            )
            if at.draw:
                st.button("The first numbers", type="tertiary", on_click=_first,
                          key="exercises.first")  # fmt: skip
    if made.changed:
        with st.container(key="kv-ex-changed"):
            text.draw(f"**Put otherwise here.** {made.changed}")
    known = [one for one in nav.COURSE if one.name in made.pages]
    if known and not present:
        with st.container(horizontal=True, key="kv-ex-pages", gap="small"):
            st.html('<p class="kv-small">It is taught in</p>', width="content")
            for one in known:
                st.page_link(nav.page(one.name), label=one.title, icon=None)


def _another() -> None:
    at = here()
    drawn = at.draw
    while drawn == at.draw:
        drawn = 1 + secrets.randbelow(MAX_DRAW)
    st.session_state[PLACE] = Place(at.id, drawn)


def _first() -> None:
    st.session_state[PLACE] = Place(here().id)
