"""All cards of the review deck, those set aside, and the numbers that can be added."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from ui.components.run_player.bundle import bundle, stylesheet

_HERE = Path(__file__).resolve().parent
_TOKENS = _HERE.parents[1] / "theme" / "tokens.css"

_mount = st.components.v2.component(
    "kv_deck_list",
    html='<div class="deck"></div>',
    css=stylesheet(_TOKENS, _HERE / "style.css"),
    js=bundle(_HERE / "js"),
)


def deck_list(data: dict[str, Any], *, key: str, on_act: Callable[[], None]) -> None:
    """Mount it. data: what `ui.review.view.listing` makes. The callback finds what is wished for in
    the session state, under `key`: `act` {ids, act}."""
    _mount(key=key, data=data, on_act_change=on_act, height="content")
