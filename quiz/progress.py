"""What a learner has done: one versioned JSON document, kept in their own browser.

`read` takes it from text that nobody vouches for, `merge` puts two of them together, `take_in` adds
a file. The records themselves are in `quiz.records`.
"""

from __future__ import annotations

from quiz.merging import merge, take_in
from quiz.reading import document, notes, read, source
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
    MAX_QUOTE_CHARS,
    MOST_RETENTION,
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
    State,
    Status,
    moment,
    now,
    tags,
    written,
)

__all__ = [
    "FOUR_QUESTIONS",
    "LEAST_RETENTION",
    "MAX_ABOUT_CHARS",
    "MAX_BYTES",
    "MAX_CARDS",
    "MAX_LOG",
    "MAX_NOTES",
    "MAX_NOTE_CHARS",
    "MAX_PAST",
    "MAX_QUOTE_CHARS",
    "MOST_RETENTION",
    "SCHEMA",
    "Asked",
    "Attempt",
    "Deck",
    "Note",
    "Plan",
    "Predicted",
    "Progress",
    "Review",
    "Source",
    "Standing",
    "State",
    "Status",
    "document",
    "merge",
    "moment",
    "notes",
    "now",
    "read",
    "source",
    "tags",
    "take_in",
    "written",
]
