"""Which way to look at the run: a control that is in the link."""

from __future__ import annotations

import streamlit as st

from ui import choice

MODES = {
    "play": "Play",
    "hand": "By hand",
    "size": "Block size",
    "paged": "Paged or contiguous",
}
_WIDGET = "bp.mode"


def select() -> str:
    """The control, and what it is set to: a key of MODES."""
    state = st.session_state
    state[_WIDGET] = state[choice.VIEW]  # it follows the choice, wherever that was made

    def change() -> None:
        state[choice.VIEW] = state[_WIDGET] or "play"
        choice.go(choice.step_now() if state[choice.VIEW] in ("play", "hand") else 0)

    st.segmented_control(
        "How to look at it",
        list(MODES),
        format_func=MODES.__getitem__,
        required=True,
        key=_WIDGET,
        on_change=change,
        label_visibility="collapsed",
    )
    mode: str = state[choice.VIEW]
    return mode
