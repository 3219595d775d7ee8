"""What a learner has done: one versioned JSON document, kept in their own browser.

Nobody else vouches for it, so it is read like any file from outside: with limits, field by field,
and refused as a whole with one sentence. Two of them (two tabs, or an export from another machine)
merge into one, in any order and as often as one likes.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from quiz.errors import QuizError

SCHEMA = "kv-scope-progress/1"
FOUR_QUESTIONS = "four-questions"
MAX_BYTES = 256 * 1024
MAX_PAST = 50
MAX_NOTES = 200
MAX_NOTE_CHARS = 500
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_DATE_OR_NONE = re.compile(rf"({_DATE.pattern})?")
_ID = re.compile(r"[0-9a-z-]{1,40}")
_GATE = re.compile(r"[0-9a-z_-]{1,40}")


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of an attempt. answer: the key of the option chosen, "" before that."""

    template: str
    seed: int
    sign: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a gate. at: when it was drawn. gate: the lesson that it can complete."""

    id: str
    at: str
    asked: tuple[Asked, ...]
    gate: str = FOUR_QUESTIONS

    @property
    def done(self) -> bool:
        return all(one.answer for one in self.asked)

    @property
    def right(self) -> int:
        return sum(one.answer == "right" for one in self.asked)


@dataclass(frozen=True, slots=True)
class Note:
    """A line of the notebook. about: what it was written under, e.g. the prediction."""

    id: str
    at: str
    page: str
    text: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """attempt: the present one, kept when done until the next begins. past: those before, oldest
    first, with the one that each other gate stands at. completed: lesson → when. begun: page →
    when something was done there. removed: ids of notes that were taken out, so that a merge does
    not bring them back. since: what is older was thrown away, for the same reason."""

    attempt: Attempt | None = None
    past: tuple[Attempt, ...] = ()
    completed: dict[str, str] = field(default_factory=dict)
    begun: dict[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    removed: tuple[str, ...] = ()
    since: str = ""

    def to_json(self) -> str:
        """The document as text, the same text for the same content."""
        content = {"schema": SCHEMA, **asdict(self)}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True)

    def with_note(self, note: Note) -> Progress:
        kept = (*self.notes, replace(note, text=note.text[:MAX_NOTE_CHARS]))[-MAX_NOTES:]
        return replace(self, notes=kept)

    def with_begun(self, page: str, at: str) -> Progress:
        return replace(self, begun={page: at, **self.begun})

    def without_note(self, note_id: str) -> Progress:
        kept = tuple(note for note in self.notes if note.id != note_id)
        return replace(self, notes=kept, removed=(*self.removed, note_id)[-MAX_NOTES:])


def now() -> str:
    """The present time as the document writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read(text: str) -> Progress:
    """The document from its text. Raises QuizError."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise QuizError(f"this is larger than the {MAX_BYTES // 1024} KiB that progress may take")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise QuizError("this is not saved progress: it is not JSON") from None
    if not isinstance(content, dict) or not str(content.get("schema")).startswith("kv-scope-prog"):
        raise QuizError('this is not saved progress: it does not begin with "kv-scope-progress"')
    if content["schema"] != SCHEMA:
        raise QuizError(
            f"this was saved by another version ({content['schema'][:40]!r}); this one reads "
            f"{SCHEMA!r}, so it was left as it is"
        )
    return Progress(
        attempt=None if content.get("attempt") is None else _attempt(content["attempt"]),
        past=tuple(_attempt(one) for one in _list(content, "past", MAX_PAST)),
        completed=_dates(content.get("completed", {}), "completed"),
        begun=_dates(content.get("begun", {}), "begun"),
        notes=tuple(_note(one) for one in _list(content, "notes", MAX_NOTES)),
        removed=tuple(_text(one, "removed", _ID) for one in _list(content, "removed", MAX_NOTES)),
        since=_text(content.get("since", ""), "since", _DATE_OR_NONE),
    )


def _list(content: dict[str, Any], name: str, most: int) -> list[Any]:
    found = content.get(name, [])
    if not isinstance(found, list) or len(found) > most:
        raise QuizError(f"saved progress is damaged: {name} must be a list of at most {most}")
    return found


def _text(value: Any, name: str, shape: re.Pattern[str] | None = None, most: int = 200) -> str:
    good = isinstance(value, str) and len(value) <= most
    if not good or (shape is not None and shape.fullmatch(value) is None):
        raise QuizError(f"saved progress is damaged: {name} is not what it should be")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair: no browser would store it again
        raise QuizError(f"saved progress is damaged: {name} is not text") from None
    return str(value)


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise QuizError(f"saved progress is damaged: {name} must be an object")
    return value


def _attempt(value: Any) -> Attempt:
    content = _object(value, "attempt")
    asked = tuple(_asked(one) for one in _list(content, "asked", 8))
    return Attempt(
        _text(content.get("id"), "attempt.id", _ID),
        _text(content.get("at"), "attempt.at", _DATE),
        asked,
        _text(content.get("gate", FOUR_QUESTIONS), "attempt.gate", _GATE),
    )


def _asked(value: Any) -> Asked:
    content = _object(value, "asked")
    seed = content.get("seed")
    if type(seed) is not int or not 0 <= seed < 2**32:
        raise QuizError("saved progress is damaged: asked.seed is not a number")
    return Asked(
        _text(content.get("template"), "asked.template"),
        seed,
        _text(content.get("sign"), "asked.sign"),
        _text(content.get("answer", ""), "asked.answer"),
    )


def _note(value: Any) -> Note:
    content = _object(value, "note")
    return Note(
        _text(content.get("id"), "note.id", _ID),
        _text(content.get("at"), "note.at", _DATE),
        _text(content.get("page"), "note.page"),
        _text(content.get("text"), "note.text", most=MAX_NOTE_CHARS),
        _text(content.get("about", ""), "note.about", most=MAX_NOTE_CHARS),
    )


def _dates(value: Any, name: str) -> dict[str, str]:
    content = _object(value, name)
    if len(content) > 100:
        raise QuizError(f"saved progress is damaged: {name} has more than 100 entries")
    return {_text(key, name): _text(at, name, _DATE) for key, at in content.items()}


def merge(a: Progress, b: Progress) -> Progress:
    """Both in one, less what either has thrown away. The later attempt, note and day count. Of two
    answers to one question the first in the order of their keys counts, so that the result does
    not depend on who merges."""
    since = max(a.since, b.since)
    attempts: dict[str, Attempt] = {}
    for one in (*a.past, *b.past, *filter(None, (a.attempt, b.attempt))):
        if one.at >= since:
            attempts[one.id] = _same(attempts[one.id], one) if one.id in attempts else one
    current = max(
        {one.id for one in (a.attempt, b.attempt) if one is not None and one.id in attempts},
        key=lambda name: (attempts[name].at, name),
        default=None,
    )
    ordered = sorted(attempts.values(), key=lambda one: (one.at, one.id))
    newest = {one.gate: one.id for one in ordered}
    past = [
        one
        for one in ordered
        if one.id != current
        and (newest[one.gate] == one.id or any(question.answer for question in one.asked))
    ]
    removed = sorted({*a.removed, *b.removed})[-MAX_NOTES:]
    return Progress(
        attempt=None if current is None else attempts[current],
        past=tuple(past[-MAX_PAST:]),
        completed=_later(a.completed, b.completed, since),
        begun=_later(a.begun, b.begun, since),
        notes=_notes((*a.notes, *b.notes), {*removed}, since),
        removed=tuple(removed),
        since=since,
    )


def _later(a: dict[str, str], b: dict[str, str], since: str) -> dict[str, str]:
    """The later of two dates: the earlier would not survive a third document's `since`."""
    out: dict[str, str] = {}
    for name, at in (*a.items(), *b.items()):
        if at >= since:
            out[name] = max(at, out.get(name, at))
    return out


def _notes(all_notes: tuple[Note, ...], removed: set[str], since: str) -> tuple[Note, ...]:
    notes: dict[str, Note] = {}
    for note in all_notes:
        if note.id not in removed and note.at >= since:
            before = notes.get(note.id, note)
            notes[note.id] = max(note, before, key=lambda n: (n.at, n.text, n.about, n.page))
    kept = sorted(notes.values(), key=lambda note: (note.at, note.id))
    return tuple(kept[-MAX_NOTES:])


def _same(a: Attempt, b: Attempt) -> Attempt:
    """One attempt as two tabs know it."""
    first, second = sorted((a, b), key=_what)
    if _what(a) != _what(b):
        return first  # one id for two different attempts: no file of ours says that
    answered = tuple(
        replace(x, answer=min(filter(None, (x.answer, y.answer)), default=""))
        for x, y in zip(first.asked, second.asked, strict=True)
    )
    return replace(first, asked=answered)


def _what(attempt: Attempt) -> tuple[str, list[tuple[str, int]]]:
    return attempt.gate, [(one.template, one.seed) for one in attempt.asked]
