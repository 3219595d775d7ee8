"""The prediction of the block pool page: commit, lock, then see what the engine did."""

from __future__ import annotations

import streamlit as st

from ui import catalogue, choice, runs
from ui.lesson import Lesson
from ui.prediction import Packing, feedback, from_run

SCENARIO = "thirty-three"
AGAIN = Packing(33, 16)
_BLOCKS, _WASTE, _WASTE16 = "predict.blocks", "predict.waste", "predict.waste16"
_LOCKED = "predict.locked"
_AGAIN = "predict.again"
_CLOSED = "predict.closed"


def _lock() -> None:
    state = st.session_state
    if state.get(_BLOCKS) is not None and state.get(_WASTE) is not None:
        state[_LOCKED] = (int(state[_BLOCKS]), int(state[_WASTE]))


def _lock_again() -> None:
    state = st.session_state
    if state.get(_WASTE16) is not None:
        state[_AGAIN] = int(state[_WASTE16])


def _close() -> None:
    st.session_state[_CLOSED] = True


def _number(label: str, key: str) -> None:
    st.number_input(
        label,
        placeholder=label.lower(),
        label_visibility="collapsed",
        min_value=0,
        max_value=999,
        value=None,
        step=1,
        key=key,
        width=128,
    )


def _row() -> st.delta_generator.DeltaGenerator:
    return st.container(horizontal=True, vertical_alignment="center")


def draw(words: Lesson) -> None:
    """One slim panel; it can be skipped, and what was locked stays locked in this session."""
    state = st.session_state
    if state.get(_CLOSED):
        return
    with st.container(key="kv-predict"), _row():
        if _LOCKED in state:
            _reveal(words)
        else:
            st.markdown(f"**Predict first.** {words['predict']}", width="stretch")
            _number("Blocks", _BLOCKS)
            _number("Empty slots", _WASTE)
            st.button("Lock it in", type="primary", on_click=_lock, key="predict.lock")
            st.button("Skip", type="tertiary", on_click=_close, key="predict.skip")


def _reveal(words: Lesson) -> None:
    blocks, waste = st.session_state[_LOCKED]
    # The answer is counted in a run of the engine, made now.
    packing = from_run(runs.simulate(catalogue.entries()[SCENARIO].text).data())
    said = words[feedback(packing, blocks, waste)].format(**packing.values())
    with st.container(width="stretch"):
        st.markdown(
            f"**You said {blocks} blocks, {waste} empty slots.** {said} "
            + words["fact"].format(**packing.values())
        )
        _again(words)
    st.button(
        "See it in the engine",
        icon=":material/play_arrow:",
        on_click=lambda: choice.choose(f"scenario:{SCENARIO}"),
        key="predict.see",
    )
    st.button("Close", type="tertiary", on_click=_close, key="predict.close")


def _again(words: Lesson) -> None:
    state = st.session_state
    if _AGAIN not in state:
        with _row():
            st.markdown(words["predict-again"], width="content")
            _number("Empty slots", _WASTE16)
            st.button("Lock it in", on_click=_lock_again, key="predict.lock16")
        return
    values = AGAIN.values()
    said = words[feedback(AGAIN, None, state[_AGAIN])].format(**values)
    fact = f"{words['fact']} {words['fact-again']}".format(**values)
    st.markdown(f"{words['predict-again']} **You said {state[_AGAIN]}.** {said} {fact}")
