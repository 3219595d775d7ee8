"""Mastery gates: four questions, all right in one attempt, always on fresh items.

One gate asks a question of each of the four topics. Every lesson with questions is a gate too: it
asks four of its own topics.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from quiz import bank
from quiz.errors import QuizError
from quiz.items import RIGHT, Item
from quiz.progress import FOUR_QUESTIONS, MAX_PAST, Asked, Attempt, Progress

LESSON = FOUR_QUESTIONS
QUESTIONS = 4
MAX_TRIES = 200


def lessons() -> tuple[str, ...]:
    """Everything that can be completed here, the four questions first."""
    return tuple(dict.fromkeys((LESSON, *(topic.lesson for topic in bank.topics().values()))))


def plan(lesson: str) -> list[str]:
    """The topic of each question. Raises QuizError for a lesson without any."""
    if lesson == LESSON:
        return list(bank.FOUR)
    own = [topic.id for topic in bank.of_lesson(lesson)]
    if not own:
        raise QuizError("there are no questions on that lesson in this version")
    return [own[index % len(own)] for index in range(QUESTIONS)]


def current(progress: Progress, lesson: str = LESSON) -> Attempt | None:
    """The attempt that a gate stands at, in the middle or done; None before the first."""
    if progress.attempt is not None and progress.attempt.gate == lesson:
        return progress.attempt
    return next((one for one in reversed(progress.past) if one.gate == lesson), None)


def start(progress: Progress, rng: Random, at: str, lesson: str = LESSON) -> Progress:
    """A new attempt on items that no earlier attempt asked. The one before goes to the past, and
    leaves no trace if nobody answered it, unless another gate stands at it."""
    before = progress.attempt
    past = progress.past
    if before is not None and (before.gate != lesson or any(one.answer for one in before.asked)):
        past = (*past, before)[-MAX_PAST:]
    asked = [one for attempt in past for one in attempt.asked]
    drawn: list[Asked] = []
    for topic in plan(lesson):
        item = fresh(topic, [*asked, *drawn], rng)
        drawn.append(Asked(item.template, item.seed, item.sign))
    attempt = Attempt(f"{rng.getrandbits(64):016x}", at, tuple(drawn), lesson)
    return replace(progress, attempt=attempt, past=past)


def fresh(topic: str, asked: list[Asked], rng: Random) -> Item:
    """A question of a topic: the one asked least often, with numbers that were never drawn.

    A question of words alone is asked once; there are always questions with numbers to go on with.
    """
    uses = Counter(one.template for one in asked)
    seen = {one.sign for one in asked}
    templates = list(bank.topics()[topic].templates)
    order = sorted(templates, key=lambda name: (uses[name], templates.index(name)))
    for template in order:
        for _ in range(MAX_TRIES if bank.varies(template) else 1):
            item = bank.make(template, rng.randrange(bank.MAX_SEED))
            if item.sign not in seen:
                return item
    return bank.make(order[0], rng.randrange(bank.MAX_SEED))  # everything was asked already


def items(attempt: Attempt) -> list[Item]:
    """The questions of an attempt, drawn again. Raises QuizError where this version of the bank
    asks something else under the same name: then the attempt cannot go on."""
    made = [bank.make(one.template, one.seed) for one in attempt.asked]
    if [item.topic for item in made] != plan(attempt.gate):
        raise QuizError("this attempt does not have the questions of its lesson")
    for item, one in zip(made, attempt.asked, strict=True):
        if item.sign != one.sign or (one.answer and one.answer not in item.keys):
            raise QuizError("the questions have changed since this attempt began")
    return made


def place(attempt: Attempt) -> int:
    """The first question without an answer; their number when all have one."""
    for index, one in enumerate(attempt.asked):
        if not one.answer:
            return index
    return len(attempt.asked)


def answer(progress: Progress, index: int, key: str, at: str, lesson: str = LESSON) -> Progress:
    """Answer a question of the attempt that a gate stands at. The first answer is the one that
    counts.

    Four right answers complete the lesson. Raises QuizError for a question or an option that is
    not there.
    """
    attempt = current(progress, lesson)
    if attempt is None or not 0 <= index < len(attempt.asked):
        raise QuizError("there is no such question in this attempt")
    if attempt.asked[index].answer:
        return progress
    if key not in items(attempt)[index].keys:
        raise QuizError("there is no such option in this question")
    asked = list(attempt.asked)
    asked[index] = replace(asked[index], answer=key)
    answered = replace(attempt, asked=tuple(asked))
    completed = progress.completed
    if all(one.answer == RIGHT for one in asked):
        completed = {lesson: at, **completed}
    if attempt is progress.attempt:
        return replace(progress, attempt=answered, completed=completed)
    past = tuple(answered if one is attempt else one for one in progress.past)
    return replace(progress, past=past, completed=completed)
