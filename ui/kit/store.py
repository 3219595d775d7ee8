"""The learner's progress and notebook: in this session, and kept in their browser.

A page calls `keep` once, at its end. `progress` is what is known, None until the browser has
answered, and `save` changes it.
"""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from quiz.errors import QuizError
from quiz.progress import (
    MAX_BYTES,
    MAX_NOTES,
    MAX_QUOTE_CHARS,
    Note,
    Progress,
    merge,
    now,
    read,
    source,
)
from ui import nav
from ui.components.browser_store import Copy, Move, aside, browser_store, reported
from ui.components.quote import chosen, quote

NAME = "kv-scope.progress"
_NEW = "kv.progress.new"
_COMPONENT = "kv-store"
_SEEN = "kv.progress.seen"
_STATE = "kv.progress.state"
_MOVE = "kv.progress.move"
_DROP = "kv.progress.drop"
_QUOTE = "kv-quote"


@dataclass(frozen=True, slots=True)
class State:
    """volatile: this browser keeps nothing of this session. copies: what could not be read and was
    put aside under a name of its own. stuck: the same, where there was no room to put it aside: it
    lies where it was, and nothing is written over it."""

    volatile: bool = False
    copies: tuple[Copy, ...] = ()
    stuck: Copy | None = None


def progress() -> Progress | None:
    """What is known of this learner; None until their browser has answered."""
    known: Progress | None = st.session_state.get(nav.PROGRESS)
    return known


def state() -> State:
    found: State = st.session_state.get(_STATE, State())
    return found


def save(changed: Progress) -> None:
    """Take over a change. It reaches the browser at the next `keep`."""
    before = (nav.marks(progress()), _predicted_here())
    st.session_state[nav.PROGRESS] = changed
    if (nav.marks(changed), _predicted_here()) != before:
        st.session_state[_NEW] = True


def begin() -> None:
    """Something was done on the page that is open: for its mark in the navigation."""
    here, known = st.session_state.get(nav.HERE), progress() or Progress()
    if here and here not in known.begun:
        save(known.with_begun(here, now()))


def follow() -> None:
    """First in a fragment whose widgets save: where that changes a mark of the navigation or a
    prediction, the whole page is drawn again, and the browser gets it."""
    context = get_script_run_ctx()
    alone = context is not None and bool(context.fragment_ids_this_run)
    if alone and st.session_state.pop(_NEW, False):
        st.rerun(scope="app")


def _receive() -> bool:
    """Take in what the browser has reported. Whether that changes what a page may show."""
    report = reported(_COMPONENT)
    if report is None or report.id == st.session_state.get(_SEEN):
        return False
    st.session_state[_SEEN] = report.id
    known, before = progress(), (progress(), state())
    stuck = None
    if report.text is not None:
        try:
            stored = read(report.text)
            known = stored if known is None else merge(known, stored)
        except QuizError:
            move: Move | None = st.session_state.get(_MOVE)
            if move is None or move.text != report.text:
                move = Move(aside(NAME, now()), report.text)
            st.session_state[_MOVE] = move
            if not report.ok:  # it was tried before, and there was no room
                stuck = Copy(move.to, report.text)
    st.session_state[_STATE] = State(not report.ok, report.copies, stuck)
    save(known or Progress())
    return before != (progress(), state())


def let_go(copy: Copy) -> None:
    """Have the browser forget what could not be read."""
    known = state()
    name = NAME if copy == known.stuck else copy.key
    st.session_state.setdefault(_DROP, []).append(name)
    kept = tuple(one for one in known.copies if one != copy)
    stuck = None if copy == known.stuck else known.stuck
    st.session_state[_STATE] = State(known.volatile and stuck is not None, kept, stuck)


def _text() -> str | None:
    """What the browser is to keep; None for what it already has."""
    known = progress()
    if known is None:
        return None
    text = known.to_json()
    if len(text.encode("utf-8")) <= MAX_BYTES:
        return text
    # Two tabs can come to this, each with half of it. What could not be read again is not written.
    st.session_state[_STATE] = State(True, state().copies, state().stuck)
    return None


@st.fragment
def keep(*, redraw: bool) -> None:
    """Hand the present state to the browser, and hear from it. Once on a page, at its end.

    redraw: whether the page shows any of it, and so is drawn again when the browser has news. A
    fragment: other pages are left alone, even while their visitor has a list open, unless a mark
    of the navigation changes or the browser remembers what was predicted there.
    """
    before, predicted = nav.marks(progress()), _predicted_here()
    news = _receive()
    st.session_state.pop(_NEW, None)  # all of it is handed over here
    browser_store(
        NAME,
        _text(),
        st.session_state.get(_SEEN),
        key=_COMPONENT,
        move=st.session_state.get(_MOVE),
        drop=st.session_state.get(_DROP, ()),
    )
    if st.query_params.get("present") != "1" and st.session_state.get(nav.HERE) != "notebook":
        full = len((progress() or Progress()).notes) >= MAX_NOTES
        quote(MAX_QUOTE_CHARS, full=full, key=_QUOTE, on_quote=_quoted)
    changed = nav.marks(progress()) != before or _predicted_here() != predicted
    if news and (redraw or changed):
        st.rerun(scope="app")


def _quoted() -> None:
    """Make a note of what was selected on the page that is open."""
    found, here = chosen(_QUOTE), st.session_state.get(nav.HERE)
    text = found["text"].strip()[:MAX_QUOTE_CHARS] if found else ""
    if found is None or not text:
        return
    place = nav.PLACES.get(here)
    where = source(here or "", found.get("section"), found.get("anchor"), found.get("query"))
    note = Note(
        secrets.token_hex(8),
        now(),
        place.title if place else "Home",
        "",
        quote=text,
        source=where if place else None,
    )
    with contextlib.suppress(QuizError):  # the notebook is full, which its page says
        save((progress() or Progress()).with_note(note))
        begin()


def _predicted_here() -> list[tuple[str, str]]:
    known, here = progress() or Progress(), st.session_state.get(nav.HERE)
    return [
        (name, one.at) for name, one in known.predictions.items() if name.startswith(f"{here}/")
    ]
