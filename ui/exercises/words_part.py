"""A part that asks for words: a place to write, a rubric to check oneself by, a model answer."""

from __future__ import annotations

import html

import streamlit as st

from quiz.errors import QuizError
from quiz.exercises import exercise
from quiz.exercises.exercise import Exercise, Part
from quiz.progress import MAX_NOTE_CHARS, Note, Progress, now
from ui.exercises import answers, number_part
from ui.exercises.place import Place
from ui.kit import glossary, notebook, store, text

_SAID = "exercises.kept"


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
        about, says = st.session_state.get(_SAID, ("", ""))
        st.html(
            f'<p class="kv-small" role="status">{html.escape(says if about == key else "")}</p>'
        )
        if answers.is_shown(place, part):
            _compare(key, part)


def _compare(key: str, part: Part) -> None:
    st.html('<p class="kv-label">Does your answer say this?</p>')
    for index, line in enumerate(part.rubric):
        st.checkbox(line, key=f"{key}.rubric.{index}")
    with st.expander("A model answer", icon=":material/menu_book:", key=f"{key}.model"):
        text.draw(model(part))
        if part.claims:
            links = ", ".join(f"[{id}](claims_ledger?claim={id})" for id in part.claims)
            text.draw(f"What is said of it: {links}")


def model(part: Part) -> str:
    """The model answer; each figure says on hover how it was computed, or who reports it."""

    def figure(name: str) -> str:
        found = part.figures[name]
        if found.value is not None:
            return glossary.hover(found.text, tuple(number_part.lines(found.value)), "kv-value")
        said = (f"Reported: {found.source}",) if found.source else ("Given in the exercise",)
        return glossary.hover(found.text, said, "kv-value")

    return exercise.put_in(part.model, figure)


def _keep(place: Place, made: Exercise, part: Part) -> None:
    key = answers.key(place, part)
    words = str(st.session_state.get(f"{key}.words") or "").strip()
    if not words:
        return
    answers.say(place, part, words)
    about = f"{made.title} ({part.id})"
    note = Note(
        notebook.new_id(),
        now(),
        "exercises",
        words[:MAX_NOTE_CHARS],
        about,
        tags=("exercise",),
        source=notebook.source_here(),
    )
    try:
        store.save((store.progress() or Progress()).with_note(note))
    except QuizError as exc:
        st.session_state[_SAID] = key, f"This was not kept: {exc}."
        return
    store.begin()
    st.session_state[_SAID] = key, "In your notebook, in this browser."
