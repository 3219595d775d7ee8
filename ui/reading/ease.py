"""How hard a text is to read, by sentence and word length: a gauge, no judge.

Flesch-Kincaid grade (Kincaid and others 1975): 0.39 · words a sentence + 11.8 · syllables a word
− 15.59. Syllables are groups of vowels less a silent e, which is right for most English words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ui.lesson import Lesson
from ui.reading import document

LIMITS = {"short": 300, "plain": 1150, "full": 1900}
"""Most words of a lesson at a level."""
HARDEST_GRADE = 13.0

_VALUE = re.compile(r"\{\w+\}")
_TERM = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]|]+))?\]\]")
_TABLE = re.compile(r"^\|.*$", re.MULTILINE)
_MARKS = re.compile(r"[*#\[\]]|^\s*(?:-|\d+\.)\s", re.MULTILINE)
_SENTENCE = re.compile(r"[.!?:;](?:\s|$)|\n\s*\n|\n(?=\s*(?:-|\d+\.)\s)")
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")


@dataclass(frozen=True, slots=True)
class Ease:
    """Of one lesson at one level. grade: 0 for a text without a sentence."""

    words: int
    sentences: int
    grade: float


def syllables(word: str) -> int:
    low = word.lower()
    groups = len(re.findall(r"[aeiouy]+", low))
    silent = low.endswith("e") and not low.endswith(("le", "ee")) and groups > 1
    return max(1, groups - silent)


def of_text(markdown: str) -> Ease:
    """Of a text, tables and figures left out."""
    prose = _VALUE.sub("some", document.prose_of(_TABLE.sub("", markdown)))
    prose = _TERM.sub(lambda found: found.group(2) or found.group(1), prose)
    sentences = [part for part in _SENTENCE.split(_MARKS.sub("", prose)) if _WORD.search(part)]
    words = _WORD.findall(prose)
    if not words:
        return Ease(0, 0, 0.0)
    grade = (
        0.39 * len(words) / len(sentences) + 11.8 * sum(map(syllables, words)) / len(words) - 15.59
    )
    return Ease(len(words), len(sentences), round(grade, 1))


def of_lesson(words: Lesson, level: str) -> Ease:
    return of_text("\n\n".join(document.at_level(words, level)))
