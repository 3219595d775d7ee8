"""The review deck: what was mastered comes back before it is forgotten.

The schedule is FSRS, from the package `fsrs`, with its default parameters, one short first interval
and no fuzz: the same answers at the same times always give the same plan. Nothing here reads a
clock; the time is given, as text of the progress document.

A card is a template of the bank, "paging/blocks", asked with fresh numbers each time, or a number
of the quick reference, "number:ridge-h100-sxm5". Templates are in the deck as soon as their lesson
is mastered; numbers are added by hand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache

from fsrs import Card as FsrsCard
from fsrs import Rating, Scheduler
from fsrs import State as FsrsState

from quiz import bank
from quiz.errors import QuizError
from quiz.progress import (
    FOUR_QUESTIONS,
    LEAST_RETENTION,
    MAX_CARDS,
    MAX_LOG,
    MOST_RETENTION,
    Deck,
    Plan,
    Progress,
    Review,
    Standing,
    State,
    Status,
    moment,
    written,
)

AGAIN, HARD, GOOD, EASY = 1, 2, 3, 4
NUMBER = "number:"
FIRST_STEP = timedelta(minutes=10)
LONGEST_DAYS = 3650
DAYS = 30
_LATEST = "2299-12-31T23:59:59Z"

_STATES: dict[State, FsrsState] = {
    "new": FsrsState.Learning,
    "learning": FsrsState.Learning,
    "review": FsrsState.Review,
    "relearning": FsrsState.Relearning,
}
_NAMES: dict[FsrsState, State] = {
    FsrsState.Learning: "learning",
    FsrsState.Review: "review",
    FsrsState.Relearning: "relearning",
}


@dataclass(frozen=True, slots=True)
class Card:
    """A card as it stands. place: its rank among cards that are due at the same time."""

    id: str
    plan: Plan
    status: Status
    place: tuple[int, int] = (0, 0)

    @property
    def is_number(self) -> bool:
        return self.id.startswith(NUMBER)


def cards(progress: Progress, numbers: Collection[str]) -> list[Card]:
    """Every card that this version of the course has. numbers: ids of the quick reference."""
    deck = progress.deck
    mastered = _mastered(progress)
    places = _places()
    out = []
    for name in dict.fromkeys((*mastered, *deck.plans, *deck.standing)):
        if name not in places and name.removeprefix(NUMBER) not in numbers:
            continue  # of another version: it is kept, and waits there
        plan, standing = deck.plans.get(name), deck.standing.get(name)
        if plan is None:
            at = mastered.get(name) or (standing.at if standing else "")
            plan = Plan(at, at)
        out.append(Card(name, plan, standing.status if standing else "on", places.get(name, _LAST)))
    return out


_LAST = (10**6, 0)


def _places() -> dict[str, tuple[int, int]]:
    """Questions of one topic do not follow each other: the first of each, then the second."""
    return {
        name: (index, row)
        for row, topic in enumerate(bank.topics().values())
        for index, name in enumerate(topic.templates)
    }


def _mastered(progress: Progress) -> dict[str, str]:
    """The templates that mastery has brought in → since when."""
    out: dict[str, str] = {}
    for lesson, at in sorted(progress.completed.items(), key=lambda item: (item[1], item[0])):
        for topic in bank.topics().values():
            if topic.lesson == lesson or (lesson == FOUR_QUESTIONS and topic.id in bank.FOUR):
                for name in topic.templates:
                    out.setdefault(name, at)
    return out


def due(found: Iterable[Card], at: str) -> list[Card]:
    """The cards to be asked now, the longest overdue first."""
    ready = [card for card in found if card.status == "on" and card.plan.due <= at]
    return sorted(ready, key=lambda card: (card.plan.due, card.place, card.id))


def next_due(found: Iterable[Card], at: str) -> str | None:
    """When the next card comes up that is not due yet."""
    later = [card.plan.due for card in found if card.status == "on" and card.plan.due > at]
    return min(later, default=None)


def forecast(found: Iterable[Card], at: str, minutes: int = 0) -> tuple[list[int], int]:
    """How many cards come up on each of the coming days, the first with what is due already, and
    how many later. minutes: how far the learner's clock is ahead of the document's."""
    today = (moment(at) + timedelta(minutes=minutes)).date()
    days, later = [0] * DAYS, 0
    for card in found:
        if card.status != "on":
            continue
        day = (moment(card.plan.due) + timedelta(minutes=minutes)).date()
        ahead = max(0, (day - today).days)
        if ahead < DAYS:
            days[ahead] += 1
        else:
            later += 1
    return days, later


def review(progress: Progress, card: Card, rating: int, at: str, review_id: str) -> Progress:
    """An answer to a card. rating: AGAIN … EASY. review_id: unlike any other review's. Raises
    QuizError for another rating."""
    if rating not in (AGAIN, HARD, GOOD, EASY):
        raise QuizError("a review is again, hard, good or easy")
    before = card.plan
    at = max(at, before.at)
    plan = replace(
        _rated(before, rating, at, progress.deck.retention),
        at=at,
        turn=before.turn + 1,
        by=review_id,
    )
    log = (*progress.deck.log, Review(review_id, card.id, at, rating, before))[-MAX_LOG:]
    return _changed(progress, replace(_with_plan(progress.deck, card.id, plan), log=log))


def outcomes(card: Card, at: str, retention: float) -> dict[int, str]:
    """When each rating would bring the card back."""
    return {
        rating: _rated(card.plan, rating, max(at, card.plan.at), retention).due
        for rating in (AGAIN, HARD, GOOD, EASY)
    }


def _rated(plan: Plan, rating: int, at: str, retention: float) -> Plan:
    known = FsrsCard(
        card_id=1,
        state=_STATES[plan.state],
        step=plan.step,
        stability=plan.stability,
        difficulty=plan.difficulty,
        due=moment(plan.due),
        last_review=moment(plan.last) if plan.last else None,
    )
    card, _ = _scheduler(retention).review_card(known, Rating(rating), moment(at))
    return replace(
        plan,
        due=min(written(card.due), _LATEST),
        state=_NAMES[card.state],
        step=card.step,
        stability=card.stability,
        difficulty=card.difficulty,
        last=at,
        reviews=plan.reviews + 1,
        lapses=plan.lapses + (rating == AGAIN and plan.state == "review"),
    )


@lru_cache(maxsize=32)
def _scheduler(retention: float) -> Scheduler:
    return Scheduler(
        desired_retention=retention,
        learning_steps=(FIRST_STEP,),
        relearning_steps=(FIRST_STEP,),
        maximum_interval=LONGEST_DAYS,
        enable_fuzzing=False,
    )


def last_review(progress: Progress) -> Review | None:
    """The review that can be undone: the latest one whose plan still stands."""
    plans = progress.deck.plans
    for one in reversed(progress.deck.log):
        if one.card in plans and plans[one.card].by == one.id:
            return one
    return None


def undo(progress: Progress, at: str) -> Progress:
    """Without the last review: the card's plan is what it was before, to the digit."""
    last = last_review(progress)
    if last is None:
        return progress
    now = progress.deck.plans[last.card]
    plan = replace(last.before, at=max(at, now.at), turn=now.turn + 1)
    log = tuple(one for one in progress.deck.log if one.id != last.id)
    return replace(progress, deck=replace(_with_plan(progress.deck, last.card, plan), log=log))


def add(progress: Progress, names: Iterable[str], at: str) -> Progress:
    """Have cards asked from now on: numbers of the quick reference, or what was set aside. A card
    that was here before goes on where it was. Raises QuizError when the deck is full."""
    changed = progress
    for name in names:
        deck = changed.deck
        if name not in deck.plans:
            deck = _with_plan(deck, name, Plan(at, at))
        changed = _changed(changed, deck)
        if name in deck.standing:
            changed = set_status(changed, name, "on", at)
    return changed


def set_status(progress: Progress, name: str, status: Status, at: str) -> Progress:
    """Suspend a card, take it out, or have it asked again."""
    deck = progress.deck
    before = deck.standing.get(name, Standing("on", "", -1))
    standing = Standing(status, max(at, before.at), before.turn + 1)
    return _changed(progress, replace(deck, standing={**deck.standing, name: standing}))


def with_retention(progress: Progress, retention: float, at: str) -> Progress:
    """Aim for another chance of recall, in all reviews from now on."""
    kept = min(max(retention, LEAST_RETENTION), MOST_RETENTION)
    deck = progress.deck
    later = max(at, deck.retention_at)
    return replace(progress, deck=replace(deck, retention=kept, retention_at=later))


def _with_plan(deck: Deck, name: str, plan: Plan) -> Deck:
    return replace(deck, plans={**deck.plans, name: plan})


def _changed(progress: Progress, deck: Deck) -> Progress:
    if max(len(deck.plans), len(deck.standing)) > MAX_CARDS:
        raise QuizError(f"the deck holds {MAX_CARDS} cards and is full")
    return replace(progress, deck=deck)
