"""The KV sizing instrument: controls, the formula with its values, memory, growth, four kinds of
attention, two allocators, and the check against the engine.

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
_STYLES = ("controls", "figures", "charts", "below")

_mount = st.components.v2.component(
    "kv_sizing",
    html=(_HERE / "index.html").read_text(encoding="utf-8"),
    css=stylesheet(_TOKENS, _BASE, *(_HERE / "css" / f"{name}.css" for name in _STYLES)),
    js=bundle(_HERE / "js"),
    isolate_styles=True,
)


def kv_sizing(data: dict[str, Any], *, key: str, on_choice: Callable[[], None]) -> Any:
    """Mount it. data: `ui.sizing.bench.data`; keep it equal across reruns.

    `on_choice` finds in the session state, under `key`, `choice`: {seq, place: {name: text}}, what
    the controls say. Returns `.allocate`: {blocks, size}, for one rerun.
    """
    return _mount(
        key=key,
        data=data,
        on_choice_change=on_choice,
        on_allocate_change=_noop,
    )


def _noop() -> None:
    """Streamlit gives a result attribute only to states that have a callback."""
