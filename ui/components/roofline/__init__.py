"""The roofline instrument: up to four roofs, a model's work as points on the first of them, and the
steps of a run beside them, which can be brushed: of a recorded one, or of one measured now.

Modelled figures come from Python with their derivations, measured ones as counts, times and shares
of the run's steps; the browser draws, lets steps be pointed at and sums those that are selected.
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
_SIZING = _HERE.parent / "kv_sizing" / "css"
_SHARED = ("controls", "figures", "charts")

_mount = st.components.v2.component(
    "roofline",
    html=(_HERE / "index.html").read_text(encoding="utf-8"),
    css=stylesheet(
        _TOKENS,
        _BASE,
        *(_SIZING / f"{name}.css" for name in _SHARED),
        *(_HERE / "css" / f"{name}.css" for name in ("plane", "steps")),
    ),
    js=bundle(_HERE / "js"),
    isolate_styles=True,
)


def roofline(data: dict[str, Any], *, key: str, on_choice: Callable[[], None]) -> Any:
    """Mount it. data: `ui.roofline.bench.data`; keep it equal across reruns.

    `on_choice` finds in the session state, under `key`, `choice`: {seq, place: {name: text}}, what
    the controls say. What it returns has `live`, {do: "run" | "live" | "recorded"}: have the engine
    run the chosen scenario now, or show what was measured so, or what was recorded.
    """
    return _mount(key=key, data=data, on_choice_change=on_choice, on_live_change=_noop)


def _noop() -> None:
    """A trigger needs one, or the component returns none."""
