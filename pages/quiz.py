"""The quiz: four questions, all right on fresh items, with the run that proves each answer.

Of the four topics that everybody is asked, or of one lesson: `?lesson=batching`.
"""

from random import SystemRandom

import streamlit as st

from quiz import gate
from quiz.errors import QuizError
from quiz.progress import now
from ui import lesson, player, quiz_gate, quiz_view
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
        here = quiz_gate.here()
        key = gate.items(gate.current(known, here))[place].keys[option]
        store.save(gate.answer(known, place, key, now(), here))
    except (QuizError, AttributeError, KeyError, IndexError, TypeError, ValueError):
        return
    st.session_state[PLACE] = place
    store.begin()


def go_on() -> None:
    st.session_state[PLACE], st.session_state[PLAY] = None, False


def again() -> None:
    store.save(gate.start(store.progress(), SystemRandom(), now(), quiz_gate.here()))
    leave()


def leave() -> None:
    """Another gate was chosen."""
    st.session_state[NOTICE] = None
    go_on()


def play() -> None:
    st.session_state[PLAY] = not st.session_state.get(PLAY, False)


@st.fragment
def draw() -> None:
    """The gates, and of one the question at which one stands, or the result. A fragment: an answer
    changes this and what the browser keeps, and nothing else of the page but, the first time and at
    mastery, its mark."""
    store.follow()
    quiz_gate.write()
    if st.session_state.get(quiz_gate.NOTICE):
        st.warning(st.session_state[quiz_gate.NOTICE], icon=":material/link_off:")
    if not present:
        quiz_gate.select(words, leave)
    _card()
    if present:  # on a projector the picture comes first
        quiz_gate.select(words, leave)
    store.keep(redraw=True)


def _card() -> None:
    here = quiz_gate.here()
    if gate.current(store.progress(), here) is None:
        again()
    try:
        made = gate.items(gate.current(store.progress(), here))
    except QuizError:
        again()
        st.session_state[NOTICE] = words["changed"]
        made = gate.items(gate.current(store.progress(), here))
    known, state = store.progress(), st.session_state
    attempt = gate.current(known, here)
    place = state.get(PLACE)
    if place is None:
        place = gate.place(attempt)
    if state.get(NOTICE):
        states.notice(state[NOTICE])
    shown = None
    if place < len(made):
        playing = bool(state.get(PLAY)) and bool(attempt.asked[place].answer)
        shown = quiz_view.run_of(made[place].proof) if playing else None
        data = quiz_view.question(words, attempt, made, place, playing=playing, present=present)
    else:
        data = quiz_view.result(words, known, attempt, made, present=present)
    quiz_card(data, key=CARD, on_answer=answer, on_next=go_on, on_again=again, on_play=play)
    if place >= len(made) and not present:
        quiz_gate.onward(words)
    if shown is not None:
        player.show(
            shown.played,
            key="quiz-player",
            step=shown.step,
            block=shown.block,
            link=shown.address,
            present=present,
        )


if quiz_gate.start():
    leave()

if store.progress() is None:
    states.skeleton("card", "Your progress is being read from this browser.")
    store.keep(redraw=True)
else:
    draw()
    if present:
        page.bar()
    else:
        progress_menu.draw(words)
