"""The instrument on its page: the address, the controls, one's own config.json and the engine's
check are kept in step here."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.sizing.errors import SizingError
from ui.components.kv_sizing import kv_sizing
from ui.kit import page
from ui.kit.address import Address
from ui.lesson import Lesson
from ui.sizing import curves, engine_check, figures, place, ways, words
from ui.sizing.options import options
from ui.sizing.place import Place
from ui.sizing.shown import Json

KEY, PLACE, NOTICE = "kv_sizing", "ks.place", "ks.notice"
_SEQ, _REFUSED = "ks.seq", "ks.refused"
ADDRESS = Address("ks", place.NAMES)
_CHECKED, _SAID = "ks.checked", "ks.said"


def now() -> Place:
    """Where the controls stand."""
    found: Place = st.session_state.get(PLACE, place.DEFAULT)
    return found


def go(to: Place) -> None:
    """Put the controls there."""
    st.session_state[PLACE] = to
    st.session_state[_REFUSED] = ""


def _start() -> None:
    """Take over what the address asks for, if someone has just arrived by it."""
    state, asked = st.session_state, ADDRESS.arrived()
    if asked is not None:
        state[PLACE], state[NOTICE] = place.read(asked)
        state[_REFUSED] = ""


def _take() -> None:
    """What a control said. Where it cannot be computed the picture stays, and one line says why."""
    state = st.session_state
    sent = state[KEY].choice
    if not isinstance(sent, dict) or not isinstance(sent.get("seq"), int):
        return
    state[_SEQ] = sent["seq"]
    wanted = place.taken(now(), sent.get("place"))
    try:
        figures.sized(wanted)
    except SizingError as exc:
        state[_REFUSED] = f"This cannot be: {exc}."
    else:
        go(wanted)
        state[NOTICE] = None


def draw(lesson: Lesson, *, present: bool) -> None:
    """The instrument, standing where the link says."""
    _start()
    if st.session_state[NOTICE]:
        st.warning(st.session_state[NOTICE], icon=":material/link_off:")
    _instrument(lesson, present=present)


@st.fragment
def _instrument(lesson: Lesson, *, present: bool) -> None:
    """A fragment: a control draws nothing else of the page again."""
    state = st.session_state
    shown = kv_sizing(data(lesson, present=present), key=KEY, on_choice=_take)
    page.follow_present(shown.present, present)
    asked = shown.get("allocate")
    if isinstance(asked, dict):
        found, state[_SAID] = engine_check.allocate(asked.get("blocks"), asked.get("size"))
        state[_CHECKED] = found or state.get(_CHECKED)
        st.rerun(scope="fragment")
    _write()


def _write() -> None:
    """The place into the address, where it has changed."""
    wanted = place.written(now())
    if wanted is None:  # too long a config for a link: what else there is
        wanted = place.written(Place(**{**vars(now()), "own": ""})) or {}
    ADDRESS.write(wanted)


def data(lesson: Lesson, *, present: bool) -> Json:
    """For `kv_sizing`. The same place gives equal data, so that a rerun sends nothing."""
    state = st.session_state
    refused = state.get(_REFUSED, "")
    try:
        done = figures.sized(now())
    except SizingError as exc:  # a link's model on a link's GPUs
        refused = f"This cannot be: {exc}. Shown instead: the page's first example."
        go(place.DEFAULT)
        done = figures.sized(place.DEFAULT)
    return {
        **of(done),
        "check": engine_check.check_part(state.get(_CHECKED), state.get(_SAID, "")),
        "words": words.of(lesson),
        "options": options(),
        "refused": refused,
        "unlinked": lesson["unlinked"] if place.written(now()) is None else "",
        "seq": state.get(_SEQ, 0),
        "present": present,
    }


def of(done: figures.Sized) -> Json:
    """All figures of a place."""
    here = done.place
    controls: dict[str, Any] = {**vars(here), "own": bool(here.own), "vs": list(here.vs)}
    return {
        "place": controls,
        "model": figures.model_part(done),
        "token": figures.token_part(done),
        "memory": figures.memory_part(done),
        "memory_why": done.why,
        "growth": curves.growth_part(done),
        "balance": curves.balance_part(done),
        "ways": ways.ways_part(done),
        "paging": figures.paging_part(done),
    }
