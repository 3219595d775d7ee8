"""The review deck over weeks, with a clock that the test moves."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiz import bank, deck
from quiz.deck import AGAIN, EASY, GOOD, HARD, Card
from quiz.errors import QuizError
from quiz.progress import MAX_CARDS, MAX_LOG, Progress, merge, moment, read, written
from tests.quiz.documents import progresses

START = "2026-11-30T12:00:00Z"
NUMBERS = ("ridge-h100-sxm5", "kv-llama-3-70b-bf16")
ADDED = tuple(f"{deck.NUMBER}{name}" for name in NUMBERS)
MASTERED = Progress(completed={"four-questions": START})


def _later(at: str, **by: float) -> str:
    return written(moment(at) + timedelta(**by))


def _card(progress: Progress, name: str) -> Card:
    return {card.id: card for card in deck.cards(progress, NUMBERS)}[name]


def _answer(progress: Progress, name: str, rating: int, at: str) -> Progress:
    review_id = f"{len(progress.deck.log):x}-{rating}-{at[5:10]}-{at[11:13]}{at[14:16]}"
    return deck.review(progress, _card(progress, name), rating, at, review_id)


def _days(progress: Progress, name: str) -> float:
    plan = progress.deck.plans[name]
    return (moment(plan.due) - moment(plan.last)).total_seconds() / 86_400


def test_what_was_mastered_is_due_and_topics_take_turns() -> None:
    assert deck.cards(Progress(), NUMBERS) == []
    found = deck.due(deck.cards(MASTERED, NUMBERS), START)
    expected = {name for topic in bank.FOUR for name in bank.topics()[topic].templates}
    assert {card.id for card in found} == expected
    assert [card.id.partition("/")[0] for card in found[:4]] == list(bank.FOUR)
    assert deck.due(deck.cards(MASTERED, NUMBERS), "2026-11-30T11:59:59Z") == []


@pytest.mark.parametrize("lesson", sorted({one.lesson for one in bank.topics().values()}))
def test_a_lesson_that_is_mastered_brings_its_own_questions(lesson: str) -> None:
    found = deck.cards(Progress(completed={lesson: START}), ())
    expected = [name for topic in bank.of_lesson(lesson) for name in topic.templates]
    assert sorted(card.id for card in found) == sorted(expected)


def test_two_lessons_with_one_topic_bring_it_once_since_the_first() -> None:
    lesson = bank.topics()["paging"].lesson
    both = Progress(completed={"four-questions": START, lesson: _later(START, days=3)})
    found = [card for card in deck.cards(both, ()) if card.id.startswith("paging/")]
    assert len(found) == len(bank.topics()["paging"].templates)
    assert {card.plan.due for card in found} == {START}


def test_intervals_grow_with_good_answers() -> None:
    progress, at, name = MASTERED, START, "paging/blocks"
    intervals = []
    for _ in range(6):
        progress = _answer(progress, name, GOOD, at)
        intervals.append(_days(progress, name))
        at = progress.deck.plans[name].due
    assert intervals == sorted(intervals) and len({*intervals}) == 6
    assert intervals[0] >= 1 and intervals[-1] > 60


def test_a_lapse_shrinks_the_interval_and_is_counted() -> None:
    progress, at, name = MASTERED, START, "paging/blocks"
    for _ in range(4):
        progress = _answer(progress, name, GOOD, at)
        at = progress.deck.plans[name].due
    before = progress.deck.plans[name]
    grown = _days(progress, name)
    progress = _answer(progress, name, AGAIN, at)
    lapsed = progress.deck.plans[name]
    assert (lapsed.state, lapsed.lapses) == ("relearning", 1)
    assert lapsed.stability is not None and before.stability is not None
    assert lapsed.stability < before.stability
    assert lapsed.due == _later(at, minutes=10)
    progress = _answer(progress, name, GOOD, lapsed.due)
    assert 1 <= _days(progress, name) < grown


def test_easier_ratings_come_back_later() -> None:
    progress = _answer(MASTERED, "paging/blocks", GOOD, START)
    for known in (MASTERED, progress):
        card = _card(known, "paging/blocks")
        out = deck.outcomes(card, _later(card.plan.due, days=1), 0.9)
        assert out[AGAIN] < out[HARD] < out[GOOD] < out[EASY]


def test_a_higher_aim_asks_sooner() -> None:
    def interval(retention: float) -> float:
        known = deck.with_retention(MASTERED, retention, START)
        known = _answer(known, "paging/blocks", GOOD, START)
        known = _answer(known, "paging/blocks", GOOD, known.deck.plans["paging/blocks"].due)
        return _days(known, "paging/blocks")

    assert interval(0.95) < interval(0.9) < interval(0.8)
    assert deck.with_retention(MASTERED, 5.0, START).deck.retention == 0.97


def test_the_same_answers_at_the_same_times_give_the_same_plan() -> None:
    def weeks() -> Progress:
        rng, at = Random(5), START
        known = deck.add(MASTERED, ADDED, START)
        for _ in range(60):
            for card in deck.due(deck.cards(known, NUMBERS), at)[:8]:
                known = _answer(known, card.id, rng.choice([AGAIN, GOOD, GOOD, EASY]), at)
            at = _later(at, hours=13)
        return known

    known = weeks()
    assert known == weeks()
    assert read(known.to_json()) == known
    assert len(known.deck.log) == MAX_LOG
    found = deck.cards(known, NUMBERS)
    assert all(card.plan.reviews for card in found)
    assert max(card.plan.stability or 0 for card in found) > 20


ANSWERS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(AGAIN, EASY), st.integers(0, 40)),
    min_size=1,
    max_size=12,
)


@given(ANSWERS)
def test_undo_restores_exactly_as_often_as_one_likes(answers: list[tuple[int, int, int]]) -> None:
    known, at, names = deck.add(MASTERED, ADDED, START), START, [*ADDED, "paging/blocks"]
    before = [known]
    for which, rating, days in answers:
        at = _later(at, days=days)
        known = _answer(known, names[which % 3], rating, at)
        before.append(known)
    for expected in reversed(before[:-1]):
        known = deck.undo(known, at)
        assert known.deck.log == expected.deck.log
        for name in names:
            plain = [replace(_card(one, name).plan, at=START, turn=0) for one in (known, expected)]
            assert plain[0] == plain[1]
    assert deck.undo(known, at) == known


def test_an_undone_review_does_not_come_back_from_another_tab() -> None:
    reviewed = _answer(MASTERED, "paging/blocks", GOOD, START)
    undone = deck.undo(reviewed, START)
    both = merge(undone, reviewed)
    assert _card(both, "paging/blocks").plan.state == "new"
    assert deck.last_review(both) is None
    later = _answer(reviewed, "paging/blocks", AGAIN, _later(START, days=2))
    assert _card(merge(undone, later), "paging/blocks").plan.reviews == 2


@given(ANSWERS, st.integers(-720, 840))
def test_the_forecast_sums_to_the_cards(answers: list[tuple[int, int, int]], minutes: int) -> None:
    known, at = deck.add(MASTERED, ADDED, START), START
    names = [*ADDED, "paging/blocks", "kv-size/per-token"]
    for which, rating, days in answers:
        at = _later(at, days=days)
        known = _answer(known, names[which % 4], rating, at)
    known = deck.set_status(known, "paging/blocks", "suspended", at)
    found = deck.cards(known, NUMBERS)
    days, later = deck.forecast(found, at, minutes)
    assert len(days) == deck.DAYS
    assert sum(days) + later == sum(card.status == "on" for card in found) == len(found) - 1
    assert days[0] >= len(deck.due(found, at))


def test_the_day_is_the_learner_s() -> None:
    known = deck.add(Progress(), ADDED[:1], "2026-12-01T02:00:00Z")
    found = deck.cards(known, NUMBERS)
    assert deck.forecast(found, START, 0)[0][1] == 1
    assert deck.forecast(found, START, -5 * 60)[0][0] == 1


def test_numbers_are_added_set_aside_and_taken_up_again_where_they_were() -> None:
    known = deck.add(Progress(), ADDED, START)
    assert [card.id for card in deck.due(deck.cards(known, NUMBERS), START)] == sorted(ADDED)
    known = _answer(known, ADDED[0], GOOD, START)
    plan = known.deck.plans[ADDED[0]]
    for status in ("suspended", "removed"):
        known = deck.set_status(known, ADDED[0], status, START)  # type: ignore[arg-type]
        assert _card(known, ADDED[0]).status == status
        assert ADDED[0] not in [c.id for c in deck.due(deck.cards(known, NUMBERS), plan.due)]
    known = deck.add(known, ADDED, START)
    assert _card(known, ADDED[0]).status == "on" and known.deck.plans[ADDED[0]] == plan


def test_a_question_taken_out_stays_out_though_its_lesson_is_mastered() -> None:
    known = deck.set_status(MASTERED, "paging/blocks", "removed", START)
    assert _card(known, "paging/blocks").status == "removed"
    assert _card(merge(known, MASTERED), "paging/blocks").status == "removed"


def test_nothing_due_says_when_something_is() -> None:
    known = _answer(deck.add(Progress(), ADDED[:1], START), ADDED[0], GOOD, START)
    found = deck.cards(known, NUMBERS)
    assert deck.due(found, START) == []
    assert deck.next_due(found, START) == known.deck.plans[ADDED[0]].due
    assert deck.next_due([], START) is None


def test_cards_of_another_version_are_kept_and_not_asked() -> None:
    known = deck.add(Progress(), ["number:no-longer-there", "gone/question"], START)
    assert deck.cards(known, NUMBERS) == []
    assert len(read(known.to_json()).deck.plans) == 2


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(QuizError, match="again, hard, good or easy"):
        deck.review(MASTERED, _card(MASTERED, "paging/blocks"), 5, START, "x")
    with pytest.raises(QuizError, match="full"):
        deck.add(Progress(), [f"number:n{i}" for i in range(MAX_CARDS + 1)], START)


@given(progresses, st.integers(AGAIN, EASY))
def test_any_deck_that_can_be_read_can_be_reviewed(progress: Progress, rating: int) -> None:
    at = "2026-12-23T12:00:00Z"  # after whatever it has thrown away
    for card in deck.cards(progress, ["kv-llama-3-70b-bf16"]):
        reviewed = deck.review(progress, card, rating, at, "0-new")
        assert reviewed.deck.plans[card.id].due > at
        assert read(reviewed.to_json()) == reviewed
        assert merge(reviewed, progress).deck.plans[card.id] == reviewed.deck.plans[card.id]
