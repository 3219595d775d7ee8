"""Two documents in one: two tabs, two devices, or an export that is taken in.

Merging is commutative, associative and idempotent, so it does not matter who merges with whom, in
which order and how often. Everything has a time, and the later of two counts; what the times do not
tell apart, the content does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, TypeVar

from quiz.errors import QuizError
from quiz.records import (
    MAX_CARDS,
    MAX_LOG,
    MAX_NOTES,
    MAX_PAST,
    MAX_PREDICTIONS,
    MAX_REMOVED,
    RETENTION,
    Attempt,
    Deck,
    Note,
    Plan,
    Predicted,
    Progress,
    Review,
    Standing,
    newest,
)

Dated = TypeVar("Dated", bound=Plan | Standing | Predicted)


def merge(a: Progress, b: Progress) -> Progress:
    """Both in one, less what either has thrown away. The later attempt, edit, review and day count;
    a note that was taken out stays out. Of two answers to one question the first in the order of
    their keys counts."""
    since = max(a.since, b.since)
    attempt, past = _attempts(a, b, since)
    removed = _later(a.removed, b.removed, "")
    return Progress(
        attempt=attempt,
        past=past,
        completed=_later(a.completed, b.completed, since),
        begun=_later(a.begun, b.begun, since),
        notes=_notes((*a.notes, *b.notes), removed, since),
        predictions=_latest(a.predictions, b.predictions, since, MAX_PREDICTIONS),
        deck=_decks(a.deck, b.deck, since),
        removed=newest(removed, MAX_REMOVED),
        since=since,
    )


def take_in(known: Progress, found: Progress) -> Progress:
    """What is known with what a file holds. A file only adds: what it once threw away stays here,
    and what was thrown away here and is in the file comes back, because somebody fetched it. Raises
    QuizError where both together are more than can be kept: nothing is dropped to make room."""
    floor = known.since
    attempts = [replace(one, at=max(one.at, floor)) for one in found.past]
    notes = [_brought_back(note, known.removed, floor) for note in found.notes]
    deck = found.deck
    fetched = replace(
        found,
        attempt=found.attempt and replace(found.attempt, at=max(found.attempt.at, floor)),
        past=tuple(attempts),
        completed={name: max(at, floor) for name, at in found.completed.items()},
        begun={name: max(at, floor) for name, at in found.begun.items()},
        notes=tuple(notes),
        predictions=_raised(found.predictions, floor),
        deck=replace(
            deck,
            plans=_raised(deck.plans, floor),
            standing=_raised(deck.standing, floor),
            log=tuple(replace(one, at=max(one.at, floor)) for one in deck.log),
            retention_at=deck.retention_at and max(deck.retention_at, floor),
        ),
        removed={},
        since="",
    )
    both = merge(known, fetched)
    if len({note.id for note in (*known.notes, *notes)}) > MAX_NOTES:
        raise QuizError(f"together with what is here it has more than {MAX_NOTES} notes")
    if not both.fits:
        raise QuizError("together with what is here it is more than a browser keeps safely")
    return both


def _brought_back(note: Note, removed: Mapping[str, str], floor: str) -> Note:
    """Under another id where its own is known as taken out: always the same one, so that a file
    which is taken in twice adds it once."""
    while note.id in removed:
        name = hashlib.sha256(f"{note.id} {removed[note.id]}".encode()).hexdigest()[:16]
        note = replace(note, id=name)
    return note if note.touched >= floor else replace(note, edited=floor)


def _raised(dated: Mapping[str, Dated], floor: str) -> dict[str, Dated]:
    return {name: replace(one, at=max(one.at, floor)) for name, one in dated.items()}


def _attempts(a: Progress, b: Progress, since: str) -> tuple[Attempt | None, tuple[Attempt, ...]]:
    attempts: dict[tuple[str, str], Attempt] = {}
    for one in (*a.past, *b.past, *filter(None, (a.attempt, b.attempt))):
        if one.at >= since:
            attempts[_name(one)] = _same(attempts.get(_name(one), one), one)
    current = max(
        {_name(one) for one in (a.attempt, b.attempt) if one is not None and one.at >= since},
        key=lambda name: (attempts[name].at, name),
        default=None,
    )
    ordered = sorted(attempts.values(), key=lambda one: (one.at, _name(one)))
    last_of = {one.gate: one.id for one in ordered}
    past = [
        one
        for one in ordered
        if _name(one) != current
        and (last_of[one.gate] == one.id or any(question.answer for question in one.asked))
    ]
    return None if current is None else attempts[current], tuple(past[-MAX_PAST:])


def _name(one: Attempt) -> tuple[str, str]:
    return one.id, one.gate


def _same(a: Attempt, b: Attempt) -> Attempt:
    """One attempt as two tabs know it."""
    first, second = sorted((a, b), key=_what)
    if _what(a) != _what(b):
        return first  # one id for two different attempts: no file of ours says that
    answered = tuple(
        replace(x, answer=min(filter(None, (x.answer, y.answer)), default=""))
        for x, y in zip(first.asked, second.asked, strict=True)
    )
    return replace(first, at=max(a.at, b.at), asked=answered)


def _what(attempt: Attempt) -> tuple[str, list[tuple[str, int]]]:
    return attempt.gate, [(one.template, one.seed) for one in attempt.asked]


def _later(a: Mapping[str, str], b: Mapping[str, str], since: str) -> dict[str, str]:
    """The later of two dates: the earlier would not survive a third document's `since`."""
    out: dict[str, str] = {}
    for name, at in (*a.items(), *b.items()):
        if at >= since:
            out[name] = max(at, out.get(name, at))
    return out


def _order(one: Any) -> tuple[Any, ...]:
    """The later one is larger; where the times are equal, the content decides, the same way for
    everybody."""
    touched = one.touched if isinstance(one, Note) else one.at
    return touched, getattr(one, "turn", 0), json.dumps(asdict(one), sort_keys=True)


def _latest(
    a: Mapping[str, Dated], b: Mapping[str, Dated], since: str, most: int
) -> dict[str, Dated]:
    found: dict[str, Dated] = {}
    for name, one in (*a.items(), *b.items()):
        if one.at >= since:
            before = found.get(name)
            found[name] = one if before is None or _order(one) > _order(before) else before
    kept = sorted(found, key=lambda name: (found[name].at, name))[-most:]
    return {name: found[name] for name in sorted(kept)}


def _notes(found: Iterable[Note], removed: Mapping[str, str], since: str) -> tuple[Note, ...]:
    notes: dict[str, Note] = {}
    for note in found:
        if note.id not in removed and note.touched >= since:
            notes[note.id] = max(note, notes.get(note.id, note), key=_order)
    kept = sorted(notes.values(), key=lambda note: (note.touched, note.id))[-MAX_NOTES:]
    return tuple(sorted(kept, key=lambda note: (note.at, note.id)))


def _decks(a: Deck, b: Deck, since: str) -> Deck:
    log: dict[str, Review] = {}
    for one in (*a.log, *b.log):
        if one.at >= since:
            log[one.id] = max(one, log.get(one.id, one), key=_order)
    target = max(
        ((deck.retention_at, deck.retention) for deck in (a, b) if deck.retention_at >= since),
        default=("", RETENTION),
    )
    return Deck(
        plans=_latest(a.plans, b.plans, since, MAX_CARDS),
        standing=_latest(a.standing, b.standing, since, MAX_CARDS),
        log=tuple(sorted(log.values(), key=lambda one: (one.at, one.id))[-MAX_LOG:]),
        retention=target[1],
        retention_at=target[0],
    )
