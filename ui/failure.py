"""What a visitor sees when the program itself is wrong: one sentence, and a way on."""

from __future__ import annotations

import logging

import streamlit as st

_log = logging.getLogger("kv_scope")


def show(exc: Exception) -> bool:
    """Log the traceback for the operator; tell the visitor what to do. Shows nothing of it."""
    _log.error("a page failed", exc_info=exc)
    st.error(
        "Something in this page is broken; it is not your doing. Reload it, or go back to "
        "[the start](/). The server's log says what happened.",
        icon=":material/error:",
    )
    return True
