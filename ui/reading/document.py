"""What a lesson to read is made of: parts with a heading, each in up to three levels, and in a
part prose, charts and recorded runs.

    ## a-part              the middle level; `## a-part.short` and `## a-part.full` are the others
    ### A heading
    Prose with [[terms]] and {values}.
    ::chart kv_growth
    ::run pressure_thrash?step=40 | What to see in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl

from ui.kit import text
from ui.lesson import Lesson

APART = ("objectives", "values")
"""Sections that are no part of the text."""
WORDS_PER_MINUTE = 200
"""A convention: slow enough for technical prose."""
FIGURE_MINUTES = 0.5

_FIGURE = re.compile(r"^::(\w+)[ \t]+(.*?)[ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"^### +(.+)$", re.MULTILINE)
_CODE_OR_FORMULA = re.compile(r"(```.*?```|``.*?``|`[^`]*`|\$\$.*?\$\$|\$[^$\n]*\$)", re.DOTALL)
_LINK_TARGET = re.compile(r"\]\([^()\s]*\)")


@dataclass(frozen=True, slots=True)
class Prose:
    """Markdown with terms and values in it."""

    markdown: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart by the name of its file in lessons/charts/."""

    name: str


@dataclass(frozen=True, slots=True)
class Run:
    """A recorded run by name, what of it, and a sentence on what to see."""

    name: str
    query: dict[str, str]
    caption: str


Block = Prose | Chart | Run


def part_names(words: Lesson) -> list[str]:
    """The parts of a lesson, in the order of first appearance."""
    names = (name.partition(".")[0] for name in words.sections)
    return list(dict.fromkeys(name for name in names if name not in APART))


def heading(markdown: str) -> str:
    """The heading of a part's text, as plain text; "" if it has none."""
    found = _HEADING.search(markdown)
    return re.sub(r"[`*_]|\[\[|\]\]", "", found.group(1)).strip() if found else ""


def headings(words: Lesson, level: str) -> list[tuple[str, str]]:
    """(name, heading) of every part at a level."""
    return [(name, heading(text.pick(words, name, level))) for name in part_names(words)]


def at_level(words: Lesson, level: str) -> list[str]:
    """The text of every part at a level."""
    return [text.pick(words, name, level) for name in part_names(words)]


def blocks(markdown: str) -> Iterator[Block]:
    """A part's text, cut where a chart or a run stands. Raises ValueError for another figure."""
    place = 0
    for found in _FIGURE.finditer(markdown):
        if before := markdown[place : found.start()].strip():
            yield Prose(before)
        yield _figure(found.group(1), found.group(2))
        place = found.end()
    if rest := markdown[place:].strip():
        yield Prose(rest)


def _figure(kind: str, said: str) -> Block:
    if kind == "chart" and re.fullmatch(r"\w+", said):
        return Chart(said)
    target, _, caption = (piece.strip() for piece in said.partition("|"))
    name, _, query = target.partition("?")
    if kind == "run" and re.fullmatch(r"\w+", name) and caption:
        return Run(name, dict(parse_qsl(query)), caption)
    raise ValueError(f"'::{kind} {said}' is neither '::chart NAME' nor '::run NAME?… | caption'")


def under_title(markdown: str) -> str:
    """The text with its headings a rank higher: on the page they stand under the title alone."""
    return _HEADING.sub(r"## \1", markdown)


def plain_pieces(markdown: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, and of each whether it is prose: code and formulas are not."""
    for index, piece in enumerate(_CODE_OR_FORMULA.split(markdown)):
        if piece:
            yield piece, index % 2 == 0


def prose_of(markdown: str) -> str:
    """What is read as sentences: without figures, code, formulas and the targets of links."""
    cut = _FIGURE.sub("", markdown)
    kept = "".join(piece if prose else " " for piece, prose in plain_pieces(cut))
    return _LINK_TARGET.sub("]", kept)


def minutes(words: Lesson, level: str) -> int:
    """About how long it takes to read at a level: whole minutes, at least one."""
    total = 0.0
    for part in at_level(words, level):
        for block in blocks(part):
            if isinstance(block, Prose):
                total += len(block.markdown.split()) / WORDS_PER_MINUTE
            else:
                total += FIGURE_MINUTES
    return max(1, math.ceil(total))
