"""The states a part of a page can be in when it has no picture: loading, empty, refused.

Each says what is so and how to go on; none moves what stands around it.
"""

from __future__ import annotations

import html
from typing import Literal

import streamlit as st

from core.errors import KVScopeError, ScenarioError

Layout = Literal["card", "lines", "chart", "player"]
_BARS: dict[Layout, tuple[str, ...]] = {
    "card": ("w60 tall", "w40", "row", "row", "row", "row"),
    "lines": ("w90", "w80", "w60"),
    "chart": ("w40", "chart"),
    "player": ("w60", "chart", "row"),
}


def with_code(says: str) -> str:
    """Text as HTML: escaped, and `code` set in monospace."""
    parts = html.escape(says).split("`")
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))


def skeleton(layout: Layout, says: str) -> None:
    """The outline of what is coming. says: what is being waited for, for those who cannot see."""
    bars = "".join(f'<i class="{bar}"></i>' for bar in _BARS[layout])
    st.html(
        f'<div class="kv-skeleton {layout}" role="status" aria-label="{html.escape(says)}">'
        f'<div aria-hidden="true">{bars}</div></div>'
    )


def empty(title: str, says: str) -> None:
    """What would be here, and how it comes to be. says: `code` is set in monospace."""
    st.html(f'<div class="kv-empty"><b>{html.escape(title)}</b><p>{with_code(says)}</p></div>')


def notice(says: str) -> None:
    """Something the reader should know; the page goes on."""
    st.html(f'<p class="kv-notice" role="status">{html.escape(says)}</p>')


def refused(exc: KVScopeError, says: str) -> None:
    """Something cannot be shown: what, where, and how to go on. The detail may hold what somebody
    typed, so it is shown as text and never as markup."""
    st.error(says, icon=":material/error:")
    if isinstance(exc, ScenarioError):
        detail = f"{exc.path}\n{exc.message}" if exc.path else exc.message
    else:
        detail = str(exc)
    st.code(detail, language=None, wrap_lines=True)
