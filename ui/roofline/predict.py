"""The prediction panel: what sets the pace of three kinds of step, from which batch on, and then
the same of attention."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from ui.kit import predict, store
from ui.kit.predict import Choice, Number, Prediction, Said
from ui.lesson import Lesson
from ui.roofline import bench, grading
from ui.roofline.place import DEFAULT

KEY = "rl.predict"
_MOVED = f"{KEY}.moved"


@st.fragment
def draw(words: Lesson) -> None:
    """Before the lock four questions; after it what was said, and the library's answers. A
    fragment: a choice draws nothing else again."""
    if st.session_state.pop(_MOVED, False):  # the instrument is no part of this fragment
        st.rerun(scope="app")
    store.follow()
    if st.session_state.get(f"{KEY}.closed"):
        return
    values = grading.values()
    fields = tuple(
        Choice(name, words[f"predict-{name}"].format(**values), grading.BOUNDS)
        for name in grading.answers()
    )
    asked = Prediction(
        words["predict"].format(**values),
        (*fields, Number("batch", words["predict-batch"], 1_000_000)),
        key=KEY,
    )
    with st.container(key="kv-predict"):
        if asked.said is None:
            st.markdown(f"**Predict first.** {asked.ask}")
            with st.container(horizontal=True, vertical_alignment="bottom"):
                asked.ask_fields("visible")
                st.button("Lock it in", type="primary", on_click=asked.lock, key=f"{KEY}.lock")
                st.button(
                    "Skip", type="tertiary", on_click=predict.close, args=(KEY,), key=f"{KEY}.skip"
                )
        else:
            _reveal(words, asked, asked.said)


def _reveal(words: Lesson, asked: Prediction, said: Said) -> None:
    values = grading.values()
    guesses = [str(said[name]) for name in grading.answers()]
    batch = int(said["batch"])
    found = grading.feedback(guesses[0], guesses[1], guesses[2], batch)
    about = f"You said {', '.join(guesses).lower()}, and a batch of {batch:,}."
    answer = " ".join(words[name].format(**values) for name in found)
    st.markdown(f"**{about}** {answer} {words['fact'].format(**values)}")
    again = Prediction(
        words["predict-again"],
        (Choice("attention", words["again-field"], grading.ATTENTION),),
        key=KEY,
        suffix="again",
    )
    predict.again(again, lambda said: _again(words, str(said["attention"])))
    with predict.row():
        predict.ways_on(
            asked,
            see=words["locked-see"],
            on_see=_see,
            page=words.title,
            about=about,
        )


def _see() -> None:
    bench.go(replace(DEFAULT, b=grading.reach()))
    st.session_state[_MOVED] = True


def _again(words: Lesson, guess: str) -> str:
    values = grading.values()
    answer = words[grading.feedback_again(guess)].format(**values)
    return f"**You said {guess.lower()}.** {answer} {words['again-fact'].format(**values)}"
