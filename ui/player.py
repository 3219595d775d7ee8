"""The player on a page. What the reader does there and the address are kept in step here."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import streamlit as st

from ui import choice, runs
from ui.components.run_player import run_player
from ui.kit import page


@st.fragment
def draw(
    played: runs.Played,
    *,
    present: bool,
    compare: runs.Played | None = None,
) -> None:
    """Play a run, or two in step, from the step that the link names.

    A fragment: a step at which the reader stops goes into the address and redraws nothing else.
    """
    state = st.session_state
    other: dict[str, Any] = {} if compare is None else {"compare": compare.packed}
    shown = run_player(
        played.packed,
        key="player",
        step=state[choice.STEP],
        block=state[choice.BLOCK],
        present=present,
        link=urlencode(choice.link()),
        title=played.header["scenario"].get("name") or None,
        **other,
    )
    page.follow_present(shown.present, present)
    for name in ("step", "block"):
        # The component keeps its last commit when the run changes: only a new one counts.
        value, seen = shown.get(name), f"bp.{name}.seen"
        if value is not None and value != state.get(seen):
            state[seen] = value
            st.query_params[name] = str(int(value))


@st.fragment
def show(
    played: runs.Played, *, key: str, step: int, block: int | None, link: str, present: bool
) -> None:
    """Play a run on a page that is not its own. link: `page?query`, where it is at home."""
    shown = run_player(
        played.packed,
        key=key,
        step=step,
        block=block,
        present=present,
        link=link,
        title=played.header["scenario"].get("name") or None,
    )
    page.follow_present(shown.present, present)
