"""The mastery gate: one question of each topic, all right in one attempt, always on fresh items."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from quiz import bank
from quiz.errors import QuizError
from quiz.items import RIGHT, Item
from quiz.progress import MAX_PAST, Asked, Attempt, Progress

LESSON = "four-questions"
MAX_TRIES = 200


def start(progress: Progress, rng: Random, at: str) -> Progress:
    """A new attempt on items that no earlier attempt asked. The one before goes to the past."""
    before = progress.attempt
    past = progress.past
    if before is not None and any(one.answer for one in before.asked):
        past = (*past, before)[-MAX_PAST:]
    asked = [one for attempt in past for one in attempt.asked]
    items = [fresh(topic, asked, rng) for topic in bank.topics()]
    drawn = tuple(Asked(item.template, item.seed, item.sign) for item in items)
    attempt = Attempt(f"{rng.getrandbits(64):016x}", at, drawn)
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
    if [item.topic for item in made] != list(bank.topics()):
        raise QuizError("this attempt does not have one question of each topic")
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


def answer(progress: Progress, index: int, key: str, at: str) -> Progress:
    """Answer a question of the present attempt. The first answer is the one that counts.

    Four right answers complete the lesson. Raises QuizError for a question or an option that is
    not there.
    """
    attempt = progress.attempt
    if attempt is None or not 0 <= index < len(attempt.asked):
        raise QuizError("there is no such question in this attempt")
    if attempt.asked[index].answer:
        return progress
    if key not in items(attempt)[index].keys:
        raise QuizError("there is no such option in this question")
    asked = list(attempt.asked)
    asked[index] = replace(asked[index], answer=key)
    attempt = replace(attempt, asked=tuple(asked))
    completed = progress.completed
    if all(one.answer == RIGHT for one in asked):
        completed = {LESSON: at, **completed}
    return replace(progress, attempt=attempt, completed=completed)
