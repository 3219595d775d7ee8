"""The course on one page: search over all its words, a map of its places, a list of its terms.

The words are fetched once from /api/words and searched by the browser.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from ui.components.run_player.bundle import bundle, stylesheet

_HERE = Path(__file__).resolve().parent
_TOKENS = _HERE.parents[1] / "theme" / "tokens.css"
_BASE = _HERE.parent / "run_player" / "css" / "base.css"

_mount = st.components.v2.component(
    "kv_course_map",
    html='<div class="kv-host"></div>',
    css=stylesheet(_TOKENS, _BASE, _HERE / "style.css"),
    js=bundle(_HERE / "js"),
    isolate_styles=True,
)


def course_map(data: dict[str, Any], *, key: str, on_place: Callable[[], None]) -> str | None:
    """Mount it. Returns the address of a page of the course that was asked for, else None.

    data: see `ui.course.desk.draw`. The callback finds in the session state, under `key`: `place`,
    what the reader looks at.
    """
    result = _mount(
        key=key, data=data, on_place_change=on_place, on_go_change=lambda: None, height="content"
    )
    go = result.get("go")
    return go if isinstance(go, str) else None
