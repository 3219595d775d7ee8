"""The instrument on its page: the address, the controls, one's own config.json and the engine's
check are kept in step here."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui.components.kv_sizing import kv_sizing
from ui.kit.address import Address
from ui.kit.controls import Controls
from ui.lesson import Lesson
from ui.sizing import curves, engine_check, figures, place, ways, words
from ui.sizing.options import options
from ui.sizing.place import Place
from ui.sizing.shown import Json

KEY = "kv_sizing"
ADDRESS = Address("ks", place.NAMES)
CONTROLS = Controls(KEY, ADDRESS, place.DEFAULT, place.read, place.taken, figures.sized)
PLACE, now, go = CONTROLS.place, CONTROLS.now, CONTROLS.go
_CHECKED, _SAID = "ks.checked", "ks.said"


def draw(lesson: Lesson, *, present: bool) -> None:
    """The instrument, standing where the link says."""
    CONTROLS.start()
    _instrument(lesson, present=present)


@st.fragment
def _instrument(lesson: Lesson, *, present: bool) -> None:
    """A fragment: a control draws nothing else of the page again."""
    state = st.session_state
    shown = kv_sizing(data(lesson, present=present), key=KEY, on_choice=CONTROLS.take)
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
    return {
        **of(figures.sized(now())),
        "check": engine_check.check_part(state.get(_CHECKED), state.get(_SAID, "")),
        "words": words.of(lesson),
        "options": options(),
        "unlinked": lesson["unlinked"] if place.written(now()) is None else "",
        **CONTROLS.data(present=present),
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
