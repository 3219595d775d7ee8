"""The prediction: bytes of a token from a config.json, then on each of sixteen GPUs."""

from __future__ import annotations

import json
from dataclasses import replace

import streamlit as st

from ui.kit import predict
from ui.kit.predict import Number, Prediction, Said
from ui.lesson import Lesson
from ui.sizing import bench, grading
from ui.sizing.place import DEFAULT

KEY = "ks.predict"
MOST = 10**12
_MOVED = f"{KEY}.moved"


def draw(words: Lesson) -> None:
    """One panel with the config, and what was said against what is so. It can be skipped."""
    ask = f"{words['predict']}  \n{_config()}"
    first = Prediction(ask, (Number("bytes", words["predict-field"], MOST),), key=KEY)
    second = Prediction(
        words["predict-again"],
        (Number("each", words["again-field"], MOST),),
        key=KEY,
        suffix="16",
    )

    def reveal(said: Said) -> None:
        guess, values = int(said["bytes"]), grading.values()
        about = f"You said {guess:,} B."
        with st.container(width="stretch"):
            answer = words[grading.feedback(guess)].format(**values)
            st.markdown(f"**{about}** {answer} {words['fact'].format(**values)}")
            predict.again(second, lambda said: _again(words, int(said["each"])))
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
    bench.go(replace(DEFAULT, model=grading.MODEL))
    st.session_state[_MOVED] = True


def _again(words: Lesson, guess: int) -> str:
    values = grading.values()
    answer = words[grading.feedback_again(guess)].format(**values)
    return f"**You said {guess:,}.** {answer} {words['again-fact'].format(**values)}"


def _config() -> str:
    """The fields of the config in one line, as code."""
    fields = grading.config().items()
    return " ".join(f"`{json.dumps(name)}: {json.dumps(value)}`" for name, value in fields)
