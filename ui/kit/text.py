"""Lesson text on a page: formulas, glossary hovers, and three levels of depth.

A section may come in three: `## words.short`, `## words` and `## words.full`. What a lesson does
not have at one level is taken from the nearest shorter one, then from the plain section.
"""

from __future__ import annotations

import streamlit as st

from ui.kit import glossary
from ui.lesson import Lesson

LEVELS = {"In short": "short", "How it works": "plain", "In full": "full"}
_DEFAULT = "How it works"
_KEY = "level"


def level() -> str:
    """The level that the reader has chosen: "short", "plain" or "full"."""
    return LEVELS.get(st.session_state.get(_KEY, _DEFAULT), "plain")


def choose_level() -> None:
    """The control for it, above the text. It is in the address, and holds for every page."""
    st.segmented_control(
        "How much to read",
        list(LEVELS),
        default=_DEFAULT,
        required=True,
        key=_KEY,
        bind="query-params",
        label_visibility="collapsed",
    )


@st.fragment
def levelled(words: Lesson, name: str) -> None:
    """The control and a section at the chosen level. A fragment: another level draws nothing else
    of the page again."""
    choose_level()
    section(words, name)


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
