"""Read saved progress: a file from outside, whoever says that they wrote it.

It is read with limits, field by field, and refused as a whole with one sentence. Documents of
earlier versions are brought up to the present one first.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from quiz.errors import QuizError
from quiz.records import (
    FOUR_QUESTIONS,
    LEAST_RETENTION,
    MAX_ABOUT_CHARS,
    MAX_BYTES,
    MAX_CARDS,
    MAX_LOG,
    MAX_NOTE_CHARS,
    MAX_NOTES,
    MAX_PAST,
    MAX_PREDICTIONS,
    MAX_QUOTE_CHARS,
    MAX_REMOVED,
    MAX_TAGS,
    MOST_RETENTION,
    RETENTION,
    SCHEMA,
    Asked,
    Attempt,
    Deck,
    Note,
    Plan,
    Predicted,
    Progress,
    Review,
    Source,
    Standing,
)

V1 = "kv-scope-progress/1"
LONG_AGO = "2000-01-01T00:00:00Z"
"""When a note was taken out, where the first version did not say."""

_DATE = re.compile(r"2[0-2]\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_ID = re.compile(r"[0-9a-z-]{1,40}")
_NAME = re.compile(r"[0-9a-z_-]{1,40}")
_TAG = re.compile(r"[\w-]{1,30}")
_CARD = re.compile(r"[\w./:-]{1,100}")
_ANCHOR = re.compile(r"[\w.~%-]{0,120}")
_QUERY = re.compile(r"[\w.~%&=+:,;@!*()/-]{0,600}")

T = TypeVar("T")


def read(text: str) -> Progress:
    """The document from its text. Raises QuizError."""
    content = document(text, "kv-scope-progress")
    if content["schema"] == V1:
        content = _from_v1(content)
    if content["schema"] != SCHEMA:
        raise QuizError(
            f"this was saved by another version ({content['schema'][:40]!r}); this one reads "
            f"{SCHEMA!r}"
        )
    return Progress(
        attempt=None if content.get("attempt") is None else _attempt(content["attempt"]),
        past=tuple(_attempt(one) for one in _list(content, "past", MAX_PAST)),
        completed=_dates(content, "completed", 100),
        begun=_dates(content, "begun", 100),
        notes=notes(content),
        predictions=_by_name(content, "predictions", MAX_PREDICTIONS, _CARD, _predicted),
        deck=_deck(content.get("deck", {})),
        removed=_dates(content, "removed", MAX_REMOVED, _ID),
        since=_date(content.get("since", ""), "since", or_none=True),
    )


def document(text: str, schema: str) -> dict[str, Any]:
    """A JSON object that says of itself what it is. Raises QuizError."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise QuizError(f"this is larger than the {MAX_BYTES // 1024:,} KiB that progress may take")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise QuizError("this is not saved progress: it is not JSON") from None
    if not isinstance(content, dict) or not str(content.get("schema")).startswith(schema):
        raise QuizError(f'this is not saved progress: it does not begin with "{schema}"')
    return content


def notes(content: dict[str, Any]) -> tuple[Note, ...]:
    """The notes of a document. Raises QuizError."""
    return tuple(_note(one) for one in _list(content, "notes", MAX_NOTES))


def _from_v1(content: dict[str, Any]) -> dict[str, Any]:
    """The second version knows when a note was taken out, and more of everything."""
    removed = _list(content, "removed", 200)
    return {
        **content,
        "schema": SCHEMA,
        "removed": {_text(one, "removed", _ID): LONG_AGO for one in removed},
    }


def _damaged(name: str, what: str) -> QuizError:
    return QuizError(f"saved progress is damaged: {name} {what}")


def _list(content: dict[str, Any], name: str, most: int) -> list[Any]:
    found = content.get(name, [])
    if not isinstance(found, list) or len(found) > most:
        raise _damaged(name, f"must be a list of at most {most}")
    return found


def _object(value: Any, name: str, most: int | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _damaged(name, "must be an object")
    if most is not None and len(value) > most:
        raise _damaged(name, f"has more than {most} entries")
    return value


def _text(value: Any, name: str, shape: re.Pattern[str] | None = None, most: int = 200) -> str:
    good = isinstance(value, str) and len(value) <= (most if shape is None else 1000)
    if not good or (shape is not None and shape.fullmatch(value) is None):
        raise _damaged(name, "is not what it should be")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair: no browser would store it again
        raise _damaged(name, "is not text") from None
    return str(value)


def _date(value: Any, name: str, *, or_none: bool = False) -> str:
    if or_none and value == "":
        return ""
    at = _text(value, name, _DATE)
    try:
        datetime.strptime(at, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        raise _damaged(name, "is not a time") from None
    return at


def _whole(value: Any, name: str, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise _damaged(name, "is not a number that it can be")
    return value


def _number(value: Any, name: str, least: float, most: float) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not least <= value <= most:
        raise _damaged(name, "is not a number that it can be")
    return float(value)


def _by_name(
    content: dict[str, Any],
    name: str,
    most: int,
    shape: re.Pattern[str] | None,
    one: Callable[[Any, str], T],
) -> dict[str, T]:
    found = _object(content.get(name, {}), name, most)
    return {_text(key, name, shape): one(value, name) for key, value in found.items()}


def _dates(
    content: dict[str, Any], name: str, most: int, shape: re.Pattern[str] | None = None
) -> dict[str, str]:
    return _by_name(content, name, most, shape, _date)


def _attempt(value: Any) -> Attempt:
    content = _object(value, "attempt")
    asked = tuple(_asked(one) for one in _list(content, "asked", 8))
    return Attempt(
        _text(content.get("id"), "attempt.id", _ID),
        _date(content.get("at"), "attempt.at"),
        asked,
        _text(content.get("gate", FOUR_QUESTIONS), "attempt.gate", _NAME),
    )


def _asked(value: Any) -> Asked:
    content = _object(value, "asked")
    return Asked(
        _text(content.get("template"), "asked.template"),
        _whole(content.get("seed"), "asked.seed", 2**32 - 1),
        _text(content.get("sign"), "asked.sign"),
        _text(content.get("answer", ""), "asked.answer"),
    )


def _note(value: Any) -> Note:
    content = _object(value, "note")
    source = content.get("source")
    return Note(
        id=_text(content.get("id"), "note.id", _ID),
        at=_date(content.get("at"), "note.at"),
        page=_text(content.get("page"), "note.page"),
        text=_text(content.get("text"), "note.text", most=MAX_NOTE_CHARS),
        about=_text(content.get("about", ""), "note.about", most=MAX_ABOUT_CHARS),
        edited=_date(content.get("edited", ""), "note.edited", or_none=True),
        tags=tuple(_text(one, "note.tags", _TAG) for one in _list(content, "tags", MAX_TAGS)),
        quote=_text(content.get("quote", ""), "note.quote", most=MAX_QUOTE_CHARS),
        source=None if source is None else _source(source),
    )


def _source(value: Any) -> Source:
    content = _object(value, "note.source")
    return Source(
        place=_text(content.get("place"), "note.source.place", _NAME),
        section=_text(content.get("section", ""), "note.source.section"),
        anchor=_text(content.get("anchor", ""), "note.source.anchor", _ANCHOR),
        query=_text(content.get("query", ""), "note.source.query", _QUERY),
    )


def source(place: str, section: Any, anchor: Any, query: Any) -> Source:
    """Where a quote was taken, from what a browser says of it: what cannot be is left out."""
    return Source(
        place=place,
        section=section[:200] if isinstance(section, str) else "",
        anchor=anchor if isinstance(anchor, str) and _ANCHOR.fullmatch(anchor) else "",
        query=query if isinstance(query, str) and _QUERY.fullmatch(query) else "",
    )


def _predicted(value: Any, name: str) -> Predicted:
    content = _object(value, name)
    said: dict[str, int | str] = {}
    for key, given in _object(content.get("said"), "predictions.said", 8).items():
        field = _text(key, "predictions.said")
        if type(given) is int:
            said[field] = _whole(given, "predictions.said", 10**15)
        else:
            said[field] = _text(given, "predictions.said")
    return Predicted(
        _date(content.get("at"), "predictions.at"),
        said,
        _text(content.get("ask", ""), "predictions.ask", most=MAX_ABOUT_CHARS),
    )


def _deck(value: Any) -> Deck:
    content = _object(value, "deck")
    at = _date(content.get("retention_at", ""), "deck.retention_at", or_none=True)
    return Deck(
        plans=_by_name(content, "plans", MAX_CARDS, _CARD, _plan),
        standing=_by_name(content, "standing", MAX_CARDS, _CARD, _standing),
        log=tuple(_review(one) for one in _list(content, "log", MAX_LOG)),
        retention=_retention(content) if at else RETENTION,
        retention_at=at,
    )


def _retention(content: dict[str, Any]) -> float:
    value = content.get("retention", RETENTION)
    return _number(value, "deck.retention", LEAST_RETENTION, MOST_RETENTION)


def _plan(value: Any, name: str) -> Plan:
    content = _object(value, name)
    state = content.get("state", "new")
    if state not in ("new", "learning", "review", "relearning"):
        raise _damaged(f"{name}.state", "is not what it should be")
    step, stability = content.get("step"), content.get("stability")
    difficulty = content.get("difficulty")
    # A card was never asked, or it has both numbers; the schedule counts on that.
    known = (stability is None, difficulty is None, not content.get("last"))
    if known != (state == "new",) * 3 or (step is None) != (state in ("new", "review")):
        raise _damaged(f"{name}.state", "does not go with its numbers")
    return Plan(
        due=_date(content.get("due"), f"{name}.due"),
        at=_date(content.get("at"), f"{name}.at"),
        turn=_whole(content.get("turn", 0), f"{name}.turn", 10**9),
        state=state,
        step=None if step is None else _whole(step, f"{name}.step", 9),
        stability=None if stability is None else _number(stability, name, 0.0001, 1e6),
        difficulty=None if difficulty is None else _number(difficulty, name, 1, 10),
        last=_date(content.get("last", ""), f"{name}.last", or_none=True),
        reviews=_whole(content.get("reviews", 0), f"{name}.reviews", 10**9),
        lapses=_whole(content.get("lapses", 0), f"{name}.lapses", 10**9),
        by="" if not content.get("by") else _text(content["by"], f"{name}.by", _ID),
    )


def _standing(value: Any, name: str) -> Standing:
    content = _object(value, name)
    status = content.get("status")
    if status not in ("on", "suspended", "removed"):
        raise _damaged(f"{name}.status", "is not what it should be")
    turn = _whole(content.get("turn", 0), f"{name}.turn", 10**9)
    return Standing(status, _date(content.get("at"), f"{name}.at"), turn)


def _review(value: Any) -> Review:
    content = _object(value, "deck.log")
    rating = _whole(content.get("rating"), "deck.log.rating", 4)
    if rating == 0:
        raise _damaged("deck.log.rating", "is not a number that it can be")
    return Review(
        _text(content.get("id"), "deck.log.id", _ID),
        _text(content.get("card"), "deck.log.card", _CARD),
        _date(content.get("at"), "deck.log.at"),
        rating,
        _plan(content.get("before"), "deck.log.before"),
    )
