"""The states a part of a page can be in when it has no picture: loading, empty, offline, refused.

Each says what is so and how to go on; none moves what stands around it.
"""

from __future__ import annotations

import html
from collections.abc import Callable
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


def skeleton(layout: Layout, says: str) -> None:
    """The outline of what is coming. says: what is being waited for, for those who cannot see."""
    bars = "".join(f'<i class="{bar}"></i>' for bar in _BARS[layout])
    st.html(
        f'<div class="kv-skeleton {layout}" role="status" aria-label="{html.escape(says)}">'
        f'<div aria-hidden="true">{bars}</div></div>'
    )


def empty(
    title: str,
    says: str,
    *,
    action: str = "",
    on_action: Callable[[], None] | None = None,
    key: str = "empty",
) -> None:
    """What would be here, and the button that fills it."""
    with st.container(key=f"kv-empty-{key}"):
        st.html(
            f'<div class="kv-empty"><b>{html.escape(title)}</b><p>{html.escape(says)}</p></div>'
        )
        if on_action is not None:
            st.button(action, on_click=on_action, key=f"{key}.fill")


def notice(says: str) -> None:
    """Something the reader should know; the page goes on."""
    st.html(f'<p class="kv-notice" role="status">{html.escape(says)}</p>')


def offline(
    says: str,
    *,
    instead: str = "",
    on_instead: Callable[[], None] | None = None,
    key: str = "offline",
) -> None:
    """The engine is gone: the picture stays, one line says so and offers a recorded run by name."""
    with st.container(key=f"kv-offline-{key}", horizontal=True, vertical_alignment="center"):
        st.html(f'<p class="kv-notice off" role="status">{html.escape(says)}</p>')
        if on_instead is not None:
            st.button(instead, on_click=on_instead, key=f"{key}.instead", icon=":material/album:")


def refused(exc: KVScopeError, says: str) -> None:
    """Something cannot be shown: what, where, and how to go on. The detail may hold what somebody
    typed, so it is shown as text and never as markup."""
    st.error(says, icon=":material/error:")
    if isinstance(exc, ScenarioError):
        detail = f"{exc.path}\n{exc.message}" if exc.path else exc.message
    else:
        detail = str(exc)
    st.code(detail, language=None, wrap_lines=True)
