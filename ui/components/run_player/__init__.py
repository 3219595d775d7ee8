"""The run player: shows a run step by step in the browser, wherever the run came from.

The whole run goes to the browser once; playing, scrubbing and linking happen there and cost the
server nothing. Python hears only of commits: the step at which the reader stopped, the block they
chose, and the wish to present.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import streamlit as st

from ui.components.run_player.bundle import bundle, stylesheet
from ui.components.run_player.packing import PackedRun, pack

__all__ = ["PackedRun", "pack", "run_player"]

_HERE = Path(__file__).resolve().parent
_TOKENS = _HERE.parent.parent / "theme" / "tokens.css"
_STYLES = ("base", "lanes", "pool", "side", "bar", "below", "modes")

_mount = st.components.v2.component(
    "run_player",
    html=(_HERE / "index.html").read_text(encoding="utf-8"),
    css=stylesheet(_TOKENS, *(_HERE / "css" / f"{name}.css" for name in _STYLES)),
    js=bundle(_HERE / "js"),
    isolate_styles=True,
)


def run_player(
    run: dict[str, Any] | PackedRun,
    *,
    key: str,
    height: int | None = None,
    step: int | None = None,
    block: int | None = None,
    compare: dict[str, Any] | PackedRun | None = None,
    present: bool = False,
    link: str | None = None,
    title: str | None = None,
    focus: Literal["pool", "tree"] = "pool",
) -> Any:
    """Shows `run` and returns what the reader has committed: `.step`, `.block`, `.present`.

    `step` and `block` say where to begin; `compare` is a second run, shown on a timeline of its own
    and switched to with one button; `link` is the query string behind "Copy link", to which the
    step is added, or `page?query` where the run is at home on another page; `focus` says which
    picture comes first; `height` is the least height of the pictures in pixels. `.present` is true
    or false for the one rerun after the button was pressed.
    """
    packed = run if isinstance(run, PackedRun) else pack(run)
    data: dict[str, Any] = {"run": packed.text, "id": packed.id, "present": present, "focus": focus}
    if compare is not None:
        other = compare if isinstance(compare, PackedRun) else pack(compare)
        data["compare"] = other.text
        data["id"] = f"{packed.id}+{other.id}"
    for name, value in (
        ("step", step),
        ("block", block),
        ("height", height),
        ("link", link),
        ("title", title),
    ):
        if value is not None:
            data[name] = value
    return _mount(
        key=key,
        data=data,
        on_step_change=_noop,
        on_block_change=_noop,
        on_present_change=_noop,
    )


def _noop() -> None:
    """Streamlit gives a result attribute only to states that have a callback."""
