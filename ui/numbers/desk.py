"""The sheet on its page: where the reader stands and the address are kept in step here."""

from __future__ import annotations

import streamlit as st

from ui.components.numbers import numbers
from ui.kit.address import Address
from ui.numbers import place, sheet

PLACE, NOTICE = "numbers.place", "numbers.notice"
ADDRESS = Address("numbers", place.NAMES)


def start() -> None:
    """Take over what the address asks for, if someone has just arrived by it."""
    asked = ADDRESS.arrived()
    if asked is not None:
        st.session_state[PLACE], st.session_state[NOTICE] = place.read(asked)


@st.fragment
def draw(*, present: bool) -> None:
    """A fragment: an opened number goes into the address and redraws nothing else."""
    state = st.session_state
    shown = numbers({**sheet.data(), "place": state[PLACE], "present": present}, key="numbers")
    said = shown.get("place")
    ADDRESS.write(place.written(said if said is not None else state[PLACE]))
