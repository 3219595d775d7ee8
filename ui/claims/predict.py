"""The prediction on the ledger's page: how many of its claims hold as printed."""

from __future__ import annotations

import streamlit as st

from core.sizing.claims import counts
from ui.claims import desk, ledger
from ui.kit import predict
from ui.lesson import Lesson

FIRST = "B009"
_NEAR = 10
"""An estimate that far off is close: it is one in twenty-five of those that can hold."""


def numbers() -> dict[str, int]:
    """How many claims have each verdict, and the sums that the words name."""
    found = counts(ledger.judged().values())
    lost = found["stripped"]
    return {
        "lost": lost,
        "rest": sum(found.values()) - lost,
        "sound": found["right"] + found["right-with-rounding"],
        "right": found["right"],
        "rounded": found["right-with-rounding"],
        "wrong": found["wrong"],
        "inconsistent": found["inconsistent"],
        "unverifiable": found["unverifiable"],
    }


def verdict(said: int) -> str:
    """Which of the lesson's sections answers an estimate: "near", "high" or "low"."""
    off = said - numbers()["sound"]
    return "near" if abs(off) <= _NEAR else "high" if off > 0 else "low"


def draw(words: Lesson) -> None:
    """One slim panel; it can be skipped, and what was locked stays locked in this session."""
    values = numbers()
    asked = predict.Prediction(
        ask=words["predict"].format(**values),
        fields=(predict.Number("holds", words["predict-label"], most=values["rest"]),),
        key="claims.predict",
    )

    def reveal(given: predict.Said) -> None:
        said = int(given["holds"])
        answer = words[verdict(said)].format(said=said)
        with st.container(width="stretch"):
            st.markdown(f"{answer} {words['fact'].format(**values)}")
        predict.ways_on(
            asked,
            see=words["see"],
            on_see=lambda: desk.wish(FIRST),
            page=words.title,
            about=f"You said {said} of {values['rest']} claims hold.",
        )

    predict.draw(asked, reveal)
