"""What surrounds every page: the brand, what the theme cannot express, the engine's panel."""

from __future__ import annotations

from functools import cache

import streamlit as st

from ui import status
from ui.components.engine_panel import engine_panel
from ui.paths import ROOT

THEME = ROOT / "ui" / "theme"
ASSETS = ROOT / "ui" / "assets"


@cache
def _css(name: str) -> str:
    return (THEME / f"{name}.css").read_text(encoding="utf-8")


def draw(*, present: bool) -> None:
    """Brand, page styles and the sidebar's engine panel; in present mode no sidebar, large type."""
    sheet = _css("tokens") + _css("page") + (_css("present") if present else "")
    st.html(f"<style>{sheet}</style>")
    if present:
        return
    dark = st.context.theme.type == "dark"
    st.logo(str(ASSETS / f"logo-{'dark' if dark else 'light'}.svg"), size="medium")
    with st.sidebar:
        engine_panel({status.DEFAULT_MODEL: status.MODEL_NAME})
