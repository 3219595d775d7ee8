"""Exercises: numbers entered with their units and diagnosed, and questions to answer in words."""

import streamlit as st

from ui import lesson
from ui.exercises import desk
from ui.kit import code, page, text

CODE = {
    "What an answer says": "quiz.exercises.quantity:read",
    "What is wrong with it": "quiz.exercises.diagnose:_judge",
    "An exercise and its numbers": "quiz.exercises.exercise:_Maker.target",
}

words = lesson.load("exercises")
present = page.is_present()
desk.start()

if not present:
    with st.container(key="kv-top", horizontal=True, vertical_alignment="center"):
        page.title(words)
        page.bar()

if st.session_state[desk.NOTICE]:
    st.warning(st.session_state[desk.NOTICE], icon=":material/link_off:")
desk.draw(present=present)

if present:
    page.bar()
else:
    with st.container(key="kv-words"):
        left, right = st.columns(2, gap="large")
        with left:
            text.objectives(words)
            text.levelled(words, "words")
        with right:
            code.draw(words["code"], CODE)
