"""The sheet on its page: where the reader stands and the address are kept in step here."""

from __future__ import annotations

import streamlit as st

from ui.components.numbers import numbers
from ui.numbers import place, sheet

PLACE, NOTICE = "numbers.place", "numbers.notice"
_WRITTEN = "numbers.written"


def start() -> None:
    """Take over what the address asks for, if someone has just arrived by it."""
    state = st.session_state
    asked = {name: st.query_params[name] for name in place.NAMES if name in st.query_params}
    if PLACE in state and (not asked or asked == state.get(_WRITTEN)):
        return
    state[PLACE], state[NOTICE] = place.read(asked)
    state[_WRITTEN] = asked


@st.fragment
def draw(*, present: bool) -> None:
    """A fragment: an opened number goes into the address and redraws nothing else."""
    state = st.session_state
    shown = numbers({**sheet.data(), "place": state[PLACE], "present": present}, key="numbers")
    said = shown.get("place")
    wanted = place.written(said if said is not None else state[PLACE])
    if wanted == state[_WRITTEN]:
        return
    state[_WRITTEN] = wanted
    for name in place.NAMES:
        if name in wanted:
            st.query_params[name] = wanted[name]
        elif name in st.query_params:
            del st.query_params[name]
