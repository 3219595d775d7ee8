"""The learner's progress and notebook: in this session, and kept in their browser.

A page calls `keep` once, at its end. `progress` is what is known, None until the browser has
answered, and `save` changes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from quiz.errors import QuizError
from quiz.progress import Progress, merge, now, read
from ui import nav
from ui.components.browser_store import browser_store, reported

NAME = "kv-scope.progress"
_NEW = "kv.progress.new"
_COMPONENT = "kv-store"
_SEEN = "kv.progress.seen"
_STATE = "kv.progress.state"
_GIVEN_UP = "kv.progress.given_up"


@dataclass(frozen=True, slots=True)
class State:
    """volatile: this browser keeps nothing. unreadable: what it has kept cannot be read, with the
    reason; it is not written over until the learner says so."""

    volatile: bool = False
    unreadable: tuple[str, str] | None = None  # the reason, the text


def progress() -> Progress | None:
    """What is known of this learner; None until their browser has answered."""
    known: Progress | None = st.session_state.get(nav.PROGRESS)
    return known


def state() -> State:
    found: State = st.session_state.get(_STATE, State())
    return found


def save(changed: Progress) -> None:
    """Take over a change. It reaches the browser at the next `keep`."""
    before = nav.marks(progress())
    st.session_state[nav.PROGRESS] = changed
    if nav.marks(changed) != before:
        st.session_state[_NEW] = True


def begin() -> None:
    """Something was done on the page that is open: for its mark in the navigation."""
    here, known = st.session_state.get(nav.HERE), progress() or Progress()
    if here and here not in known.begun:
        save(known.with_begun(here, now()))


def follow() -> None:
    """First in a fragment whose widgets save: where that changes a mark of the navigation, the
    whole page is drawn again, and the browser gets it."""
    if st.session_state.pop(_NEW, False):
        st.rerun(scope="app")


def _receive() -> bool:
    """Take in what the browser has reported. Whether that changes what a page may show."""
    report = reported(_COMPONENT)
    if report is None or report.id == st.session_state.get(_SEEN):
        return False
    st.session_state[_SEEN] = report.id
    known, before = progress(), (progress(), state())
    unreadable = None
    if report.text is not None and report.text != st.session_state.get(_GIVEN_UP):
        try:
            stored = read(report.text)
            known = stored if known is None else merge(known, stored)
        except QuizError as exc:
            unreadable = (str(exc), report.text)
    st.session_state[_STATE] = State(not report.ok, unreadable)
    save(known or Progress())
    return before != (progress(), state())


def overwrite() -> None:
    """Let go of what the browser has and could not be read."""
    unreadable = state().unreadable
    if unreadable is not None:  # it may be reported again before it is written over
        st.session_state[_GIVEN_UP] = unreadable[1]
    st.session_state[_STATE] = State(state().volatile)


@st.fragment
def keep(*, redraw: bool) -> None:
    """Hand the present state to the browser, and hear from it. Once on a page, at its end.

    redraw: whether the page shows any of it, and so is drawn again when the browser has news. A
    fragment: other pages are left alone, even while their visitor has a list open, unless a mark
    of the navigation changes.
    """
    before = nav.marks(progress())
    news = _receive()
    st.session_state.pop(_NEW, None)  # all of it is handed over here
    known = progress()
    blocked = state().unreadable is not None
    text = None if known is None or blocked else known.to_json()
    browser_store(NAME, text, st.session_state.get(_SEEN), key=_COMPONENT)
    if news and (redraw or nav.marks(known) != before):
        st.rerun(scope="app")
