"""The engine in a few lines: state, device, model, load, queue. It asks the server by itself, so
that it stays true without a rerun of the page."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from ui.components.run_player.bundle import bundle

_HERE = Path(__file__).parent
_TOKENS = _HERE.parents[1] / "theme" / "tokens.css"

_mount = st.components.v2.component(
    "kv_engine_panel",
    html='<section class="engine" aria-label="The engine"></section>',
    css=_TOKENS.read_text(encoding="utf-8") + (_HERE / "style.css").read_text(encoding="utf-8"),
    js=bundle(_HERE, "index.js"),
)


def engine_panel(model_names: dict[str, str], *, key: str = "engine-panel") -> None:
    """Mount it. model_names: by id, names as people write them."""
    _mount(key=key, data={"names": model_names}, height="content")
