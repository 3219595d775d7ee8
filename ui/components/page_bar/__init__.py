"""Copy link and Present, for pages whose picture has no bar of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from ui.components.run_player.bundle import stylesheet

_HERE = Path(__file__).resolve().parent
_TOKENS = _HERE.parents[1] / "theme" / "tokens.css"

_mount = st.components.v2.component(
    "kv_page_bar",
    html=(
        '<div class="bar"><button type="button">Copy link</button>'
        '<button type="button">Present</button>'
        '<input readonly hidden aria-label="Link to this page"><span role="status"></span></div>'
    ),
    css=stylesheet(_TOKENS, _HERE / "style.css"),
    js=(_HERE / "index.js").read_text(encoding="utf-8"),
)


def page_bar(*, present: bool, link: str | None, key: str, on_present: Callable[[], None]) -> None:
    """Mount it. link: the query that "Copy link" copies, None for the one in the address. The
    callback finds what is wished for in the session state, under `key`: `present`."""
    _mount(
        key=key,
        data={"present": present, "link": link},
        on_present_change=on_present,
        width="content",
    )
