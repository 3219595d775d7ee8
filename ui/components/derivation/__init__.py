"""How a number was computed: every call into the library, with its values put in."""

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
    "kv_derivation",
    html='<div class="kv-host"><div class="kv"></div></div>',
    css=stylesheet(_TOKENS, _BASE, _DERIVATION),
    js=bundle(_HERE / "js"),
    isolate_styles=True,
)


def show(derived: dict[str, Any] | None, *, present: bool, key: str) -> None:
    """Mount it. derived: what `ui.derivation.of_value` makes."""
    _mount(key=key, data={"derived": derived, "present": present}, height="content")
