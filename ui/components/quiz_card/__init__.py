"""A question with its options, feedback and proof, or the result of an attempt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from ui.components.run_player.bundle import bundle, stylesheet

_HERE = Path(__file__).resolve().parent
_TOKENS = _HERE.parents[1] / "theme" / "tokens.css"

_mount = st.components.v2.component(
    "kv_quiz_card",
    html='<div class="quiz"></div>',
    css=stylesheet(_TOKENS, _HERE / "style.css"),
    js=bundle(_HERE / "js"),
)


def quiz_card(
    data: dict[str, Any],
    *,
    key: str,
    on_answer: Callable[[], None],
    on_next: Callable[[], None],
    on_again: Callable[[], None],
    on_play: Callable[[], None],
) -> None:
    """Mount it. data: what `ui.quiz_view` makes. The callbacks find what was sent in the session
    state, under `key`: `answer` {place, option}; `next`, `again` and `play`, each the place."""
    _mount(
        key=key,
        data=data,
        on_answer_change=on_answer,
        on_next_change=on_next,
        on_again_change=on_again,
        on_play_change=on_play,
    )
