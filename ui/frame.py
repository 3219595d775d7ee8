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


def draw(here: str, *, present: bool) -> None:
    """Brand, page styles and the sidebar's engine panel; in present mode no sidebar, large type and
    the keys of a presenter. here: the name of the page."""
    sheet = _css("tokens") + _css("page") + (_css("present") if present else "")
    st.html(f"<style>{sheet}</style>")
    if present:
        from ui import presenting  # nobody else waits for what it needs

        presenting.draw(here)
        return
    dark = st.context.theme.type == "dark"
    st.logo(str(ASSETS / f"logo-{'dark' if dark else 'light'}.svg"), size="medium")
    with st.sidebar:
        engine_panel({status.DEFAULT_MODEL: status.MODEL_NAME})
