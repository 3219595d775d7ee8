"""Every word of the course as a list to search, and where each of them stands.

The browser gets it once, as one compressed file, and searches by itself.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import urlencode

from core.errors import KVScopeError
from ui import catalogue, lesson, nav, runs
from ui.claims import ledger
from ui.kit import glossary, text
from ui.lesson import Lesson
from ui.numbers import sheet
from ui.reading import document, values

Entry = dict[str, str]
"""kind, title: the place; head: the part of it; to: its address, "name?query"; text."""

_IMAGE_OR_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_TERM = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]|]+))?\]\]")
_FORMULA = re.compile(r"\$\$?([^$]*)\$\$?")
_CAPTION = re.compile(r"^::run [^|]*\|(.*)$", re.MULTILINE)
_HEADING = re.compile(r"^### .*$", re.MULTILINE)
_FIGURE = re.compile(r"^::.*$", re.MULTILINE)
_MARKS = re.compile(r"[*`#>|$\\]|^[-:| ]+$|^\s*-\s", re.MULTILINE)
_NAME = re.compile(r"\{(\w+)\}")


def plain(markdown: str, words: Lesson) -> str:
    """A lesson's text as one reads it: no marks, terms and values by what is shown."""
    defined = values.lines(words)

    def value(found: re.Match[str]) -> str:
        try:
            return values.of_line(defined[found.group(1)]).text
        except (KeyError, KVScopeError):
            return " "

    said = _HEADING.sub("", markdown, count=1)  # it stands above the text
    said = "".join(
        _NAME.sub(value, piece) if prose else piece for piece, prose in document.plain_pieces(said)
    )
    said = _FIGURE.sub("", _CAPTION.sub(r"\1", said))
    said = _FORMULA.sub(lambda found: "" if "\\" in found.group(0) else found.group(1), said)
    said = _TERM.sub(lambda found: found.group(2) or found.group(1), said)
    said = _IMAGE_OR_LINK.sub(r"\1", said)
    return " ".join(_MARKS.sub(" ", said).split())


def _address(name: str, **query: str) -> str:
    return f"{name}?{urlencode(query)}" if query else name


def _of_reading(place: nav.Place, words: Lesson) -> Iterator[Entry]:
    """A part at its middle level, and what only its long form says."""
    for part in document.part_names(words):
        said = text.pick(words, part, "plain")
        yield {
            "kind": "Lesson", "title": place.title, "head": document.heading(said),
            "to": _address(place.name, at=part), "text": plain(said, words),
        }  # fmt: skip
        if f"{part}.full" in words.sections:
            said = words[f"{part}.full"]
            yield {
                "kind": "Lesson, in full", "title": place.title, "head": document.heading(said),
                "to": _address(place.name, at=part, level="In full"), "text": plain(said, words),
            }  # fmt: skip


def _of_instrument(place: nav.Place, words: Lesson) -> Iterator[Entry]:
    """A page with an instrument: what it is for, and its words."""
    said = [words.objective, *(words.sections.get(name, "") for name in ("objectives", "words"))]
    entry = {"kind": "Page", "title": place.title, "head": "", "to": place.name}
    yield {**entry, "text": plain("\n\n".join(said), words)}
    if "words.full" in words.sections:
        full = _address(place.name, level="In full")
        yield {**entry, "head": "In full", "to": full, "text": plain(words["words.full"], words)}


def _lessons() -> Iterator[Entry]:
    for place in nav.STATIONS:
        words = lesson.load(place.name)
        yield from (_of_reading if place.reads else _of_instrument)(place, words)


def _rest() -> Iterator[Entry]:
    for term in glossary.entries():
        yield {
            "kind": "Term", "title": ", ".join((term.name, *term.also)), "head": "",
            "to": _address("course", view="terms", term=term.slug), "text": term.meaning,
        }  # fmt: skip
    for claim in ledger.known().values():
        yield {
            "kind": "Claim", "title": claim.id, "head": ledger.TITLES[claim.topic],
            "to": _address("claims_ledger", claim=claim.id), "text": claim.says,
        }  # fmt: skip
    for group in sheet.groups():
        for number in group.entries:
            yield {
                "kind": "Number", "title": number.name, "head": group.title,
                "to": _address("numbers", number=number.id),
                "text": f"{number.shown} {number.scope}".strip(),
            }  # fmt: skip
    for scenario in catalogue.entries().values():
        yield {
            "kind": "Scenario", "title": scenario.title, "head": scenario.group,
            "to": _address("block_pool", scenario=scenario.slug),
            "text": f"{scenario.shows} {scenario.look}",
        }  # fmt: skip
    for run in runs.list_recorded():
        about = catalogue.recorded().get(run.name, {})
        if about:
            query = about.get("query", {"run": run.name})
            yield {
                "kind": "Recorded run", "title": run.title, "head": "",
                "to": _address(about.get("page", "block_pool"), **query),
                "text": f"{about['shows']} {about['look']}",
            }  # fmt: skip


@cache
def entries() -> tuple[Entry, ...]:
    """All of it, lessons first."""
    return (*_lessons(), *_rest())


@cache
def body() -> tuple[bytes, str]:
    """The file that the browser gets, compressed, and a tag that changes with its content."""
    content: Any = json.dumps(entries(), ensure_ascii=False, separators=(",", ":")).encode()
    return gzip.compress(content, 6, mtime=0), hashlib.sha256(content).hexdigest()[:16]
