"""The instrument on its page: the address and the controls are kept in step here."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.sizing.errors import SizingError
from ui.components.roofline import roofline
from ui.kit.address import Address
from ui.roofline import figures, live, measured, place
from ui.roofline.options import options
from ui.roofline.place import Place
from ui.sizing.shown import Json

KEY, PLACE, NOTICE = "roofline", "rl.place", "rl.notice"
_SEQ, _REFUSED = "rl.seq", "rl.refused"
ADDRESS = Address("rl", place.NAMES)


def now() -> Place:
    """Where the controls stand."""
    found: Place = st.session_state.get(PLACE, place.DEFAULT)
    return found


def go(to: Place) -> None:
    """Put the controls there."""
    st.session_state[PLACE] = to
    st.session_state[_REFUSED] = ""


def _take() -> None:
    """What a control said. Where it cannot be computed the picture stays, and one line says why."""
    state = st.session_state
    sent = state[KEY].choice
    if not isinstance(sent, dict) or not isinstance(sent.get("seq"), int):
        return
    state[_SEQ] = sent["seq"]
    wanted = place.taken(now(), sent.get("place"))
    try:
        figures.modelled(wanted)
    except SizingError as exc:
        state[_REFUSED] = f"This cannot be: {exc}."
    else:
        go(wanted)
        state[NOTICE] = None


def draw(*, present: bool) -> None:
    """The instrument, standing where the link says."""
    state, asked = st.session_state, ADDRESS.arrived()
    if asked is not None:
        state[PLACE], state[NOTICE] = place.read(asked)
        state[_REFUSED] = ""
    if state[NOTICE]:
        st.warning(state[NOTICE], icon=":material/link_off:")
    _instrument(present=present)


@st.fragment
def _instrument(*, present: bool) -> None:
    """A fragment: a control draws nothing else of the page again."""
    shown = roofline(data(present=present), key=KEY, on_choice=_take)
    if live.asked(shown.get("live"), now().run):
        st.rerun(scope="fragment")
    ADDRESS.write(place.written(now()))


def data(*, present: bool) -> Json:
    """For `roofline`. The same place gives equal data, so that a rerun sends nothing."""
    state = st.session_state
    refused = state.get(_REFUSED, "")
    try:
        found = figures.modelled(now())
    except SizingError as exc:  # a link's model in a format that it cannot be kept in
        refused = f"This cannot be: {exc}. Shown instead: the page's first example."
        go(place.DEFAULT)
        found = figures.modelled(place.DEFAULT)
    here = now()
    controls: dict[str, Any] = {**vars(here), "roofs": list(here.roofs)}
    return {
        "place": controls,
        "modelled": found,
        "measured": live.part(here.run) or measured.part(here.run),
        "live": live.controls(here.run),
        "options": options(),
        "refused": refused,
        "seq": state.get(_SEQ, 0),
        "present": present,
    }
