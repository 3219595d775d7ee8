"""A document kept in the visitor's own browser, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from ui.components.run_player.bundle import bundle

_HERE = Path(__file__).parent

_mount = st.components.v2.component(
    "kv_browser_store", html="<div hidden></div>", js=bundle(_HERE, "index.js")
)


@dataclass(frozen=True, slots=True)
class Copy:
    """What could not be read, put aside under its own key, which ends in the time of that."""

    key: str
    text: str

    @property
    def at(self) -> str:
        return self.key.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Move:
    """Put the text that lies in the browser aside, under the key `to`, if it is still this one."""

    to: str
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """What lies in the browser. text: None where there is nothing. ok: whether it can keep
    anything. copies: what was put aside. id: unlike any other report's."""

    text: str | None
    ok: bool
    id: str
    copies: tuple[Copy, ...] = ()


def aside(name: str, at: str) -> str:
    """The key under which a document that cannot be read is put aside."""
    return f"{name}.damaged.{at}"


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
    listed = found.get("copies")
    copies = tuple(
        Copy(one["key"], one["text"])
        for one in (listed if isinstance(listed, list) else [])
        if isinstance(one, dict) and isinstance(one.get("key"), str)
        if isinstance(one.get("text"), str)
    )
    return Report(text, bool(found.get("ok")), found["id"], copies)


def browser_store(
    name: str,
    text: str | None,
    seen: str | None,
    *,
    key: str,
    move: Move | None = None,
    drop: Sequence[str] = (),
) -> None:
    """Mount it. name: of the localStorage entry. text: what is to be kept, None to ask what is
    there. seen: id of the last report taken in; nothing is written over a later one. drop: keys of
    copies to let go of."""
    data = {
        "key": name,
        "text": text,
        "seen": seen,
        "move": None if move is None else {"to": move.to, "text": move.text},
        "drop": list(drop),
    }
    _mount(key=key, data=data, on_stored_change=lambda: None, height=1)
