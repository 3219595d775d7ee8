"""Show the code: the engine's functions behind a picture, each with its file and line."""

from __future__ import annotations

import streamlit as st

from ui.code import snippet


def draw(intro: str, targets: dict[str, str]) -> None:
    """targets: what a function does → "package.module:Class.function"."""
    found = [(title, snippet(target)) for title, target in targets.items()]
    with st.expander("Show the code", icon=":material/code:"):
        st.markdown(intro)
        for title, item in found:
            if item is not None:
                st.markdown(f"**{title}**, `{item.path}:{item.line}`")
                st.code(item.source, language="python", line_numbers=False)
