"""What the review page shows, as data: the browser draws it and decides nothing."""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Any

from core.sizing.quick_reference import Entry, Group
from quiz import bank, deck
from quiz.deck import AGAIN, EASY, GOOD, HARD, NUMBER, Card
from quiz.items import RIGHT, Item
from quiz.progress import moment
from ui import derivation, quiz_view
from ui.lesson import Lesson
from ui.numbers import sheet
from ui.review import clock

WORDS = {AGAIN: "Again", HARD: "Hard", GOOD: "Good", EASY: "Easy"}


@cache
def numbers() -> dict[str, tuple[Group, Entry]]:
    """The quick reference by the id of its numbers."""
    return {entry.id: (group, entry) for group in sheet.groups() for entry in group.entries}


def question(
    words: Lesson,
    card: Card,
    item: Item,
    answer: str,
    *,
    of: str,
    at: str,
    retention: float,
    playing: bool,
    present: bool,
) -> dict[str, Any]:
    """A question, and after its answer what is to be said about it and the ratings. of: what tells
    this asking from every other. at: now."""
    data = quiz_view.single(item, answer, playing=playing, present=present)
    given = [] if not answer else [HARD, GOOD, EASY] if answer == RIGHT else []
    return {
        **data,
        "kind": "question",
        "id": of,
        "number": bank.topics()[item.topic].title,
        "lock": "Check it",
        **_ratings(words, card, [AGAIN, *given], at, retention),
        "ask": words["ask-right" if answer == RIGHT else "ask-wrong"],
        "proposed": GOOD if answer == RIGHT else AGAIN,
    }


def number(
    words: Lesson, card: Card, *, of: str, at: str, retention: float, present: bool
) -> dict[str, Any]:
    """A number to recall. Nobody checks it but the learner, so the answer is in it."""
    group, entry = numbers()[card.id.removeprefix(NUMBER)]
    derived = derivation.of_value(entry.derived) or {"expression": "", "calls": []}
    exact = derivation.number(entry.value, entry.base)
    said = bool(derived["calls"]) and derived["calls"][-1]["value"] == exact
    return {
        "kind": "number",
        "id": of,
        "present": present,
        "number": f"{group.title}, a number to know",
        "scope": f"per {'GPU' if entry.scope == 'gpu' else entry.scope}" if entry.scope else "",
        "question": entry.name,
        "about": group.about,
        "reveal": words["reveal"],
        "hint": words["hint"],
        "recall": {
            "shown": entry.shown,
            "exact": "" if said else exact,
            "note": entry.note,
            "expression": derived["expression"],
            "calls": [
                {"fn": call["function"], "source": call["source"], "steps": call["steps"]}
                for call in derived["calls"]
            ],
        },
        **_ratings(words, card, [AGAIN, HARD, GOOD, EASY], at, retention),
        "ask": words["ask-number"],
        "proposed": GOOD,
    }


def _ratings(
    words: Lesson, card: Card, ratings: Sequence[int], at: str, retention: float
) -> dict[str, Any]:
    back = deck.outcomes(card, at, retention)
    return {
        "rates": [
            {"rating": one, "word": WORDS[one], "when": f"in {clock.span(at, back[one])}"}
            for one in ratings
        ],
        "keys": words["keys"],
    }


@cache
def name(card: str) -> tuple[str, str]:
    """What a card is called in a list, and where it belongs. A question is named by one drawing."""
    if card.startswith(NUMBER):
        group, entry = numbers()[card.removeprefix(NUMBER)]
        return entry.name, group.title
    item = bank.make(card, 0)
    asked = item.question if len(item.question) <= 110 else f"{item.question[:108].rstrip()}…"
    return asked, bank.topics()[item.topic].title


def listing(words: Lesson, cards: Sequence[Card], at: str) -> dict[str, Any]:
    """All cards, those set aside, and the numbers that are in neither."""
    known = {card.id for card in cards if card.status != "removed"}
    aside = [card for card in cards if card.status != "on"]
    numbered = [f"{NUMBER}{one}" for one in numbers()]
    suspend, resume = {"act": "suspended", "word": "Suspend"}, {"act": "add", "word": "Ask again"}
    remove, put = {"act": "removed", "word": "Remove"}, {"act": "add", "word": "Add"}
    return {
        "filter": words["filter"],
        "lists": [
            {
                "id": "in",
                "title": "In the deck",
                "empty": words["list-empty"],
                "all": None,
                "acts": [suspend, remove],
                "rows": [
                    _row(card, _state(card, at))
                    for card in sorted(cards, key=lambda one: (one.plan.due, one.place, one.id))
                    if card.status == "on"
                ],
            },
            {
                "id": "add",
                "title": "Numbers to add",
                "empty": words["list-all"],
                "all": {"act": "add", "word": "Add all"},
                "acts": [put],
                "rows": [
                    {"id": one, "name": name(one)[0], "group": name(one)[1], "state": ""}
                    for one in numbered
                    if one not in known
                ],
            },
            {
                "id": "aside",
                "title": "Set aside",
                "empty": words["list-none"],
                "all": {"act": "add", "word": "Ask all again"},
                "acts": [resume],
                "rows": [
                    _row(card, card.status)
                    for card in aside
                    if card.status == "suspended" or not card.is_number
                ],
            },
        ],
    }


def _row(card: Card, state: str) -> dict[str, str]:
    called, group = name(card.id)
    return {"id": card.id, "name": called, "group": group, "state": state}


def _state(card: Card, at: str) -> str:
    if card.plan.due <= at:
        when = "due now"
    else:
        when = f"in {clock.span(at, card.plan.due)}"
    if not card.plan.reviews:
        return f"new, {when}"
    lapses = f", forgotten {card.plan.lapses}×" if card.plan.lapses else ""
    return f"{when}{lapses}"


def forecast(words: Lesson, cards: Sequence[Card], at: str, minutes: int) -> str:
    """The coming days as bars and as a table, HTML."""
    days, later = deck.forecast(cards, at, minutes)
    ready = len(deck.due(cards, at))
    most = max(*days, 1)
    today = (moment(at) + timedelta(minutes=minutes)).date()
    dates = [today + timedelta(days=i) for i in range(len(days))]
    named = ["today", *(f"{day:%a} {day.day} {day:%b}" for day in dates[1:])]
    bars = "".join(
        f'<i style="--v:{100 * count / most:.1f}%" title="{named[i]}: {count}"'
        f"{' class=on' if i == 0 else ''}></i>"
        for i, count in enumerate(days)
    )
    rows = "".join(
        f"<tr><th scope=row>{name}</th><td>{count}</td></tr>"
        for name, count in zip(named, days, strict=True)
        if count
    )
    beyond = f"<tr><th scope=row>later</th><td>{later}</td></tr>" if later else ""
    total = sum(days) + later
    says = words["forecast"].format(total=total, days=sum(days), today=days[0])
    ends = "".join(f"<span>{named[i]}</span>" for i in (0, 10, 20, len(days) - 1))
    return (
        f'<section class="kv-panel kv-forecast"><h2>{html.escape(words["forecast-title"])}</h2>'
        f'<p class="ready"><b>{ready}</b> due now</p>'
        f'<div class="bars" role="img" aria-label="{html.escape(says)}">{bars}</div>'
        f'<div class="ends" aria-hidden="true">{ends}</div>'
        f'<details class="kv-table"><summary>As a table</summary><div><table>'
        f"<thead><tr><th>Day</th><th>Cards</th></tr></thead><tbody>{rows}{beyond}</tbody></table>"
        f"</div></details></section>"
    )
