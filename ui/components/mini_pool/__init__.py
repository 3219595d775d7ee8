"""A small pool that plays by itself: the landing page's picture of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

_HERE = Path(__file__).parent
_TOKENS = _HERE.parents[1] / "theme" / "tokens.css"

_mount = st.components.v2.component(
    "kv_mini_pool",
    html='<section class="stage" aria-label="A run, playing"></section>',
    css=_TOKENS.read_text(encoding="utf-8") + (_HERE / "style.css").read_text(encoding="utf-8"),
    js=(_HERE / "index.js").read_text(encoding="utf-8"),
)


def mini_pool(data: dict[str, Any], *, key: str = "mini-pool") -> None:
    """Mount it. data: what `ui.preview.preview_data` returns."""
    _mount(key=key, data=data, height="content")
