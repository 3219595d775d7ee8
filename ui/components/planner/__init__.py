"""The planner's instrument: controls, the answer and its three bounds, the steps, what else there
is, the frontier, and the rules held against the plan.

Every figure comes from Python with its derivation; the browser draws them, opens them, and sends
what the controls say, one change at a time.
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

_mount = st.components.v2.component(
    "capacity_planner",
    html=(_HERE / "index.html").read_text(encoding="utf-8"),
    css=stylesheet(
        _TOKENS,
        _BASE,
        *(_SIZING / f"{name}.css" for name in ("controls", "figures", "charts")),
        _HERE / "css" / "planner.css",
    ),
    js=bundle(_HERE / "js"),
    isolate_styles=True,
)


def planner(
    data: dict[str, Any], *, key: str, on_choice: Callable[[], None], on_rest: Callable[[], None]
) -> None:
    """Mount it. data: `ui.planner.bench.data`; keep it equal across reruns.

    `on_choice` finds in the session state, under `key`, `choice`: {seq, place: {name: text}}, what
    the controls say. `on_rest`: the answer is drawn, and `others` and `frontier`, which were None,
    are asked for.
    """
    _mount(
        key=key,
        data=data,
        on_choice_change=on_choice,
        on_rest_change=on_rest,
    )
