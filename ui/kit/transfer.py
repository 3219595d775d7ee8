"""A transfer question: the idea of the page on a configuration that the reader has not met.

It is an item of the quiz's bank with fresh numbers. It counts for nothing and can be had again.
"""

from __future__ import annotations

import secrets

import streamlit as st

from quiz import bank
from ui import nav, player, quiz_view
from ui.components.quiz_card import quiz_card
from ui.kit import store


@st.fragment
def draw(template: str, *, key: str, present: bool = False) -> None:
    """template: an item of the bank that draws numbers, e.g. "paging/blocks"."""
    store.follow()
    state = st.session_state
    seed, answer, play = f"{key}.seed", f"{key}.answer", f"{key}.play"
    if seed not in state:
        state[seed] = secrets.randbelow(bank.MAX_SEED)
    item = bank.make(template, state[seed])
    card = f"{key}.card"

    def take() -> None:
        sent = state[card].answer
        try:
            state[answer] = item.keys[int(sent["option"])]
        except (KeyError, IndexError, TypeError, ValueError):
            return
        store.begin()

    def another() -> None:
        state[seed] = secrets.randbelow(bank.MAX_SEED)
        state[answer], state[play] = "", False

    def toggle() -> None:
        state[play] = not state.get(play, False)

    playing = bool(state.get(play)) and bool(state.get(answer))
    data = quiz_view.single(item, state.get(answer, ""), playing=playing, present=present)
    quiz_card(data, key=card, on_answer=take, on_next=another, on_again=another, on_play=toggle)
    shown = quiz_view.run_of(item.proof) if playing else None
    if shown is not None:
        player.show(
            shown.played,
            key=f"{key}.player",
            step=shown.step,
            block=shown.block,
            link=shown.address,
            present=present,
        )


def to_gate(lesson: str) -> None:
    """The way to the lesson's own four questions."""
    if "quiz" in nav.PLACES:
        st.page_link(
            nav.page("quiz"),
            label="Four questions about this page",
            icon=":material/checklist:",
            query_params={"lesson": lesson},
        )
