"""The prediction of the page: how many blocks hit after an edit early or late in the prompt."""

from __future__ import annotations

import streamlit as st

from core.workloads_prefix import EDITS
from ui.kit import predict
from ui.kit.predict import Number, Prediction, Said
from ui.lesson import Lesson
from ui.prefix import pairs, state

KEY = "px.predict"
_SEE = f"{KEY}.go"


def answers() -> dict[str, int]:
    """What the engine found, counted in its run: blocks hit for B, C and D; and what the sentences
    name beside."""
    pair = pairs.fixed("One prompt, edited early and late", "edited", "lru")
    hits = {one.request: one.hit_blocks for one in pair.lookups}
    first = pair.lookups[-1]
    size = pair.header["scenario"]["engine"]["block_size"]
    return {
        "early": hits["B"],
        "late": hits["C"],
        "same": hits["D"],
        "tokens": first.num_tokens,
        "block": size,
        "blocks": first.num_tokens // size,
        "at_early": EDITS["B"] + 1,
        "at_late": EDITS["C"] + 1,
        "early_block": EDITS["B"] // size + 1,
        "late_block": EDITS["C"] // size + 1,
    }


def feedback(found: dict[str, int], early: int, late: int) -> str:
    """The section of the lesson that answers: the misconception that the numbers show, if any."""
    blocks = found["blocks"]
    if (early, late) == (found["early"], found["late"]):
        return "right"
    if early >= blocks - 2:
        return "wrong-hole"
    if early == late == 0:
        return "wrong-all"
    if late == found["late"] + 1 or early == found["early"] + 1:
        return "wrong-partial"
    if early > blocks or late > blocks:
        return "wrong-tokens"
    return "wrong"


@st.fragment
def draw(words: Lesson) -> None:
    """One slim panel. A fragment: what reaches further draws the whole page."""
    if st.session_state.pop(_SEE, False):
        st.rerun(scope="app")
    found = answers()
    first = Prediction(
        words["predict"].format(**found),
        (Number("early", "Early edit"), Number("late", "Late edit")),
        key=KEY,
    )
    again = Prediction(
        words["predict-again"].format(**found), (Number("same", "Unchanged"),), KEY, "again"
    )

    def reveal(said: Said) -> None:
        early, late = int(said["early"]), int(said["late"])
        about = f"You said {early} and {late}."
        with st.container(width="stretch"):
            answer = words[feedback(found, early, late)].format(**found)
            st.markdown(f"**{about}** {answer} {words['fact'].format(**found)}")
            predict.again(again, lambda said: _again(words, found, int(said["same"])))
        predict.ways_on(
            first, see="See it in the engine", on_see=_see, page=words.title, about=about
        )

    predict.draw(first, reveal)


def _again(words: Lesson, found: dict[str, int], same: int) -> str:
    answer = words["right" if same == found["same"] else "wrong-same"].format(**found)
    return f"**You said {same}.** {answer} {words['fact-again'].format(**found)}"


def _see() -> None:
    state.change(study="watch", work="edited", step=4)
    st.session_state[_SEE] = True
