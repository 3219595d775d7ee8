"""Beside a text that is read: its table of contents, and on a projector one part at a time.

It also follows links to other pages of the course without loading the app anew, and closes an open
definition on Escape.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from ui.components.run_player.bundle import bundle, stylesheet

_HERE = Path(__file__).resolve().parent
_TOKENS = _HERE.parents[1] / "theme" / "tokens.css"

_mount = st.components.v2.component(
    "kv_reader",
    html='<div class="reader"></div>',
    css=stylesheet(_TOKENS, _HERE / "style.css"),
    js=bundle(_HERE / "js"),
)


def reader(
    data: dict[str, Any], *, key: str, on_at: Callable[[], None], on_end: Callable[[], None]
) -> str | None:
    """Mount it. Returns the address of a page of the course that a link asks for, else None.

    data: `parts`: [{"name", "title"}], each in a container "kv-sec-NAME"; `at`: the part to open
    at, or None; `pages`: names that a link may lead to; `present`: one part at a time. The
    callbacks find in the session state under `key`: `at`, the part that was gone to; `end`, that
    the end was reached.
    """
    result = _mount(
        key=key,
        data=data,
        on_at_change=on_at,
        on_end_change=on_end,
        on_go_change=lambda: None,
        height="content",
    )
    go = result.get("go")
    return go if isinstance(go, str) else None
