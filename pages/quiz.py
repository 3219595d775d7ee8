"""The quiz: four questions, all right on fresh items, with the run that proves each answer."""

from random import SystemRandom

import streamlit as st

from quiz import gate
from quiz.errors import QuizError
from quiz.progress import now
from ui import lesson, player, quiz_view
from ui.components.quiz_card import quiz_card
from ui.kit import page, progress_menu, states, store

CARD = "quiz-card"
PLACE, PLAY, NOTICE = "quiz.place", "quiz.play", "quiz.notice"

words = lesson.load("quiz")
present = page.is_present()


def answer() -> None:
    """Take in the option that was locked. A stale or made-up one changes nothing."""
    sent, known = st.session_state[CARD].answer, store.progress()
    try:
        place, option = int(sent["place"]), int(sent["option"])
        key = gate.items(known.attempt)[place].keys[option]
        store.save(gate.answer(known, place, key, now()))
    except (QuizError, AttributeError, KeyError, IndexError, TypeError, ValueError):
        return
    st.session_state[PLACE] = place
    store.begin()


def go_on() -> None:
    st.session_state[PLACE], st.session_state[PLAY] = None, False


def again() -> None:
    store.save(gate.start(store.progress(), SystemRandom(), now()))
    st.session_state[NOTICE] = None
    go_on()


def play() -> None:
    st.session_state[PLAY] = not st.session_state.get(PLAY, False)


@st.fragment
def draw() -> None:
    """The question one stands at, or the result. A fragment: an answer changes this and what the
    browser keeps, and nothing else of the page but, the first time and at mastery, its mark."""
    store.follow()
    _card()
    store.keep(redraw=True)


def _card() -> None:
    known = store.progress()
    if known.attempt is None:
        again()
    try:
        made = gate.items(store.progress().attempt)
    except QuizError:
        again()
        st.session_state[NOTICE] = words["changed"]
        made = gate.items(store.progress().attempt)
    known, state = store.progress(), st.session_state
    place = state.get(PLACE)
    if place is None:
        place = gate.place(known.attempt)
    if state.get(NOTICE):
        states.notice(state[NOTICE])
    shown = None
    if place < len(made):
        playing = bool(state.get(PLAY)) and bool(known.attempt.asked[place].answer)
        shown = quiz_view.run_of(made[place].proof) if playing else None
        data = quiz_view.question(
            words, known.attempt, made, place, playing=playing, present=present
        )
    else:
        data = quiz_view.result(
            words, known, known.attempt, made, lesson=gate.LESSON, present=present
        )
    quiz_card(data, key=CARD, on_answer=answer, on_next=go_on, on_again=again, on_play=play)
    if shown is not None:
        player.show(
            shown.played,
            key="quiz-player",
            step=shown.step,
            block=shown.block,
            link=shown.address,
            present=present,
        )


if store.progress() is None:
    states.skeleton("card", "Your progress is being read from this browser.")
    store.keep(redraw=True)
else:
    draw()
    if present:
        page.bar()
    else:
        progress_menu.draw(words)
