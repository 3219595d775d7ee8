"""What a learner has done, as records: attempts, notes, predictions and the review deck.

Times are text, "2026-11-30T12:00:00Z", which sorts as the times do.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from quiz.errors import QuizError

SCHEMA = "kv-scope-progress/2"
FOUR_QUESTIONS = "four-questions"
MAX_BYTES = 2 * 1024 * 1024
"""Of the whole document; a browser keeps some 5 million characters for a site."""
MAX_PAST = 50
MAX_NOTES = 500
MAX_NOTE_CHARS = 4000
MAX_QUOTE_CHARS = 1000
MAX_ABOUT_CHARS = 500
MAX_TAGS = 8
MAX_REMOVED = 2000
MAX_PREDICTIONS = 200
MAX_ANSWER = 200
"""Characters of a word that was chosen."""
MAX_CARDS = 600
MAX_LOG = 50
RETENTION = 0.9
LEAST_RETENTION, MOST_RETENTION = 0.7, 0.97

State = Literal["new", "learning", "review", "relearning"]
Status = Literal["on", "suspended", "removed"]

_TAG = re.compile(r"[\w-]{1,30}")


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
class Source:
    """Where a quote stands. place: the page's address; section: the heading above the quote, and
    anchor its id where the page gives it one; query: the page's controls at that moment."""

    place: str
    section: str = ""
    anchor: str = ""
    query: str = ""

    @property
    def address(self) -> str:
        query = f"?{self.query}" if self.query else ""
        return f"{self.place}{query}{f'#{self.anchor}' if self.anchor else ''}"


@dataclass(frozen=True, slots=True)
class Note:
    """An entry of the notebook. page: the title of the page that it is about. text: Markdown.
    about: what it was written under, e.g. the prediction. edited: "" while it is as first written.
    """

    id: str
    at: str
    page: str
    text: str
    about: str = ""
    edited: str = ""
    tags: tuple[str, ...] = ()
    quote: str = ""
    source: Source | None = None

    @property
    def touched(self) -> str:
        return max(self.at, self.edited)


@dataclass(frozen=True, slots=True)
class Predicted:
    """What was locked in. said: field → value; ask: the question, as it was put."""

    at: str
    said: dict[str, int | str]
    ask: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """When a card is asked again, and what the schedule knows of it.

    stability: days until the chance of recall has fallen to 0.9; difficulty: 1 to 10; both None
    before the first review. step: place among the short first intervals. last: the last review.
    by: the id of the review that made this plan. at, turn: when it was made, and the how manieth
    it is, so that of two plans the later one counts even within one second.
    """

    due: str
    at: str
    turn: int = 0
    state: State = "new"
    step: int | None = None
    stability: float | None = None
    difficulty: float | None = None
    last: str = ""
    reviews: int = 0
    lapses: int = 0
    by: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a card is asked at all, since `at`."""

    status: Status
    at: str
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Review:
    """One answer to a card. rating: 1 (again) to 4 (easy). before: the plan until then."""

    id: str
    card: str
    at: str
    rating: int
    before: Plan


@dataclass(frozen=True, slots=True)
class Deck:
    """The review deck. plans, standing: by card. log: the last reviews, oldest first, so that they
    can be undone. retention: the chance of recall at which a card is asked again."""

    plans: dict[str, Plan] = field(default_factory=dict)
    standing: dict[str, Standing] = field(default_factory=dict)
    log: tuple[Review, ...] = ()
    retention: float = RETENTION
    retention_at: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """attempt: the present one, kept when done until the next begins. past: those before, oldest
    first, with the one that each other gate stands at. completed: lesson → when. begun: page →
    when something was done there. predictions: by page and question. removed: ids of notes that
    were taken out → when, so that a merge does not bring them back. since: what is older was
    thrown away, for the same reason."""

    attempt: Attempt | None = None
    past: tuple[Attempt, ...] = ()
    completed: dict[str, str] = field(default_factory=dict)
    begun: dict[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    predictions: dict[str, Predicted] = field(default_factory=dict)
    deck: Deck = field(default_factory=Deck)
    removed: dict[str, str] = field(default_factory=dict)
    since: str = ""

    def to_json(self) -> str:
        """The document as text, the same text for the same content."""
        content = {"schema": SCHEMA, **asdict(self)}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True)

    @property
    def fits(self) -> bool:
        """Whether it can be read again: there is a limit to the whole."""
        return len(self.to_json().encode("utf-8", "surrogatepass")) <= MAX_BYTES

    def with_note(self, note: Note) -> Progress:
        """With a new note, or another version of one. Raises QuizError when the notebook is full:
        nothing is dropped to make room."""
        others = tuple(one for one in self.notes if one.id != note.id)
        if len(others) >= MAX_NOTES:
            raise QuizError(
                f"the notebook holds {MAX_NOTES} notes and is full; export it and delete some"
            )
        kept = tuple(sorted((*others, cut(note)), key=lambda one: (one.at, one.id)))
        changed = replace(self, notes=kept)
        if not changed.fits:
            raise QuizError(
                f"the notebook has reached the {MAX_BYTES // 1024:,} KiB that a browser keeps "
                "safely; export it and delete some notes"
            )
        return changed

    def without_note(self, note_id: str, at: str) -> Progress:
        kept = tuple(note for note in self.notes if note.id != note_id)
        removed = {**self.removed, note_id: at}
        return replace(self, notes=kept, removed=newest(removed, MAX_REMOVED))

    def without_notes(self, at: str) -> Progress:
        """An empty notebook."""
        removed = {**self.removed, **{note.id: at for note in self.notes}}
        return replace(self, notes=(), removed=newest(removed, MAX_REMOVED))

    def with_begun(self, page: str, at: str) -> Progress:
        return replace(self, begun={page: at, **self.begun})

    def with_prediction(self, name: str, said: Predicted) -> Progress:
        """With what was locked in; without it, where it could not be read again."""
        long = any(
            isinstance(value, str) and len(value) > MAX_ANSWER for value in said.said.values()
        )
        if long or (name not in self.predictions and len(self.predictions) >= MAX_PREDICTIONS):
            return self
        return replace(self, predictions={**self.predictions, name: said})


def cut(note: Note) -> Note:
    """A note within the limits of its fields."""
    return replace(
        note,
        text=note.text[:MAX_NOTE_CHARS],
        quote=note.quote[:MAX_QUOTE_CHARS],
        about=note.about[:MAX_ABOUT_CHARS],
        tags=note.tags[:MAX_TAGS],
    )


def newest(dated: dict[str, str], most: int) -> dict[str, str]:
    """The latest entries, in the order of their keys."""
    kept = sorted(dated, key=lambda name: (dated[name], name))[-most:]
    return {name: dated[name] for name in sorted(kept)}


def tags(typed: str) -> tuple[str, ...]:
    """The tags in what somebody typed: "#KV-size, paging" → ("kv-size", "paging")."""
    found = (match.group().strip("-_") for match in _TAG.finditer(typed.lower()))
    return tuple(dict.fromkeys(filter(None, found)))[:MAX_TAGS]


def now() -> str:
    """The present time as the document writes it."""
    return written(datetime.now(UTC))


def written(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(at: str) -> datetime:
    """The time that a text of the document names."""
    return datetime.strptime(at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
