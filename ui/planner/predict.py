"""The prediction: how many users a replica serves at once, with three bounds in sight."""

from __future__ import annotations

import streamlit as st

from ui.kit import predict
from ui.kit.predict import Number, Prediction, Said
from ui.lesson import Lesson
from ui.planner import bench, grading

KEY = "cp.predict"
MOST = 10**6
_MOVED = f"{KEY}.moved"


def draw(words: Lesson) -> None:
    """One panel with the case, and what was said against what is so. It can be skipped."""
    values = grading.values()
    first = Prediction(
        words["predict"].format(**values),
        (Number("users", words["predict-field"], MOST),),
        key=KEY,
    )
    second = Prediction(
        words["predict-again"].format(**values),
        (Number("users2", words["again-field"], MOST),),
        key=KEY,
        suffix="256",
    )

    def reveal(said: Said) -> None:
        guess = int(said["users"])
        about = f"You said {guess:,} users."
        with st.container(width="stretch"):
            answer = words[grading.feedback(guess)].format(**values)
            st.markdown(f"**{about}** {answer} {words['fact'].format(**values)}")
            predict.again(second, lambda said: _again(words, int(said["users2"])))
        predict.ways_on(
            first,
            see=words["locked-see"],
            on_see=_see,
            page=words.title,
            about=about,
        )

    @st.fragment
    def panel() -> None:
        if st.session_state.pop(_MOVED, False):  # the instrument is no part of this fragment
            st.rerun(scope="app")
        predict.draw(first, reveal)

    panel()


def _see() -> None:
    bench.go(grading.CASE)
    st.session_state[_MOVED] = True


def _again(words: Lesson, guess: int) -> str:
    values = grading.values()
    answer = words[grading.feedback_again(guess)].format(**values)
    return f"**You said {guess:,}.** {answer} {words['again-fact'].format(**values)}"
