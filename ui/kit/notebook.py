"""The notebook: one line after a prediction, on what changed the learner's mind. It is kept in
their browser and nobody else reads it."""

from __future__ import annotations

import secrets

import streamlit as st

from quiz.progress import MAX_NOTE_CHARS, Note, Progress, now
from ui.kit import states, store
from ui.lesson import load


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
        note = Note(
            secrets.token_hex(8), now(), page, text[:MAX_NOTE_CHARS], about[:MAX_NOTE_CHARS]
        )
        store.save((store.progress() or Progress()).with_note(note))
        store.begin()
        st.session_state[f"{key}.kept"] = st.session_state[f"{key}.new"] = True

    with st.container(horizontal=True, vertical_alignment="center"):
        st.text_input(
            label,
            placeholder=f"{label} One line for your notebook",
            key=f"{key}.text",
            max_chars=MAX_NOTE_CHARS,
            label_visibility="collapsed",
        )
        st.button("Note it", on_click=keep, key=f"{key}.note")


def listing(known: Progress) -> None:
    """Every note, newest first. What was typed is shown as text, never as markup."""
    if not known.notes:
        states.empty("Nothing here yet.", load("quiz")["notebook-empty"])
        return
    for note in reversed(known.notes):
        with st.container(horizontal=True, vertical_alignment="top"):
            with st.container(gap=None):
                st.text(note.text)
                about = f" · {note.about}" if note.about else ""
                st.text(f"{note.at[:10]} · {note.page}{about}")
            st.button(
                "Delete this note",
                icon=":material/delete:",
                key=f"note.{note.id}",
                type="tertiary",
                on_click=lambda note_id=note.id: _delete(note_id),
            )


def as_text(known: Progress) -> str:
    """The whole notebook to take away, oldest first."""
    lines = ["# Notebook"]
    for note in known.notes:
        lines += ["", f"{note.at[:10]}, {note.page}", *([note.about] if note.about else [])]
        lines.append(note.text)
    return "\n".join(lines) + "\n"


def _delete(note_id: str) -> None:
    known = store.progress()
    if known is not None:
        store.save(known.without_note(note_id))
