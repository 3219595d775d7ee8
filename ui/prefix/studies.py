"""The four studies of the page, behind one control. Each draws what it needs and nothing else."""

from __future__ import annotations

import streamlit as st

from ui.kit import page
from ui.lesson import Lesson
from ui.prefix import evict, money, place, state, watch, yours

TITLES = {
    "watch": "Watch",
    "yours": "Your prompts",
    "evict": "Eviction",
    "time": "Time and money",
}
_DRAW = {"watch": watch.draw, "yours": yours.draw, "evict": evict.draw, "time": money.draw}


@st.fragment
def draw(words: Lesson, *, present: bool) -> None:
    """The chosen study. A fragment: another study, or another place in it, draws nothing else."""
    if page.is_present() != present:  # asked for by a button inside this fragment
        st.rerun(scope="app")
    if st.session_state[state.NOTICE]:
        st.warning(st.session_state[state.NOTICE], icon=":material/link_off:")
    if not present:
        control()
    _DRAW[state.get("study")](words, present=present)
    if present:
        control()  # under the picture: on a projector the picture comes first
    state.write()


def control() -> None:
    """Which study is shown."""
    st.segmented_control(
        "Study",
        place.STUDIES,
        format_func=TITLES.__getitem__,
        required=True,
        key=state.widget("study"),
        on_change=state.follow,
        args=("study",),
        label_visibility="collapsed",
    )
