"""The prediction of the block pool page: commit, lock, then see what the engine did."""

from __future__ import annotations

import streamlit as st

from ui import catalogue, choice, runs
from ui.kit import predict
from ui.kit.predict import Number, Prediction, Said
from ui.lesson import Lesson
from ui.prediction import Packing, feedback, from_run

SCENARIO = "thirty-three"
AGAIN = Packing(33, 16)


def draw(words: Lesson) -> None:
    """One slim panel; it can be skipped, and what was locked stays locked in this session."""
    first = Prediction(
        words["predict"], (Number("blocks", "Blocks"), Number("waste", "Empty slots"))
    )
    second = Prediction(words["predict-again"], (Number("waste16", "Empty slots"),), suffix="16")

    def reveal(said: Said) -> None:
        blocks, waste = int(said["blocks"]), int(said["waste"])
        # The answer is counted in a run of the engine, made now.
        packing = from_run(runs.simulate(catalogue.entries()[SCENARIO].text).data())
        values = packing.values()
        about = f"You said {blocks} blocks, {waste} empty slots."
        with st.container(width="stretch"):
            answer = words[feedback(packing, blocks, waste)].format(**values)
            st.markdown(f"**{about}** {answer} {words['fact'].format(**values)}")
            predict.again(second, lambda said: _again(words, int(said["waste16"])))
        predict.ways_on(
            first,
            see="See it in the engine",
            on_see=lambda: choice.choose(f"scenario:{SCENARIO}"),
            page=words.title,
            about=about,
        )

    predict.draw(first, reveal)


def _again(words: Lesson, waste: int) -> str:
    values = AGAIN.values()
    answer = words[feedback(AGAIN, None, waste)].format(**values)
    fact = f"{words['fact']} {words['fact-again']}".format(**values)
    return f"**You said {waste}.** {answer} {fact}"
