"""The review page without a browser: what it asks, keeps back, and says is coming."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from quiz import bank, deck
from quiz.items import RIGHT
from quiz.progress import Plan, Progress, moment, now, written
from tests.app.conftest import Open
from ui import lesson
from ui.review import clock, view

AT = "2026-11-20T12:00:00Z"
RIDGE = "number:ridge-h100-sxm5"
WORDS = lesson.load("review")
REST = {"of": "x", "at": AT, "retention": 0.9, "present": False}


def _html(at: Any) -> str:
    return "\n".join(element.proto.body for element in at.get("html"))


def _with(open_page: Open, known: Progress) -> Any:
    at = open_page("review")
    at.session_state["kv.progress"] = known
    return at.run()


def _mastered() -> Progress:
    return Progress(completed={"four-questions": AT})


def test_before_the_browser_has_answered_there_is_an_outline(open_page: Open) -> None:
    at = open_page("review")
    assert not at.exception
    assert "kv-skeleton" in _html(at)


def test_without_cards_it_says_how_they_come(open_page: Open) -> None:
    at = _with(open_page, Progress())
    assert not at.exception
    assert "No cards yet." in _html(at) and "complete a lesson in the quiz" in _html(at)


def test_with_nothing_due_it_says_until_when(open_page: Open) -> None:
    later = written(moment(now()) + timedelta(days=3, hours=1))
    known = deck.add(Progress(), [RIDGE], AT)
    plan = replace(known.deck.plans[RIDGE], due=later)
    known = replace(known, deck=replace(known.deck, plans={RIDGE: plan}))
    at = _with(open_page, known)
    assert not at.exception
    assert f"Nothing is due until {clock.local(later, 0)}." in _html(at)
    assert "in 3 days" in _html(at)


def test_what_was_mastered_is_asked_and_counted(open_page: Open) -> None:
    at = _with(open_page, _mastered())
    assert not at.exception
    count = sum(len(bank.topics()[name].templates) for name in bank.FOUR)
    assert f"<b>{count}</b> due now" in _html(at)
    assert at.session_state["review.id"] in bank.topics()["phases"].templates


def test_the_last_rating_can_be_taken_back(open_page: Open) -> None:
    known = deck.add(Progress(), [RIDGE], AT)
    (card,) = deck.cards(known, view.numbers())
    at = _with(open_page, deck.review(known, card, deck.GOOD, AT, "r1"))
    at.button(key="review.undo").click().run()
    assert not at.exception
    plan = at.session_state["kv.progress"].deck.plans[RIDGE]
    assert replace(plan, at=AT, turn=0) == Plan(AT, AT)
    assert at.session_state["review.id"] == RIDGE


def test_the_aim_is_kept(open_page: Open) -> None:
    at = _with(open_page, _mastered())
    at.slider(key="review.aim").set_value(80).run()
    assert not at.exception
    assert at.session_state["kv.progress"].deck.retention == 0.8


def test_present_mode_is_the_card_alone(open_page: Open) -> None:
    at = open_page("review", present="1")
    at.session_state["kv.progress"] = _mastered()
    at.run()
    assert not at.exception
    assert not at.slider and "due now" not in _html(at)


TEMPLATES = [name for topic in bank.topics().values() for name in topic.templates]


@pytest.mark.parametrize("template", TEMPLATES[::5])
def test_the_right_answer_is_not_in_the_page_before_an_answer(template: str) -> None:
    card, item = deck.Card(template, Plan(AT, AT), "on"), bank.make(template, 7)
    data = view.question(WORDS, card, item, "", playing=False, **REST)
    sent = json.dumps(data, ensure_ascii=False)
    for option in item.options:
        assert option.fact not in sent and option.says not in sent
    assert [one["rating"] for one in data["rates"]] == [1]


def test_the_answer_decides_what_can_be_said_of_it() -> None:
    template = "kv-size/per-token"
    card, item = deck.Card(template, Plan(AT, AT), "on"), bank.make(template, 7)
    wrong = next(key for key in item.keys if key != RIGHT)
    said = {
        key: view.question(WORDS, card, item, key, playing=False, **REST) for key in (RIGHT, wrong)
    }
    assert [one["word"] for one in said[RIGHT]["rates"]] == ["Again", "Hard", "Good", "Easy"]
    assert said[RIGHT]["proposed"] == deck.GOOD
    assert [one["word"] for one in said[wrong]["rates"]] == ["Again"]
    assert said[wrong]["proposed"] == deck.AGAIN


def test_every_number_of_the_quick_reference_is_a_card_with_its_formula() -> None:
    for name, (group, entry) in view.numbers().items():
        card = deck.Card(f"number:{name}", Plan(AT, AT), "on")
        data = view.number(WORDS, card, **REST)
        assert data["question"] == entry.name and data["about"] == group.about
        assert data["recall"]["shown"] == entry.shown
        assert data["recall"]["expression"] or data["recall"]["calls"]
        json.dumps(data)


def test_the_lists_hold_every_card_once() -> None:
    known = deck.add(_mastered(), [RIDGE], AT)
    known = deck.set_status(known, "paging/blocks", "suspended", AT)
    known = deck.set_status(known, "kv-size/per-token", "removed", AT)
    cards = deck.cards(known, view.numbers())
    lists = {one["id"]: one for one in view.listing(WORDS, cards, AT)["lists"]}
    rows = {name: [row["id"] for row in one["rows"]] for name, one in lists.items()}
    assert RIDGE in rows["in"] and RIDGE not in rows["add"]
    assert len(rows["add"]) == len(view.numbers()) - 1
    assert sorted(rows["aside"]) == ["kv-size/per-token", "paging/blocks"]
    assert not {*rows["in"]} & {*rows["aside"]}
    known = deck.set_status(known, RIDGE, "removed", AT)
    lists = {
        one["id"]: one
        for one in view.listing(WORDS, deck.cards(known, view.numbers()), AT)["lists"]
    }
    assert RIDGE in [row["id"] for row in lists["add"]["rows"]]


def test_the_forecast_s_table_sums_to_the_cards() -> None:
    import re

    known = deck.add(_mastered(), [RIDGE], AT)
    for name, rating in (("paging/blocks", 4), (RIDGE, 3), ("kv-size/per-token", 1)):
        card = {one.id: one for one in deck.cards(known, view.numbers())}[name]
        known = deck.review(known, card, rating, AT, f"r{rating}")
    cards = deck.cards(known, view.numbers())
    drawn = view.forecast(WORDS, cards, AT, 0)
    assert sum(map(int, re.findall(r"<td>(\d+)</td>", drawn))) == len(cards)
    assert drawn.count("<i style=") == deck.DAYS


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (30, "1 min"),
        (600, "10 min"),
        (5400, "2 h"),
        (86_400, "1 day"),
        (86_400 * 8, "8 days"),
        (86_400 * 76, "2.5 months"),
        (86_400 * 730, "2 years"),
    ],
)
def test_a_span_is_said_in_one_unit(seconds: int, said: str) -> None:
    assert clock.span(AT, written(moment(AT) + timedelta(seconds=seconds))) == said


def test_times_are_the_learner_s() -> None:
    assert clock.local("2026-12-01T23:30:00Z", 60) == "Wed 2 Dec, 00:30"


def test_other_pages_wait_for_no_schedule(root: Path) -> None:
    """What every page loads does not load the package that plans reviews."""
    code = (
        "import sys, ui.frame, ui.nav, ui.warm, ui.kit.page, ui.kit.progress_menu, ui.quiz_view;"
        "sys.exit('fsrs' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
