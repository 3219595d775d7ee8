"""The notebook as a file and back, and what a note may show of what somebody typed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict

from quiz.errors import QuizError
from quiz.progress import Note, Progress, document, notes, read

SCHEMA = "kv-scope-notebook/1"
_CODE = re.compile(r"(`+[^`]*`+)")
_PRICE = re.compile(r"\$\d")


def as_json(known: Progress) -> str:
    """The notes alone, for another browser or another program."""
    content = {"schema": SCHEMA, "notes": [asdict(note) for note in known.notes]}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def read_notes(text: str) -> tuple[Note, ...]:
    """The notes of an exported notebook, or of exported progress. Raises QuizError."""
    content = document(text, "kv-scope-")
    if content["schema"] == SCHEMA:
        return notes(content)
    if str(content["schema"]).startswith("kv-scope-notebook"):
        raise QuizError(f"this notebook is of another version; this one reads {SCHEMA!r}")
    return read(text).notes


def safe(markdown: str) -> str:
    """Markdown that loads nothing: an image becomes a link to it. Markup is not drawn anyway. Where
    a dollar stands before a digit, dollars are money.

    An image is an exclamation mark and a bracket, and there is no other way to write one; with a
    space of no width between them they are a mark and a link, inside code as well as outside.
    """
    quiet = markdown.replace("![", "!\u200b[")
    parts = _CODE.split(quiet)  # a price is no formula; in code it stays as it is
    parts[::2] = [part.replace("$", "\\$") if _PRICE.search(part) else part for part in parts[::2]]
    return "".join(parts)


def found(every: Iterable[Note], text: str, page: str, tags: Iterable[str]) -> list[Note]:
    """The notes that hold every word of the text, are about that page and have every tag; an empty
    demand is none. The latest first."""
    words, wanted = text.lower().split(), {*tags}
    return [
        note
        for note in sorted(every, key=lambda note: (note.at, note.id), reverse=True)
        if wanted <= {*note.tags}
        and (not page or note.page == page)
        and all(word in _searched(note) for word in words)
    ]


def _searched(note: Note) -> str:
    section = note.source.section if note.source else ""
    parts = (note.text, note.quote, note.about, note.page, section, *(f"#{t}" for t in note.tags))
    return "\n".join(parts).lower()
