"""The gate: fresh items, the first answer counts, four right complete the lesson."""

from __future__ import annotations

from random import Random

import pytest

from quiz import bank, gate
from quiz.errors import QuizError
from quiz.items import RIGHT
from quiz.progress import Attempt, Progress, merge

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
    assert [item.topic for item in gate.items(attempt)] == list(bank.FOUR)
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
    four = [bank.topics()[name] for name in bank.FOUR]
    for number in range(max(len(topic.templates) for topic in four)):
        progress = gate.start(progress, Random(number), AT)
        assert progress.attempt is not None
        asked |= {one.template for one in progress.attempt.asked}
        progress = _answer_all(progress)
    assert asked == {name for topic in four for name in topic.templates}


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


LESSONS = gate.lessons()[1:]


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_is_a_gate_of_its_own_topics(lesson: str) -> None:
    progress = gate.start(Progress(), Random(0), AT, lesson)
    attempt = gate.current(progress, lesson)
    assert attempt is not None and attempt.gate == lesson
    made = gate.items(attempt)
    assert {bank.topics()[item.topic].lesson for item in made} == {lesson}
    templates = sum(len(topic.templates) for topic in bank.of_lesson(lesson))
    assert len(made) == 4
    assert len({item.template for item in made}) == min(4, templates)
    for index in range(4):
        assert progress.completed == {}
        progress = gate.answer(progress, index, RIGHT, LATER, lesson)
    assert progress.completed == {lesson: LATER}


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_asks_nothing_twice_in_eight_attempts(lesson: str) -> None:
    progress, seen = Progress(), set()
    for number in range(8):
        progress = gate.start(progress, Random(number), AT, lesson)
        assert progress.attempt is not None
        for one in progress.attempt.asked:
            assert one.sign not in seen, (number, one)
            seen.add(one.sign)
        progress = gate.answer(progress, 0, RIGHT, AT, lesson)


def test_a_lesson_without_questions_is_no_gate() -> None:
    with pytest.raises(QuizError, match="no questions"):
        gate.start(Progress(), Random(0), AT, "nothing")


def test_two_gates_do_not_lose_each_other_s_place() -> None:
    progress = gate.answer(_began(), 0, RIGHT, AT)
    progress = gate.start(progress, Random(1), LATER, "batching")
    mine, other = gate.current(progress), gate.current(progress, "batching")
    assert mine is not None and other is not None and mine.id != other.id
    assert gate.place(mine) == 1 and gate.place(other) == 0
    for index in (1, 2, 3):
        progress = gate.answer(progress, index, RIGHT, LATER)
    assert progress.completed == {gate.LESSON: LATER}
    mine = gate.current(progress)
    assert mine is not None and mine.done and gate.current(progress, "batching") == other


def test_a_gate_that_nobody_answered_yet_is_found_again_and_after_a_merge_too() -> None:
    """Else two tabs at two gates would draw for ever, each throwing away what the other drew."""
    tab = _began()
    other = gate.start(tab, Random(1), LATER, "batching")
    both = merge(tab, other)
    assert gate.current(both) == tab.attempt
    assert gate.current(both, "batching") == other.attempt
