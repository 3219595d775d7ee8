"""The instrument of quantised caches, and the table of what each format cost on a shipped text.

Bytes come from Python with their derivations, errors and texts from runs; the browser draws them
and lets every layer and head be pointed at.
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
_CSS = stylesheet(
    _TOKENS,
    _BASE,
    *(_SIZING / f"{name}.css" for name in ("controls", "figures", "charts", "below")),
    *(_HERE / "css" / f"{name}.css" for name in ("bench", "measured")),
)

_mount = st.components.v2.component(
    "kv_quantisation",
    html=(_HERE / "index.html").read_text(encoding="utf-8"),
    css=_CSS,
    js=bundle(_HERE / "js"),
    isolate_styles=True,
)
_quality = st.components.v2.component(
    "kv_quality",
    html=(_HERE / "quality.html").read_text(encoding="utf-8"),
    css=_CSS,
    js=bundle(_HERE / "js", "quality.js"),
    isolate_styles=True,
)


def kv_quantisation(data: dict[str, Any], *, key: str, on_choice: Callable[[], None]) -> Any:
    """Mount it. data: `ui.quantise.bench.data`; keep it equal across reruns.

    `on_choice` finds in the session state, under `key`, `choice`: {seq, place: {name: text}}, what
    the controls say. What it returns has `run`, {prompt}: have the engine answer it now, with the
    model's own cache and with the chosen one.
    """
    return _mount(key=key, data=data, on_choice_change=on_choice, on_run_change=_noop)


def kv_quality(data: dict[str, Any], *, key: str) -> Any:
    """Mount the table. data: `ui.quantise.quality.data`. What it returns has `show`, the number of
    a row: set the instrument to its format."""
    return _quality(key=key, data=data, on_show_change=_noop)


def _noop() -> None:
    """A trigger needs one, or the component returns none."""
