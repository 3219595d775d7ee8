"""The pages that exist. Imports nothing slow: navigation is declared before everything else."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui.paths import PAGES


def home() -> Any:
    return st.Page(PAGES / "home.py", title="Home", default=True)


def block_pool() -> Any:
    return st.Page(
        PAGES / "block_pool.py",
        title="Block pool",
        url_path="block_pool",
    )


def prefill_decode() -> Any:
    return st.Page(
        PAGES / "prefill_decode.py",
        title="Prefill and decode",
        url_path="prefill_decode",
    )


def kv_sizing() -> Any:
    return st.Page(PAGES / "kv_sizing.py", title="KV sizing", url_path="kv_sizing")


def quiz() -> Any:
    return st.Page(PAGES / "quiz.py", title="Quiz", url_path="quiz")


def sections() -> dict[str, list[Any]]:
    """Sections of the course with their pages, in order."""
    return {
        "Start": [home()],
        "Understand": [prefill_decode(), kv_sizing()],
        "Memory": [block_pool()],
        "Keep": [quiz()],
    }
