"""The gate: fresh items, the first answer counts, four right complete the lesson."""

from __future__ import annotations

from random import Random

import pytest

from quiz import bank, gate
from quiz.errors import QuizError
from quiz.items import RIGHT
from quiz.progress import Attempt, Progress

AT = "2026-11-30T12:00:00Z"
LATER = "2026-12-01T12:00:00Z"


def _answer_all(progress: Progress, *, wrong: int | None = None) -> Progress:
    assert progress.attempt is not None
    for index, item in enumerate(gate.items(progress.attempt)):
        key = next(k for k in item.keys if k != RIGHT) if index == wrong else RIGHT
        progress = gate.answer(progress, index, key, LATER)
    return progress


def _began(seed: int = 0) -> Progress:
    return gate.start(Progress(), Random(seed), AT)


def test_an_attempt_asks_one_question_of_each_topic_in_order() -> None:
    attempt = _began().attempt
    assert attempt is not None
    assert [item.topic for item in gate.items(attempt)] == list(bank.topics())
    assert gate.place(attempt) == 0


def test_the_first_attempt_asks_the_four_questions_of_the_course() -> None:
    attempt = _began().attempt
    assert attempt is not None
    first = ["phases/bound", "kv-size/per-token", "paging/what", "batching/why"]
    assert [one.template for one in attempt.asked] == first


def test_four_right_answers_complete_the_lesson_and_three_do_not() -> None:
    assert _answer_all(_began()).completed == {gate.LESSON: LATER}
    for wrong in range(4):
        done = _answer_all(_began(), wrong=wrong)
        assert done.completed == {}
        assert done.attempt is not None and done.attempt.done and done.attempt.right == 3


def test_the_first_answer_counts() -> None:
    progress = _began()
    assert progress.attempt is not None
    wrong = next(k for k in gate.items(progress.attempt)[0].keys if k != RIGHT)
    once = gate.answer(progress, 0, wrong, AT)
    assert gate.answer(once, 0, RIGHT, AT) == once


def test_completed_stays_completed_and_keeps_its_day() -> None:
    done = _answer_all(_began())
    again = gate.start(done, Random(1), LATER)
    assert again.completed == {gate.LESSON: LATER}
    assert _answer_all(again, wrong=2).completed == {gate.LESSON: LATER}


def test_no_item_comes_twice_in_forty_attempts() -> None:
    progress, seen = Progress(), set()
    for number in range(40):
        progress = gate.start(progress, Random(number), AT)
        assert progress.attempt is not None
        for one in progress.attempt.asked:
            assert one.sign not in seen, (number, one)
            seen.add(one.sign)
        progress = _answer_all(progress, wrong=number % 4)


def test_every_question_is_asked_in_turn() -> None:
    progress, asked = Progress(), set()
    for number in range(max(len(topic.templates) for topic in bank.topics().values())):
        progress = gate.start(progress, Random(number), AT)
        assert progress.attempt is not None
        asked |= {one.template for one in progress.attempt.asked}
        progress = _answer_all(progress)
    every = {name for topic in bank.topics().values() for name in topic.templates}
    assert asked == every


def test_an_attempt_that_nobody_answered_leaves_no_trace() -> None:
    again = gate.start(_began(), Random(1), LATER)
    assert again.past == ()


@pytest.mark.parametrize(("index", "key"), [(4, RIGHT), (-1, RIGHT), (0, "nobody"), (0, "")])
def test_what_is_not_there_cannot_be_answered(index: int, key: str) -> None:
    with pytest.raises(QuizError):
        gate.answer(_began(), index, key, AT)


def test_an_attempt_of_another_bank_does_not_go_on() -> None:
    attempt = _began().attempt
    assert attempt is not None
    from dataclasses import replace

    other = replace(attempt.asked[1], sign="kv-size/per-token something else")
    for asked in (
        (attempt.asked[0], other, *attempt.asked[2:]),
        attempt.asked[:3],
        (replace(attempt.asked[0], answer="gone"), *attempt.asked[1:]),
        (replace(attempt.asked[0], template="phases/gone"), *attempt.asked[1:]),
    ):
        with pytest.raises(QuizError):
            gate.items(Attempt(attempt.id, attempt.at, tuple(asked)))
