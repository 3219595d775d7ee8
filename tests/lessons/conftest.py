"""The lessons that are read, as data."""

from __future__ import annotations

from ui import lesson, nav

READ = [place.name for place in nav.planned() if place.reads and place.exists]
LEVELS = ("short", "plain", "full")


def words_of(name: str) -> lesson.Lesson:
    return lesson.load(name)
