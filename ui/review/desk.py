"""The review page at work: which card is asked, and what becomes of an answer."""

from __future__ import annotations

import secrets
from typing import Any

import streamlit as st

from quiz import bank, deck
from quiz.deck import AGAIN, Card
from quiz.errors import QuizError
from quiz.items import RIGHT, Item
from quiz.progress import LEAST_RETENTION, MOST_RETENTION, Progress, now
from ui import player, quiz_view
from ui.components.deck_list import deck_list
from ui.components.review_card import review_card
from ui.kit import states, store
from ui.lesson import Lesson
from ui.review import clock, view

CARD, LIST = "review-card", "review-list"
_ID, _TURN, _SEED = "review.id", "review.turn", "review.seed"
_ANSWER, _PLAY, _SAID = "review.answer", "review.play", "review.said"
_AIM, _CHANGED = "review.aim", "review.changed"


def _cards() -> list[Card]:
    return deck.cards(store.progress() or Progress(), view.numbers())


def _take(card: Card) -> None:
    """Ask a card, with numbers of its own."""
    st.session_state[_ID], st.session_state[_TURN] = card.id, card.plan.turn
    st.session_state[_SEED] = secrets.randbelow(bank.MAX_SEED)
    st.session_state[_ANSWER], st.session_state[_PLAY] = "", False


def _current(cards: list[Card], at: str) -> Card | None:
    """The card that is being asked, or the next one. Another tab may have been faster."""
    state = st.session_state
    for card in cards:
        if (card.id, card.plan.turn, card.status) == (state.get(_ID), state.get(_TURN), "on"):
            return card
    ready = deck.due(cards, at)
    if ready:
        _take(ready[0])
        return ready[0]
    return None


def _of(card: Card) -> str:
    """What tells this asking of a card from every other."""
    return f"{card.id} {card.plan.turn} {st.session_state[_SEED]}"


def _item(card: Card) -> Item | None:
    return None if card.is_number else bank.make(card.id, st.session_state[_SEED])


def _sent(name: str) -> tuple[Card, dict[str, Any]] | None:
    """What the browser sent, if it is about the card that is being asked."""
    sent = getattr(st.session_state[CARD], name)
    if not isinstance(sent, dict):
        return None
    card = next((one for one in _cards() if one.id == st.session_state.get(_ID)), None)
    return (card, sent) if card is not None and sent.get("id") == _of(card) else None


def _answer() -> None:
    found = _sent("answer")
    item = _item(found[0]) if found else None
    if found is None or item is None or st.session_state[_ANSWER]:
        return
    try:
        st.session_state[_ANSWER] = item.keys[int(found[1]["option"])]
    except (KeyError, IndexError, TypeError, ValueError):
        return


def _rate() -> None:
    """The answer decides between again and good; of a right one the learner may say how hard."""
    found = _sent("rate")
    known = store.progress()
    if found is None or known is None:
        return
    card, rating = found[0], found[1].get("rating")
    answer = st.session_state[_ANSWER]
    if type(rating) is not int or not (card.is_number or answer):
        return
    if not card.is_number and answer != RIGHT:
        rating = AGAIN
    try:
        store.save(deck.review(known, card, rating, now(), secrets.token_hex(8)))
    except QuizError:
        return
    st.session_state[_ID] = None
    store.begin()


def _toggle() -> None:
    st.session_state[_PLAY] = not st.session_state.get(_PLAY, False)


def _undo() -> None:
    known = store.progress()
    last = deck.last_review(known) if known is not None else None
    if known is None or last is None:
        return
    store.save(deck.undo(known, now()))
    card = next((one for one in _cards() if one.id == last.card), None)
    if card is not None:
        _take(card)


def _act() -> None:
    """Cards added, suspended or taken out. What is no card of the course is left alone."""
    sent = st.session_state[LIST].act
    known = store.progress()
    if not isinstance(sent, dict) or known is None:
        return
    ours = {card.id for card in _cards()} | {f"{deck.NUMBER}{one}" for one in view.numbers()}
    asked = sent.get("ids")
    names = [one for one in asked if one in ours] if isinstance(asked, list) else []
    act, at = sent.get("act"), now()
    st.session_state[_SAID] = None
    try:
        if act == "add":
            known = deck.add(known, names, at)
        elif act in ("suspended", "removed"):
            for name in names:
                known = deck.set_status(known, name, act, at)
    except QuizError as exc:
        st.session_state[_SAID] = f"Nothing was changed: {exc}."
        return
    store.save(known)
    store.begin()
    st.session_state[_CHANGED] = True


def _aim() -> None:
    known = store.progress()
    if known is not None:
        store.save(deck.with_retention(known, st.session_state[_AIM] / 100, now()))


@st.fragment
def draw(words: Lesson, *, present: bool) -> None:
    """The card and, beside it, what comes up. A fragment: a rating changes this and what the
    browser keeps."""
    store.follow()
    at, minutes = now(), clock.minutes_ahead()
    cards = _cards()
    if present:
        _card(words, cards, at, minutes, present=True)
    else:
        left, right = st.columns([7, 3], gap="medium")
        with left:
            _card(words, cards, at, minutes, present=False)
        with right:
            st.html(view.forecast(words, cards, at, minutes))
            _controls(words)
    store.keep(redraw=True)


def _card(words: Lesson, cards: list[Card], at: str, minutes: int, *, present: bool) -> None:
    card = _current(cards, at)
    if card is None:
        _nothing(words, cards, at, minutes)
        return
    known, state = store.progress() or Progress(), st.session_state
    item, playing = _item(card), bool(state[_PLAY]) and bool(state[_ANSWER])
    rest: dict[str, Any] = {
        "of": _of(card),
        "at": at,
        "retention": known.deck.retention,
        "present": present,
    }
    if item is None:
        data = view.number(words, card, **rest)
    else:
        data = view.question(words, card, item, state[_ANSWER], playing=playing, **rest)
    review_card(data, key=CARD, on_answer=_answer, on_rate=_rate, on_play=_toggle)
    shown = quiz_view.run_of(item.proof) if item is not None and playing else None
    if shown is not None:
        player.show(
            shown.played,
            key="review-player",
            step=shown.step,
            block=shown.block,
            link=shown.address,
            present=present,
        )


def _nothing(words: Lesson, cards: list[Card], at: str, minutes: int) -> None:
    following = deck.next_due(cards, at)
    with st.container(key="kv-review-empty"):
        if cards and not any(card.status == "on" for card in cards):
            states.empty(words["aside-title"], words["aside"])
        elif following is None:
            states.empty(words["no-cards-title"], words["no-cards"])
        else:
            when = clock.local(following, minutes)
            title = words["later-title"].format(when=when)
            states.empty(title, words["later"].format(span=clock.span(at, following)))


def _controls(words: Lesson) -> None:
    known, state = store.progress() or Progress(), st.session_state
    last = deck.last_review(known)
    with st.container(key="kv-review-controls"):
        if last is not None:
            st.button(
                f"Undo “{view.WORDS[last.rating]}”",
                icon=":material/undo:",
                on_click=_undo,
                key="review.undo",
                help=words["undo"],
            )
        state[_AIM] = round(known.deck.retention * 100)
        st.slider(
            words["aim"],
            round(LEAST_RETENTION * 100),
            round(MOST_RETENTION * 100),
            step=1,
            format="%d %%",
            key=_AIM,
            on_change=_aim,
            help=words["aim-help"],
        )


@st.fragment
def lists(words: Lesson) -> None:
    """The cards there are. They go to the browser when they are asked for."""
    if st.session_state.pop(_CHANGED, False):
        st.rerun(scope="app")  # what is asked, and what the browser keeps
    box = st.expander(
        words["cards"], icon=":material/style:", key="review.cards", on_change="rerun"
    )
    if not box.open:
        return
    with box:
        if state := st.session_state.get(_SAID):
            states.notice(state)
        deck_list(view.listing(words, _cards(), now()), key=LIST, on_act=_act)
