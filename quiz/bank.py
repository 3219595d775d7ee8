"""The item bank: words from bank/, a file a topic, and numbers from the generators.

schema.json says what such a file may hold.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from typing import Any

from quiz.draw import GENERATORS
from quiz.errors import QuizError
from quiz.items import RIGHT, Answer, Drawn, Item, Option, Proof

BANK = Path(__file__).parent / "bank"
FOUR = ("phases", "kv-size", "paging", "batching")
"""The topics of the four questions that everybody is asked."""
WRONG_OPTIONS = 3
MAX_DRAWS = 50
MAX_SEED = 2**32


@dataclass(frozen=True, slots=True)
class Topic:
    """Its id, its name on the page, the lesson that teaches it, and its templates in order."""

    id: str
    title: str
    area: str
    lesson: str
    templates: dict[str, dict[str, Any]]


@cache
def topics() -> dict[str, Topic]:
    """Every topic by id, the four first. Template ids are "topic/item"."""
    loaded = [json.loads(file.read_text(encoding="utf-8")) for file in BANK.glob("*.json")]
    made = {
        one["id"]: Topic(
            one["id"],
            one["title"],
            one["area"],
            one["lesson"],
            {f"{one['id']}/{item['id']}": item for item in one["items"]},
        )
        for one in loaded
    }
    return {name: made[name] for name in (*FOUR, *sorted(made.keys() - {*FOUR}))}


def of_lesson(lesson: str) -> list[Topic]:
    """The topics that a lesson teaches; none for a lesson without questions."""
    return [topic for topic in topics().values() if topic.lesson == lesson]


def topic_of(template: str) -> Topic:
    """The topic that a template belongs to. Raises QuizError."""
    topic = topics().get(template.partition("/")[0])
    if topic is None or template not in topic.templates:
        raise QuizError(f"there is no question called {template[:60]!r} in this version")
    return topic


def varies(template: str) -> bool:
    """Whether another seed asks for other numbers; else the words are always the same."""
    return "text" not in topic_of(template).templates[template]["right"]


@lru_cache(maxsize=512)
def make(template: str, seed: int) -> Item:
    """The item of a template and a seed: the same one every time. Raises QuizError."""
    topic = topic_of(template)
    words = topic.templates[template]
    rng = Random(f"{template} {seed}")
    drawn, options = _draw(words, rng)
    see = words["see"]
    proof = drawn.proof or Proof(see.get("link", {}), page=see.get("page", "block_pool"))
    return Item(
        topic=topic.id,
        template=template,
        seed=seed,
        sign=f"{template} {drawn.sign}".strip(),
        question=words["question"].format(**drawn.values),
        drawn=drawn.drawn,
        given=drawn.given,
        options=options,
        see=see["say"].format(**drawn.values),
        proof=proof,
    )


def _draw(words: dict[str, Any], rng: Random) -> tuple[Drawn, tuple[Option, ...]]:
    """Numbers by which the misconceptions can be told apart; where some come to the same, others
    are drawn."""
    for _ in range(MAX_DRAWS):
        drawn = GENERATORS[words["make"]](rng) if "make" in words else Drawn({}, {}, "")
        right, wrong = _options(words, drawn)
        if len(wrong) >= WRONG_OPTIONS:
            options = [right, *rng.sample(wrong, WRONG_OPTIONS)]
            rng.shuffle(options)
            return drawn, tuple(options)
    raise AssertionError(f"{words['id']} finds no numbers that tell its misconceptions apart")


def _options(words: dict[str, Any], drawn: Drawn) -> tuple[Option, list[Option]]:
    """The right answer, and every wrong one that these numbers tell from all others."""
    right = _option(RIGHT, words["right"], drawn, says="Right.")
    taken, wrong = {right.text}, []
    for key, said in words["wrong"].items():
        if "text" not in said and key not in drawn.answers:
            continue  # these numbers leave no room for this misconception
        option = _option(key, said, drawn)
        if option.text not in taken:
            taken.add(option.text)
            wrong.append(option)
    return right, wrong


def _option(key: str, said: dict[str, str], drawn: Drawn, says: str = "") -> Option:
    answer = Answer(said["text"]) if "text" in said else drawn.answers[key]
    return Option(
        key=key,
        text=answer.text,
        aside=answer.aside,
        says=said.get("says", says).format(**drawn.values),
        fact=said["fact"].format(**drawn.values),
    )
