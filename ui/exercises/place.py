"""What a link to the exercises can say, and the safe way back from one.

    ?exercise=rag   which one
    &draw=3         with which set of numbers; without it those of the text

Whatever cannot be read is left out and named in one sentence; the rest of the link counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quiz.exercises import exercise
from quiz.exercises.exercise import Exercise
from ui.kit import address

NAMES: Final = ("exercise", "draw")


@dataclass(frozen=True, slots=True)
class Place:
    """An exercise by its id, and which set of numbers."""

    id: str
    draw: int = 0

    @property
    def exercise(self) -> Exercise:
        return exercise.make(self.id, self.draw)


def first() -> Place:
    return Place(next(iter(exercise.files())))


def read(params: Mapping[str, str]) -> tuple[Place, str | None]:
    """What the address asks for, and a sentence about what it asks in vain."""

    def value(name: str, raw: str) -> str | int | None:
        if name == "exercise":
            return raw if raw in exercise.files() else None
        wanted = exercise.files().get(params.get("exercise", first().id), {})
        good = raw.isascii() and raw.isdigit() and len(raw) <= 4 and "again" in wanted
        return int(raw) if good else None

    found, notice = address.sort(params, NAMES, value)
    return Place(found.get("exercise", first().id), found.get("draw", 0)), notice


def written(place: Place) -> dict[str, str]:
    """The place as parameters of the address."""
    draw = {"draw": str(place.draw)} if place.draw else {}
    return {"exercise": place.id, **draw}
