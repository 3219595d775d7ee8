"""What surrounds every page: the brand, what the theme cannot express, the engine line."""

from __future__ import annotations

from functools import cache

import streamlit as st

from ui import status
from ui.paths import ROOT

THEME = ROOT / "ui" / "theme"
ASSETS = ROOT / "ui" / "assets"


@cache
def _css(name: str) -> str:
    return (THEME / f"{name}.css").read_text(encoding="utf-8")


def draw(*, present: bool) -> None:
    """Brand, page styles and the sidebar's engine line; in present mode no sidebar, large type."""
    sheet = _css("tokens") + _css("page") + (_css("present") if present else "")
    st.html(f"<style>{sheet}</style>")
    if present:
        return
    dark = st.context.theme.type == "dark"
    st.logo(str(ASSETS / f"logo-{'dark' if dark else 'light'}.svg"), size="medium")
    with st.sidebar:
        _engine_line()


def _engine_line() -> None:
    state = status.engine_state()
    if state.can_run_model:
        word, kind = "Real model installed", "ok"
        detail = f"{status.MODEL_NAME}<br>torch {state.torch_version}"
    else:
        word, kind = "No model here", "off"
        detail = "Recorded and simulated runs play all the same."
    st.html(
        f'<div class="kv-engine"><span class="kv-dot {kind}"></span><b>{word}</b>'
        f"<div>{detail}</div><div>{state.cores} cores</div></div>"
    )
