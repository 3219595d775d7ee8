"""The prefill and decode instrument: a prompt runs on the engine, and each step is shown at once.

Steps reach the browser over the app's own routes and never through a rerun; recorded runs are
fetched there too. Python hears of two things: the place where the reader has come to rest, for the
address, and what an experiment measured, for the prediction.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from ui.components.run_player.bundle import bundle, stylesheet

_HERE = Path(__file__).resolve().parent
_TOKENS = _HERE.parent.parent / "theme" / "tokens.css"
_BASE = _HERE.parent / "run_player" / "css" / "base.css"

_mount = st.components.v2.component(
    "live_run",
    html=(_HERE / "index.html").read_text(encoding="utf-8"),
    css=stylesheet(_TOKENS, _BASE, _HERE / "css" / "bench.css"),
    js=bundle(_HERE / "js"),
    isolate_styles=True,
)


def live_run(data: dict[str, Any], *, key: str) -> Any:
    """Mount it. data: `ui.prefill.data.bench_data`; keep it equal across reruns.

    Returns `.place` (what the link should say, or None), `.measured` (of the last experiment:
    {n, id, label, rows, at}) and `.present` (true or false for one rerun after the button).
    """
    return _mount(
        key=key,
        data=data,
        on_place_change=_noop,
        on_measured_change=_noop,
        on_present_change=_noop,
    )


def _noop() -> None:
    """Streamlit gives a result attribute only to states that have a callback."""
