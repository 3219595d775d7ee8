"""The instrument's words, from the lesson: what a letter is, what a lever does, four kinds of
attention."""

from __future__ import annotations

from functools import lru_cache

from ui.lesson import Lesson, load
from ui.sizing.shown import Json

NAME = "kv_sizing"


def of(lesson: Lesson) -> Json:
    """{symbols: letter → sentence, levers: id → [title, sentence], ways: id → [title, sentence] or
    sentence}."""
    return _of(lesson.title)


@lru_cache(maxsize=1)
def _of(title: str) -> Json:
    lesson = load(NAME)
    return {
        "symbols": {row[0]: row[1] for row in rows(lesson["symbols"], 1)},
        "levers": {name: list(rest) for name, *rest in rows(lesson["levers"], 2)},
        "ways": {
            **{name: list(rest) for name, *rest in rows(lesson["ways"], 2)},
            "own": lesson["ways-own"],
            "borrowed": lesson["ways-borrowed"],
        },
    }


def rows(section: str, columns: int) -> list[tuple[str, ...]]:
    """The lines of a section, `name | words` or `name | title | words`."""
    out = []
    for line in section.splitlines():
        if line.strip():
            out.append(tuple(part.strip() for part in line.split(" | ", columns)))
    return out
