"""A small line chart over steps, drawn by the browser: lines, stacked bands, marks, a table.

Lines differ in colour and in dash and carry their names; hover, focus and the arrow keys read the
values of a step; the menu saves them as CSV, or the picture as PNG.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from ui.components.run_player.bundle import bundle, stylesheet

_HERE = Path(__file__).resolve().parent
_TOKENS = _HERE.parents[1] / "theme" / "tokens.css"
_BASE = _HERE.parent / "run_player" / "css" / "base.css"
_LABEL = ("label", "source", "recorded_at", "revision")

_mount = st.components.v2.component(
    "kv_series",
    html=(_HERE / "index.html").read_text(encoding="utf-8"),
    css=stylesheet(_TOKENS, _BASE, _HERE / "css" / "series.css"),
    js=bundle(_HERE / "js"),
    isolate_styles=True,
)


def label_of(header: Mapping[str, Any]) -> dict[str, Any]:
    """What the chart needs of a run's header to say where the figures come from."""
    return {name: header[name] for name in _LABEL if name in header}


def series(data: dict[str, Any], *, key: str) -> None:
    """Mount it; keep `data` equal across reruns.

    data: `title`; `unit` of every value; `x`: {"label": "step", "last": int}, the values' places
    run from 0 to `last`; `lines`: [{"name", "values": [number or None], "style": "a" … "d"}];
    `bands` (optional): [{"name", "values"}], stacked areas under the lines; `marks` (optional):
    [{"x": int, "label"}]; `label`: a run's header, or `label_of` it; `small` (optional): for a
    chart that stands beside others; `present` (optional): the large type.
    """
    _mount(key=key, data={**data, "label": label_of(data["label"])}, height="content")
