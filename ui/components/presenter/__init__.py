"""The keys of somebody who presents: a clicker's, a black screen, a recorded run, the start."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from ui.components.run_player.bundle import bundle, stylesheet

_HERE = Path(__file__).resolve().parent
_TOKENS = _HERE.parents[1] / "theme" / "tokens.css"

_mount = st.components.v2.component(
    "kv_presenter",
    html=(
        '<div class="presenter"><button type="button" class="open" aria-label="Keys for presenting"'
        '>?</button><span role="status"></span><dialog class="black" aria-label="Black screen">'
        '</dialog><dialog class="legend" aria-label="Keys for presenting"><header><h2>Presenting'
        '</h2><button type="button">Close</button></header><dl></dl><p>An instrument has keys of '
        "its own: the ? in its bar lists them.</p></dialog></div>"
    ),
    css=stylesheet(_TOKENS, _HERE / "style.css"),
    js=bundle(_HERE / "js"),
)


def presenter(*, key: str) -> str | None:
    """Mount it. Returns "go" when a recorded run is asked for that is not on the page, "leave" when
    the view is to be left, else None."""
    shown = _mount(
        key=key,
        on_go_change=lambda: None,
        on_leave_change=lambda: None,
    )
    for wish in ("leave", "go"):
        if shown.get(wish):
            return wish
    return None
