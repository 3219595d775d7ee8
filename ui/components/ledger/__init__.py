"""The list of claims with a vote on each. What stands in it never depends on the visitor, so it
goes to the browser once; `answers`, a second component without a picture, brings what a vote has
opened, and is small.
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

_list = st.components.v2.component(
    "kv_ledger",
    html=(_HERE / "index.html").read_text(encoding="utf-8"),
    css=stylesheet(_TOKENS, _BASE, _HERE / "css" / "ledger.css", _HERE / "css" / "derivation.css"),
    js=bundle(_HERE / "js"),
    isolate_styles=True,
)
_answers = st.components.v2.component(
    "kv_ledger_answers",
    html="<i hidden></i>",
    js=(_HERE / "js" / "relay.js").read_text(encoding="utf-8"),
)


def list_claims(
    data: dict[str, Any],
    *,
    key: str,
    on_ask: Callable[[], None],
    on_all: Callable[[], None],
) -> Any:
    """Mount the list; keep `data` equal across reruns.

    data: what `ui.claims.ledger.rows` holds, `place` (where the link stands) and `present`. The
    callbacks find what was sent in the session state, under `key`: `ask` {id, vote or null}; `all`,
    whether every verdict is to be shown. The value's `place` is where the reader now stands.
    """
    return _list(
        key=key,
        data=data,
        on_ask_change=on_ask,
        on_all_change=on_all,
        on_place_change=lambda: None,
        height="content",
    )


def answers(data: dict[str, Any], *, key: str) -> None:
    """Hand what `ui.claims.votes.shown` gives to the list on the same page."""
    _answers(key=key, data=data, height="content")
