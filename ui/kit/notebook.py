"""The notebook: one line after a prediction, on what changed the learner's mind. It is kept in
their browser and nobody else reads it."""

from __future__ import annotations

import secrets
from urllib.parse import urlencode

import streamlit as st

from quiz.errors import QuizError
from quiz.progress import Note, Progress, Source, now, source
from ui import nav
from ui.kit import states, store
from ui.lesson import load

MAX_LINE_CHARS = 500
LATEST = 5
"""As many notes as fit below a button; all of them are on their own page."""
_SAFE = ",:;@!*()/"


def ask(page: str, about: str, *, key: str, label: str = "What changed your mind?") -> None:
    """One line to write, under what it is about. Once kept it says so; it can be skipped."""
    if st.session_state.pop(f"{key}.new", False):
        st.rerun(scope="app")  # asked inside a fragment: the page's foot hands it to the browser
    if st.session_state.get(f"{key}.kept"):
        st.html('<p class="kv-small" role="status">In your notebook, in this browser.</p>')
        return

    def keep() -> None:
        text = (st.session_state.get(f"{key}.text") or "").strip()
        if not text:
            return
        note = Note(new_id(), now(), page, text, about, source=source_here())
        try:
            store.save((store.progress() or Progress()).with_note(note))
        except QuizError as exc:
            st.session_state[f"{key}.full"] = str(exc)
            return
        store.begin()
        st.session_state[f"{key}.kept"] = st.session_state[f"{key}.new"] = True

    with st.container(horizontal=True, vertical_alignment="center"):
        st.text_input(
            label,
            placeholder=f"{label} One line for your notebook",
            key=f"{key}.text",
            max_chars=MAX_LINE_CHARS,
            label_visibility="collapsed",
        )
        st.button("Note it", on_click=keep, key=f"{key}.note")
    if full := st.session_state.get(f"{key}.full"):
        states.notice(f"This was not kept: {full}.")


def new_id() -> str:
    return secrets.token_hex(8)


def source_here() -> Source | None:
    """The page that is open, as it stands in its address."""
    here = st.session_state.get(nav.HERE)
    if not here:
        return None
    kept = {name: st.query_params[name] for name in st.query_params if name != "present"}
    return source(here, "", "", urlencode(kept, safe=_SAFE))


def listing(known: Progress) -> None:
    """The latest notes, and the way to all of them. What was typed is shown as text, never as
    markup."""
    if not known.notes:
        states.empty("Nothing here yet.", load("quiz")["notebook-empty"])
        return
    for note in reversed(known.notes[-LATEST:]):
        with st.container(horizontal=True, vertical_alignment="top"):
            with st.container(gap=None):
                st.text(note.text or f"“{note.quote}”")
                about = f" · {note.about}" if note.about else ""
                st.text(f"{note.at[:10]} · {note.page}{about}")
            st.button(
                "Delete this note",
                icon=":material/delete:",
                key=f"note.{note.id}",
                type="tertiary",
                on_click=lambda note_id=note.id: _delete(note_id),
            )
    st.page_link(nav.page("notebook"), label="Open the notebook")


def as_text(known: Progress) -> str:
    """The whole notebook to take away, as Markdown, oldest first. Each note is as it was written;
    what stands above it says when, where and under what."""
    parts = ["# Notebook"]
    for note in known.notes:
        edited = f", edited {note.edited[:10]}" if note.edited else ""
        section = f", {note.source.section}" if note.source and note.source.section else ""
        head = [f"## {note.at[:10]}, {note.page}{section}{edited}"]
        if note.about:
            head.append(f"*{note.about}*")
        if note.quote:
            head.append("\n".join(f"> {line}" for line in note.quote.splitlines()))
        if note.text:
            head.append(note.text)
        if note.tags:
            head.append(" ".join(f"#{tag}" for tag in note.tags))
        parts.append("\n\n".join(head))
    return "\n\n".join(parts) + "\n"


def _delete(note_id: str) -> None:
    known = store.progress()
    if known is not None:
        store.save(known.without_note(note_id, now()))
