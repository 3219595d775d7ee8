"""Show the code: the engine's functions behind a picture, each with its file and line."""

from __future__ import annotations

import streamlit as st

from ui.code import snippet

KEY = "kv-code"


@st.fragment
def draw(intro: str, targets: dict[str, str]) -> None:
    """targets: what a function does → "package.module:Class.function".

    The source goes to the browser when it is asked for: what colours it is as large as all else
    that a first visit loads.
    """
    box = st.expander("Show the code", icon=":material/code:", key=KEY, on_change="rerun")
    if not box.open:
        return
    with box:
        st.markdown(intro)
        for title, target in targets.items():
            item = snippet(target)
            if item is not None:
                st.markdown(f"**{title}**, `{item.path}:{item.line}`")
                st.code(item.source, language="python", line_numbers=False)
