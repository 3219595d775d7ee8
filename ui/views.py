"""Parts that pages share: the head of a page, a refusal, the code behind a picture."""

from __future__ import annotations

import html

import streamlit as st

from core.errors import KVScopeError, ScenarioError
from ui import catalogue, runs
from ui.code import snippet
from ui.lesson import Lesson


def head(words: Lesson) -> None:
    """Title and objective."""
    st.html(
        f'<div class="kv-head"><h1>{html.escape(words.title)}</h1>'
        f"<p>{html.escape(words.objective)}</p></div>"
    )


def about(chosen: str) -> None:
    """What a built-in scenario or a recorded run shows, and what to look at."""
    kind, _, name = chosen.partition(":")
    entry = catalogue.entries().get(name) if kind == "scenario" else None
    said = catalogue.recorded().get(name) if kind == "run" else None
    if kind == "file":
        said = {"shows": runs.FILE_NOTE, "look": ""}
    if entry is not None:
        said = {"shows": entry.shows, "look": entry.look}
    if said is None:
        return
    shows, look = html.escape(said["shows"]), html.escape(said["look"])
    st.html(f'<p class="kv-about">{shows} <span>{look}</span></p>')


def refused(exc: KVScopeError) -> None:
    """A scenario or a run that cannot be played: what, where, how to go on."""
    if isinstance(exc, ScenarioError):
        st.error(
            "This scenario was refused, so nothing plays. Turn on **Change it** to mend it.",
            icon=":material/error:",
        )
        detail = f"{exc.path}\n{exc.message}" if exc.path else exc.message
    else:
        st.error("This run cannot be played. Choose another above.", icon=":material/error:")
        detail = str(exc)
    st.code(detail, language=None, wrap_lines=True)


def code(intro: str, targets: dict[str, str]) -> None:
    """The engine's functions behind a picture, each with its file and line."""
    found = [(title, snippet(target)) for title, target in targets.items()]
    with st.expander("Show the code", icon=":material/code:"):
        st.markdown(intro)
        for title, item in found:
            if item is not None:
                st.markdown(f"**{title}**, `{item.path}:{item.line}`")
                st.code(item.source, language="python", line_numbers=False)
