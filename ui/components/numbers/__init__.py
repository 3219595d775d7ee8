"""The sheet of numbers: groups, a value each, and behind each value its derivation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from ui.components.run_player.bundle import bundle, stylesheet

_HERE = Path(__file__).resolve().parent
_TOKENS = _HERE.parents[1] / "theme" / "tokens.css"
_BASE = _HERE.parent / "run_player" / "css" / "base.css"
_DERIVATION = _HERE.parent / "ledger" / "css" / "derivation.css"

_mount = st.components.v2.component(
    "kv_numbers",
    html='<div class="kv-host"><section class="kv sheet"><div class="sk"></div></section></div>',
    css=stylesheet(_TOKENS, _BASE, _DERIVATION, _HERE / "css" / "numbers.css"),
    js=bundle(_HERE / "js"),
    isolate_styles=True,
)


def numbers(data: dict[str, Any], *, key: str) -> Any:
    """Mount it; keep `data` equal across reruns.

    data: what `ui.numbers.sheet.data` makes, `place` (where the link stands) and `present`. The
    value's `place` is where the reader now stands.
    """
    return _mount(key=key, data=data, on_place_change=lambda: None, height="content")
