"""The prefix cache's instrument: a hash chain and a radix tree of the same requests, in lockstep.

Both runs go to the browser once; stepping, pointing and folding happen there. Python hears of one
thing: the place at which the reader rests (step, what is picked, whose prompt), for the address.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import streamlit as st

from core.trace.prefix_metrics import Lookup
from ui.components.run_player.bundle import bundle, stylesheet

_HERE = Path(__file__).resolve().parent
_TOKENS = _HERE.parent.parent / "theme" / "tokens.css"
_PLAYER = _HERE.parent / "run_player" / "css"

_mount = st.components.v2.component(
    "prefix_view",
    html=(_HERE / "index.html").read_text(encoding="utf-8"),
    css=stylesheet(
        _TOKENS,
        *(_PLAYER / f"{name}.css" for name in ("base", "bar", "below", "modes")),
        _HERE / "css" / "prefix.css",
    ),
    js=bundle(_HERE / "js"),
    isolate_styles=True,
)


def looks_json(found: list[Lookup]) -> list[dict[str, Any]]:
    """The looks into a cache as the browser takes them."""
    return [asdict(one) for one in found]


def prefix_view(
    chain: str,
    radix: str,
    looks: tuple[list[dict[str, Any]], list[dict[str, Any]]],
    *,
    key: str,
    run_id: str,
    title: str,
    step: int = 0,
    pick: str | None = None,
    follow: str | None = None,
    link: str = "",
    present: bool = False,
) -> Any:
    """Shows two runs of the same requests. chain, radix: their texts (`run_player.pack`). looks: of
    `core.trace.prefix_metrics.lookups`, for each. run_id: names the pair; with another one the
    instrument begins anew at `step`. pick: "chain:3", "tree:3" or "node:2". link: the query of
    this page, to which step, pick and follow are added.

    Returns `.place` ({id, step, pick, follow} where the reader rests, or None) and `.present` (true
    or false for one rerun after the button).
    """
    data = {
        "chain": chain,
        "radix": radix,
        "looks": list(looks),
        "id": run_id,
        "title": title,
        "step": step,
        "pick": pick,
        "follow": follow,
        "link": link,
        "present": present,
    }
    return _mount(key=key, data=data, on_place_change=_noop, on_present_change=_noop)


def _noop() -> None:
    """Streamlit gives a result attribute only to states that have a callback."""
