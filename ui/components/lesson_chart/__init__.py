"""A chart of a lesson: computed lines over a linear or logarithmic axis, with rules to compare.

Names stand at the ends of the lines; hover, focus and the arrow keys read the values of a place;
the menu saves them as CSV, or the picture as PNG.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from ui.components.run_player.bundle import bundle, stylesheet

_HERE = Path(__file__).resolve().parent
_TOKENS = _HERE.parents[1] / "theme" / "tokens.css"
_BASE = _HERE.parent / "run_player" / "css" / "base.css"
_SERIES = _HERE.parent / "series" / "css" / "series.css"

_mount = st.components.v2.component(
    "kv_lesson_chart",
    html=(_HERE / "index.html").read_text(encoding="utf-8"),
    css=stylesheet(_TOKENS, _BASE, _SERIES, _HERE / "css" / "chart.css"),
    js=bundle(_HERE / "js"),
    isolate_styles=True,
)


def lesson_chart(data: dict[str, Any], *, key: str) -> None:
    """Mount it. data: what `ui.reading.charts.data` returns, and `present`."""
    _mount(key=key, data=data, height="content")
