"""A card of the review deck: a question with fresh numbers, or a number to recall, and then how
well it was known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from ui.components.run_player.bundle import bundle, stylesheet

_HERE = Path(__file__).resolve().parent
_TOKENS = _HERE.parents[1] / "theme" / "tokens.css"
_QUIZ = _HERE.parent / "quiz_card" / "style.css"

_mount = st.components.v2.component(
    "kv_review_card",
    html='<div class="quiz review" tabindex="-1"></div>',
    css=stylesheet(_TOKENS, _QUIZ, _HERE / "style.css"),
    js=bundle(_HERE / "js"),
)


def review_card(
    data: dict[str, Any],
    *,
    key: str,
    on_answer: Callable[[], None],
    on_rate: Callable[[], None],
    on_play: Callable[[], None],
) -> None:
    """Mount it. data: what `ui.review.view.card` makes. The callbacks find what was sent in the
    session state, under `key`: `answer` {id, option}; `rate` {id, rating}; `play`, the id."""
    _mount(
        key=key,
        data=data,
        on_answer_change=on_answer,
        on_rate_change=on_rate,
        on_play_change=on_play,
    )
