"""A part that asks for words: a place to write, a rubric to check oneself by, a model answer."""

from __future__ import annotations

import secrets

import streamlit as st

from quiz.exercises.exercise import Exercise, Part
from quiz.progress import MAX_NOTE_CHARS, Note, Progress, now
from ui.exercises import answers
from ui.exercises.place import Place
from ui.kit import store, text

_KEPT = "exercises.kept"


def draw(place: Place, made: Exercise, part: Part) -> None:
    key = answers.key(place, part)
    field = f"{key}.words"
    if field not in st.session_state:
        st.session_state[field] = answers.said(place, part)

    def take() -> None:
        answers.say(place, part, st.session_state.get(field) or "")
        store.begin()

    with st.container(key=f"kv-ex-part-{part.id}"):
        text.draw(f"**{part.id}** {part.ask}")
        st.text_area(
            f"Your answer to {part.id}",
            key=field,
            on_change=take,
            max_chars=answers.MAX_WORDS,
            placeholder="In your own words. Nobody else reads it.",
            label_visibility="collapsed",
            height=130,
        )
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(
                "Keep in the notebook",
                icon=":material/edit_note:",
                on_click=_keep,
                args=(place, made, part),
                key=f"{key}.keep",
            )
            if not answers.is_shown(place, part):
                st.button("Compare", on_click=answers.show, args=(place, part), key=f"{key}.show")
        if st.session_state.get(_KEPT) == key:
            st.html('<p class="kv-small" role="status">In your notebook, in this browser.</p>')
        if answers.is_shown(place, part):
            _compare(key, part)


def _compare(key: str, part: Part) -> None:
    st.html('<p class="kv-label">Does your answer say this?</p>')
    for index, line in enumerate(part.rubric):
        st.checkbox(line, key=f"{key}.rubric.{index}")
    with st.expander("A model answer", icon=":material/menu_book:", key=f"{key}.model"):
        text.draw(part.model)
        if part.claims:
            links = ", ".join(f"[{id}](claims_ledger?claim={id})" for id in part.claims)
            text.draw(f"What is said of it: {links}")


def _keep(place: Place, made: Exercise, part: Part) -> None:
    words = (
        answers.said(place, part).strip()
        or (st.session_state.get(f"{answers.key(place, part)}.words") or "").strip()
    )
    if not words:
        return
    about = f"{made.title} ({part.id})"
    note = Note(secrets.token_hex(8), now(), "exercises", words[:MAX_NOTE_CHARS], about)
    store.save((store.progress() or Progress()).with_note(note))
    store.begin()
    st.session_state[_KEPT] = answers.key(place, part)
