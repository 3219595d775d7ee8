"""Progress: what is written can be read, what is damaged is refused, what is old is brought up."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiz import gate
from quiz.errors import QuizError
from quiz.progress import (
    MAX_BYTES,
    MAX_NOTE_CHARS,
    MAX_NOTES,
    SCHEMA,
    Note,
    Predicted,
    Progress,
    merge,
    read,
    source,
    tags,
)
from quiz.reading import LONG_AGO
from tests.quiz.documents import progresses

AT = "2026-11-20T12:00:00Z"
OLD = Path(__file__).parents[1] / "fixtures" / "progress"


@given(progresses)
def test_what_is_written_is_read_again(progress: Progress) -> None:
    assert read(progress.to_json()) == progress


def _v1(progress: Progress) -> dict[str, Any]:
    """The document as the first version wrote it."""
    content = asdict(progress)
    for name in ("predictions", "deck"):
        del content[name]
    for note in content["notes"]:
        for name in ("edited", "tags", "quote", "source"):
            del note[name]
    for attempt in (*content["past"], *filter(None, [content["attempt"]])):
        del attempt["gate"]
    content["removed"] = list(progress.removed)
    return {"schema": "kv-scope-progress/1", **content}


@given(progresses)
def test_everything_in_a_document_of_the_first_version_is_kept(progress: Progress) -> None:
    old = _v1(progress)
    found = read(json.dumps(old))
    assert _v1(found) == old
    assert set(found.removed.values()) <= {LONG_AGO}
    assert read(found.to_json()) == found


def test_documents_that_the_first_version_wrote() -> None:
    mastered = read((OLD / "v1_mastered.json").read_text("utf-8"))
    assert mastered.completed == {gate.LESSON: "2026-11-21T10:03:30Z"}
    assert mastered.attempt is not None and mastered.attempt.right == 4
    assert [one.right for one in mastered.past] == [3]
    assert [note.about for note in mastered.notes] == [
        "You said 8 blocks, 0 empty slots.",
        "You said 64.",
    ]
    assert list(mastered.removed.values()) == [LONG_AGO]
    middle = read((OLD / "v1_in_the_middle.json").read_text("utf-8"))
    assert middle.attempt is not None
    assert [bool(one.answer) for one in middle.attempt.asked] == [True, False, False, False]
    assert middle.since == "2026-11-22T00:00:00Z"
    assert len(gate.items(middle.attempt)) == 4  # the attempt goes on where it was
    assert merge(mastered, middle).attempt == middle.attempt


def test_text_that_is_not_progress_is_one_sentence() -> None:
    for text in ("", "null", "[]", "{}", "x" * 10, '{"schema": 1}', "[" * 100_000, "\ud800"):
        with pytest.raises(QuizError) as caught:
            read(text)
        assert "\n" not in str(caught.value)


def test_another_version_is_said_and_not_guessed_at() -> None:
    with pytest.raises(QuizError, match="another version"):
        read('{"schema": "kv-scope-progress/3"}')


def test_what_is_too_large_is_not_even_parsed() -> None:
    with pytest.raises(QuizError, match="KiB"):
        read(" " * (MAX_BYTES + 1))


_NOTE = {"id": "a", "at": AT, "page": "p", "text": "x"}
_PLAN = {"due": AT, "at": AT}
_REVIEWED = {**_PLAN, "state": "review", "stability": 3.0, "difficulty": 5.0, "last": AT}


@pytest.mark.parametrize(
    "change",
    [
        {"attempt": 3},
        {"attempt": {"id": "a", "at": "yesterday", "asked": []}},
        {"attempt": {"id": "../x", "at": AT, "asked": []}},
        {"attempt": {"id": "a", "at": AT, "asked": [], "gate": "../x"}},
        {"past": {}},
        {"past": [None]},
        {"past": [{}] * 51},
        {"completed": []},
        {"completed": {"x": "2026-13-40T12:00:00Z"}},
        {"begun": {"x": "soon"}},
        {"completed": {"x": "soon"}},
        {"notes": [{**_NOTE, "text": "x" * (MAX_NOTE_CHARS + 1)}]},
        {"notes": [{**_NOTE, "text": "\ud800"}]},
        {"notes": [{**_NOTE, "tags": ["two words"]}]},
        {"notes": [{**_NOTE, "tags": "kv"}]},
        {"notes": [{**_NOTE, "source": {"place": "https://elsewhere.example"}}]},
        {"notes": [{**_NOTE, "source": {"place": "quiz", "query": '"><script>'}}]},
        {"notes": [{**_NOTE, "source": {"place": "quiz", "anchor": "a b"}}]},
        {"notes": [_NOTE] * (MAX_NOTES + 1)},
        {"predictions": {"quiz/p": {"at": AT, "said": {"x": 1.5}}}},
        {"predictions": {"quiz/p": {"at": AT, "said": []}}},
        {"deck": []},
        {"deck": {"plans": {"a b": _PLAN}}},
        {"deck": {"plans": {"x/y": {**_PLAN, "due": "2026-02-30T00:00:00Z"}}}},
        {"deck": {"plans": {"x/y": {**_PLAN, "state": "review"}}}},
        {"deck": {"plans": {"x/y": {**_REVIEWED, "stability": -1.0}}}},
        {"deck": {"plans": {"x/y": {**_REVIEWED, "stability": float("nan")}}}},
        {"deck": {"plans": {"x/y": {**_REVIEWED, "difficulty": True}}}},
        {"deck": {"plans": {"x/y": {**_REVIEWED, "state": "learning"}}}},
        {"deck": {"standing": {"x/y": {"status": "on", "at": ""}}}},
        {"deck": {"log": [{"id": "a", "card": "x/y", "at": AT, "rating": 0, "before": _PLAN}]}},
        {"deck": {"retention": 1.0, "retention_at": AT}},
        {"removed": {"a": 1}},
        {"removed": ["a"]},
        {"since": "2026"},
    ],
)
def test_a_damaged_part_is_named_and_nothing_of_it_is_taken(change: dict[str, Any]) -> None:
    content = {"schema": SCHEMA, **asdict(Progress()), **change}
    with pytest.raises(QuizError, match="damaged"):
        read(json.dumps(content))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
        max_leaves=8,
    ),
    st.sampled_from([*asdict(Progress())]),
    st.sampled_from([SCHEMA, "kv-scope-progress/1"]),
)
def test_any_content_is_read_or_refused(value: Any, name: str, schema: str) -> None:
    content = {"schema": schema, **asdict(Progress()), "removed": [] if "1" in schema else {}}
    content[name] = value
    try:
        found = read(json.dumps(content))
    except QuizError as exc:
        assert "\n" not in str(exc)
    else:
        assert read(found.to_json()) == found


def _note(name: str, text: str = "x") -> Note:
    return Note(name, AT, "Block pool", text)


def test_a_full_notebook_says_so_and_drops_nothing() -> None:
    full = Progress(notes=tuple(_note(f"n{i:03}") for i in range(MAX_NOTES)))
    with pytest.raises(QuizError, match="full"):
        full.with_note(_note("one-more"))
    edited = full.with_note(replace(_note("n000"), text="edited"))  # no room is needed for that
    assert len(edited.notes) == MAX_NOTES and edited.notes[0].text == "edited"
    large = Progress(
        notes=tuple(_note(f"n{i:03}", "\U0001f9f1" * MAX_NOTE_CHARS) for i in range(120))
    )
    added = 0
    while replace(large, notes=(*large.notes, _note("m", "\U0001f9f1" * MAX_NOTE_CHARS))).fits:
        large = large.with_note(_note(f"m{added}", "\U0001f9f1" * MAX_NOTE_CHARS))
        added += 1
    assert added
    with pytest.raises(QuizError, match="KiB"):
        large.with_note(_note("one-more", "\U0001f9f1" * MAX_NOTE_CHARS))
    assert read(large.to_json()) == large


def test_a_note_is_cut_to_what_can_be_read_again() -> None:
    note = replace(_note("a", "x" * 9999), quote="q" * 9999, tags=tuple("abcdefghijkl"))
    kept = Progress().with_note(note)
    assert read(kept.to_json()) == kept


@pytest.mark.parametrize("lesson", gate.lessons())
def test_every_attempt_that_is_drawn_can_be_read_again(lesson: str) -> None:
    known = Progress()
    for seed in range(6):
        known = gate.start(known, Random(seed), AT, lesson)
        for place in range(gate.QUESTIONS):
            known = gate.answer(known, place, "right", AT, lesson)
    assert read(known.to_json()) == known


def test_a_prediction_that_could_not_be_read_again_is_not_kept() -> None:
    known = Progress().with_prediction("quiz/p", Predicted(AT, {"x": "y" * 201}))
    assert known == Progress()


def test_tags_are_what_was_meant() -> None:
    assert tags("#KV-size, paging  Größe") == ("kv-size", "paging", "größe")
    assert tags("--- , #") == ()
    assert tags("a a A") == ("a",)


def test_a_source_leads_to_a_page_of_the_course_and_nowhere_else() -> None:
    whole = source("block_pool", "Whole blocks", "whole-blocks", "run=x&step=4")
    assert whole.address == "block_pool?run=x&step=4#whole-blocks"
    hostile = source("block_pool", 7, "a b", 'x="><script>')
    assert hostile.address == "block_pool" and hostile.section == ""
