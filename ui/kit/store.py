"""The learner's progress and notebook: in this session, and kept in their browser.

A page calls `receive` before it draws and `keep` when it is done. In between `progress` is what is
known, None until the browser has answered, and `save` changes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from quiz.errors import QuizError
from quiz.progress import Progress, merge, read
from ui.components.browser_store import browser_store, reported

NAME = "kv-scope.progress"
_PROGRESS = "kv.progress"
_COMPONENT = "kv-store"
_SEEN = "kv.progress.seen"
_STATE = "kv.progress.state"


@dataclass(frozen=True, slots=True)
class State:
    """volatile: this browser keeps nothing. unreadable: what it has kept cannot be read, with the
    reason; it is not written over until the learner says so."""

    volatile: bool = False
    unreadable: tuple[str, str] | None = None  # the reason, the text


def progress() -> Progress | None:
    """What is known of this learner; None until their browser has answered."""
    known: Progress | None = st.session_state.get(_PROGRESS)
    return known


def state() -> State:
    found: State = st.session_state.get(_STATE, State())
    return found


def save(changed: Progress) -> None:
    """Take over a change. It reaches the browser at the next `keep`."""
    st.session_state[_PROGRESS] = changed


def receive() -> None:
    """Take in what the browser has reported since the last time."""
    report = reported(_COMPONENT)
    if report is None or report.id == st.session_state.get(_SEEN):
        return
    st.session_state[_SEEN] = report.id
    known = progress()
    unreadable = None
    if report.text is not None:
        try:
            stored = read(report.text)
            known = stored if known is None else merge(known, stored)
        except QuizError as exc:
            unreadable = (str(exc), report.text)
    st.session_state[_STATE] = State(not report.ok, unreadable)
    save(known or Progress())


def overwrite() -> None:
    """Let go of what the browser has and could not be read."""
    st.session_state[_STATE] = State()


def keep() -> None:
    """Hand the present state to the browser. Once per run of a page, at its end."""
    known = progress()
    blocked = state().unreadable is not None
    text = None if known is None or blocked else known.to_json()
    browser_store(NAME, text, st.session_state.get(_SEEN), key=_COMPONENT)
