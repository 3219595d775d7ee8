"""Select text on a page, and a button by the selection puts it into the notebook."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from ui.components.run_player.bundle import bundle, stylesheet

_HERE = Path(__file__).resolve().parent
_TOKENS = _HERE.parents[1] / "theme" / "tokens.css"

_mount = st.components.v2.component(
    "kv_quote",
    html=(
        '<div class="quote" popover="manual"><button type="button"></button>'
        '<a href="notebook" hidden>Open the notebook</a></div><p role="status"></p>'
    ),
    css=stylesheet(_TOKENS, _HERE / "style.css"),
    js=bundle(_HERE, "main.js"),
)


def quote(most: int, *, full: bool, key: str, on_quote: Callable[[], None]) -> None:
    """Mount it. most: characters of a quote. full: no note can be added. The callback finds what
    was chosen in the session state, under `key`: `quote` {text, section, anchor, query}."""
    _mount(key=key, data={"most": most, "full": full}, on_quote_change=on_quote, height=1)


def chosen(key: str) -> dict[str, Any] | None:
    """What was chosen last; None where a browser sent something else."""
    sent = getattr(st.session_state.get(key), "quote", None)
    return sent if isinstance(sent, dict) and isinstance(sent.get("text"), str) else None
