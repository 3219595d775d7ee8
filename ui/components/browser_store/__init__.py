"""A document kept in the visitor's own browser, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

_HERE = Path(__file__).parent

_mount = st.components.v2.component(
    "kv_browser_store",
    html="<div hidden></div>",
    js=(_HERE / "index.js").read_text(encoding="utf-8"),
)


@dataclass(frozen=True, slots=True)
class Report:
    """What lies in the browser. text: None where there is nothing. ok: whether it can keep
    anything. id: unlike any other report's."""

    text: str | None
    ok: bool
    id: str


def reported(key: str) -> Report | None:
    """The last report of the component mounted under `key`; None before the first.

    What comes from a browser is anybody's: a report of the wrong shape is none.
    """
    found: Any = st.session_state.get(key, {}).get("stored")
    if not isinstance(found, dict) or not isinstance(found.get("id"), str):
        return None
    text = found.get("text")
    if text is not None and not isinstance(text, str):
        return None
    return Report(text, bool(found.get("ok")), found["id"])


def browser_store(name: str, text: str | None, seen: str | None, *, key: str) -> None:
    """Mount it. name: of the localStorage entry. text: what is to be kept, None to ask what is
    there. seen: id of the last report taken in; nothing is written over a later one."""
    data = {"key": name, "text": text, "seen": seen}
    _mount(key=key, data=data, on_stored_change=lambda: None, height=1)
