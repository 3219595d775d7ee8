"""The instrument on its page: the address and what an experiment measured are kept in step here."""

from __future__ import annotations

import streamlit as st

from ui.components.live_run import live_run
from ui.kit import page
from ui.kit.address import Address
from ui.lesson import Lesson
from ui.prefill import data, place

PLACE, NOTICE, MEASURED = "pd.place", "pd.notice", "pd.measured"
_SEEN, _WISH = "pd.seen", "pd.wish"
ADDRESS = Address("pd", place.NAMES)


def run_experiment(name: str) -> None:
    """Have the browser run an experiment, as its button does. name: of `place.EXPERIMENTS`."""
    count = st.session_state.get(_WISH, {"n": 0})["n"]
    st.session_state[_WISH] = {"id": name, "n": count + 1}


def _start() -> None:
    """Take over what the address asks for, if someone has just arrived by it."""
    asked = ADDRESS.arrived()
    if asked is not None:
        st.session_state[PLACE], st.session_state[NOTICE] = place.read(asked)


def draw(words: Lesson, *, present: bool) -> None:
    """The instrument, standing where the link says."""
    _start()
    if st.session_state[NOTICE]:
        st.warning(st.session_state[NOTICE], icon=":material/link_off:")
    _instrument(words, present=present)


@st.fragment
def _instrument(words: Lesson, *, present: bool) -> None:
    """A fragment: where the reader rests goes into the address and redraws nothing else."""
    state = st.session_state
    given = data.bench_data(words, state[PLACE], present=present)
    shown = live_run({**given, "wish": state.get(_WISH)}, key="live_run")
    page.follow_present(shown.present, present)
    wanted = place.written(shown.get("place"))
    if wanted:
        ADDRESS.write(wanted)
    measured = shown.get("measured")
    # The component keeps its last report: only a new one counts.
    if measured is not None and measured != state.get(_SEEN):
        state[_SEEN] = state[MEASURED] = measured
        st.rerun(scope="app")
