"""Lesson text on a page: formulas, glossary hovers, and three levels of depth.

A section may come in three: `## words.short`, `## words` and `## words.full`. What a lesson does
not have at one level is taken from the nearest shorter one, then from the plain section.
"""

from __future__ import annotations

import streamlit as st

from ui.kit import glossary
from ui.lesson import Lesson

LEVELS = {"short": "In short", "plain": "How it works", "full": "In full"}
_KEY = "level"


def level() -> str:
    """The level that the reader has chosen; it is in the address."""
    chosen = st.session_state.get(_KEY)
    return chosen if chosen in LEVELS else "plain"


def choose_level() -> None:
    """The control for it. Once on a page; every section of the page follows."""
    st.segmented_control(
        "How much to read",
        list(LEVELS),
        format_func=LEVELS.__getitem__,
        default="plain",
        required=True,
        key=_KEY,
        bind="query-params",
        label_visibility="collapsed",
    )


def pick(words: Lesson, name: str, at: str) -> str:
    """A section at a level. Raises KeyError when the lesson has no such section at all."""
    order = {"short": (f"{name}.short", name), "full": (f"{name}.full", name), "plain": (name,)}
    for candidate in (*order[at], name):
        if candidate in words.sections:
            return words[candidate]
    raise KeyError(name)


def section(words: Lesson, name: str) -> None:
    """A section of the lesson, at the reader's level."""
    draw(pick(words, name, level()))


def draw(markdown: str) -> None:
    """A text of the course: Markdown with $formulas$ and [[terms]]."""
    st.markdown(glossary.marked(markdown), unsafe_allow_html=True)


def objectives(words: Lesson) -> None:
    """What the reader can do after this page: the section "objectives", one a line."""
    with st.container(key="kv-objectives"):
        draw(f"**After this page you can**\n\n{words['objectives']}")
