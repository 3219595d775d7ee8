"""Runs under each other in lockstep: the engine's places, step by step, as a Gantt chart.

Each place is a row and each stay of a sequence in it a bar; the queue, the tokens of every step and
the gaps between tokens lie below on the same axis. All runs go to the browser once, with what
`core.trace.serving_metrics` says of them; stepping, hovering and the targets happen there. Python
hears where the reader has come to rest, for the address.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from ui.components.run_player import PackedRun
from ui.components.run_player.bundle import bundle, stylesheet

_HERE = Path(__file__).resolve().parent
_TOKENS = _HERE.parents[1] / "theme" / "tokens.css"
_PLAYER = _HERE.parent / "run_player" / "css"

_mount = st.components.v2.component(
    "kv_gantt",
    html=(_HERE / "index.html").read_text(encoding="utf-8"),
    css=stylesheet(
        _TOKENS,
        _PLAYER / "base.css",
        _PLAYER / "bar.css",
        _HERE / "css" / "picture.css",
        _HERE / "css" / "panel.css",
    ),
    js=bundle(_HERE / "js"),
    isolate_styles=True,
)


@dataclass(frozen=True, slots=True)
class Lane:
    """A run in the picture. name: what tells it from the others; serving: its figures
    (`serving_metrics.serving`) as JSON text."""

    name: str
    packed: PackedRun
    serving: str


def gantt(lanes: list[Lane], *, key: str, title: str, place: dict[str, Any], present: bool) -> Any:
    """Mount it. place: where the link stands: step, request, axis ("steps" or "ms"), and the
    targets ttft and gap, each None for the default.

    Returns `.place` (the same with what the reader has changed, or None) and `.present` (true or
    false for one rerun after the button).
    """
    data = {
        "id": "+".join(lane.packed.id for lane in lanes),
        "title": title,
        "lanes": [
            {"name": lane.name, "run": lane.packed.plain, "serving": lane.serving} for lane in lanes
        ],
        "place": place,
        "present": present,
    }
    return _mount(key=key, data=data, on_place_change=_noop, on_present_change=_noop)


def _noop() -> None:
    """Streamlit gives a result attribute only to states that have a callback."""
