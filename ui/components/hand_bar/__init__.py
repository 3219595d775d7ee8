"""Add, fork, finish and cancel by hand: a row beside the run player.

It follows the player's step in the browser (the event `kv-step`), so what is clicked is meant for
the step that is seen. Python hears only of actions.
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
    "kv_hand_bar",
    html=(_HERE / "index.html").read_text(encoding="utf-8"),
    css=stylesheet(_TOKENS, _BASE, _HERE / "style.css"),
    js=bundle(_HERE / "js"),
    isolate_styles=True,
)


def hand_bar(data: dict[str, Any], *, key: str, on_act: Callable[[], None]) -> None:
    """Mount it.

    data: `id` of the run; `at`: the step where the player begins; `spans`: [{"seq", "request",
    "first", "last", "forks"}] (see `core.by_hand.spans`); `forks`: whether the engine can fork;
    `refused`: why nothing can be done, or None; `text`: whether a prompt can be typed; `undo`:
    actions that can be taken back; `said`: what the last action did; `turn`: counts answers;
    `chosen`: whom to choose; `present`.
    The callback finds the action in the session state, under `key`: `act` = {"kind", "step",
    "run", and "seq" or the request's fields}.
    """
    _mount(key=key, data=data, on_act_change=on_act, height="content")
