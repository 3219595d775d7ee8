"""The prediction panel: steps under both policies, then the gap that a long prompt makes."""

from __future__ import annotations

import streamlit as st

from core.errors import KVScopeError
from ui.batching import grading, instrument, studies
from ui.kit import predict
from ui.kit.predict import Choice, Number, Prediction, Said
from ui.lesson import Lesson

KEY = "ba.predict"


def draw(words: Lesson) -> None:
    """One slim panel; left out where the recorded runs are missing, whose truth it asks for."""
    try:
        runs = studies.RECORDED["policies"]
        true = grading.policies(*(studies.figures(runs[name]) for name in runs))
        spike = grading.spike(studies.figures(studies.WHOLE))
    except KVScopeError:
        return
    first = Prediction(
        words["predict"].format(**true.values()),
        (
            Number("static", "Steps, static"),
            Number("continuous", "Steps, continuous"),
            Choice("who", "Who ends first", (grading.FIRST, grading.LATE)),
        ),
        key=KEY,
    )
    second = Prediction(
        words["again"].format(**spike.values()),
        (Choice("longer", "How much longer", tuple(grading.LONGER)),),
        key=KEY,
        suffix="again",
    )

    def reveal(said: Said) -> None:
        static, continuous = int(said["static"]), int(said["continuous"])
        values = true.values()
        names = grading.feedback(true, static, continuous, str(said["who"]))
        answers = " ".join(words[name].format(**values) for name in names)
        about = f"You said static {static}, continuous {continuous}, {said['who']} first."
        with st.container(width="stretch"):
            st.markdown(f"**{about}** {answers} {words['fact'].format(**values)}")
            predict.again(second, lambda said: _again(words, spike, str(said["longer"])))
        predict.ways_on(
            first,
            see="See it in the runs",
            on_see=lambda: instrument.change(study="policies", source="recorded"),
            page=words.title,
            about=about,
        )

    predict.draw(first, reveal)


def _again(words: Lesson, spike: grading.Spike, said: str) -> str:
    values = spike.values()
    answer = words[grading.longer_feedback(said, spike.ratio)].format(**values)
    return f"**You said {said.lower()}.** {answer} {words['again-fact'].format(**values)}"
