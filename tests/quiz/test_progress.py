"""Progress: what is written can be read, what is damaged is refused, tabs merge in any order."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiz.errors import QuizError
from quiz.progress import MAX_BYTES, SCHEMA, Asked, Attempt, Note, Progress, merge, read

dates = st.integers(0, 5).map(lambda day: f"2026-11-2{day}T12:00:00Z")
ids = st.sampled_from(["a", "b", "c", "d"])
texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=12)


def _attempt(name: str, answers: list[str], gate: str = "four-questions") -> Attempt:
    """Attempts of one id ask the same at the same time, as ours do."""
    day = ord(name) - ord("a")
    asked = tuple(
        Asked(f"t{i}", day * 10 + i, f"t{i} {day}", answer) for i, answer in enumerate(answers)
    )
    return Attempt(name, f"2026-11-2{day}T12:00:00Z", asked, gate)


attempts = st.builds(
    _attempt,
    ids,
    st.lists(st.sampled_from(["", "right", "wrong"]), min_size=3, max_size=3),
    st.sampled_from(["four-questions", "tiers"]),
)
notes = st.builds(Note, ids, dates, texts, texts, texts)


def _unique(values: list[Any]) -> tuple[Any, ...]:
    return tuple({one.id: one for one in values}.values())


progresses = st.builds(
    Progress,
    attempt=st.none() | attempts,
    past=st.lists(attempts, max_size=3).map(_unique),
    completed=st.dictionaries(st.sampled_from(["four-questions", "x"]), dates),
    begun=st.dictionaries(st.sampled_from(["quiz", "block_pool"]), dates),
    notes=st.lists(notes, max_size=3).map(_unique),
    removed=st.lists(ids, max_size=2).map(tuple),
    since=st.just("") | dates,
)


@given(progresses)
def test_what_is_written_is_read_again(progress: Progress) -> None:
    assert read(progress.to_json()) == progress


@given(progresses, progresses, progresses)
def test_merging_does_not_depend_on_who_merges(a: Progress, b: Progress, c: Progress) -> None:
    assert merge(a, b) == merge(b, a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    once = merge(a, b)
    assert merge(once, b) == merge(once, a) == merge(once, once) == once


@given(progresses, progresses)
def test_a_merge_loses_nothing_but_what_was_thrown_away(a: Progress, b: Progress) -> None:
    both = merge(a, b)
    kept = {note.id for note in both.notes}
    for note in (*a.notes, *b.notes):
        assert note.id in kept or note.id in both.removed or note.at < both.since
    for lesson, at in (*a.completed.items(), *b.completed.items()):
        assert lesson in both.completed or at < both.since
    for page, at in (*a.begun.items(), *b.begun.items()):
        assert at < both.since or both.begun[page] >= at
    ids_left = {one.id for one in (*both.past, *filter(None, [both.attempt]))}
    for one in (*a.past, *b.past):
        answered = any(question.answer for question in one.asked)
        assert one.id in ids_left or one.at < both.since or not answered


def test_the_answers_of_two_tabs_come_together() -> None:
    one = Progress(attempt=_attempt("b", ["right", "", ""]))
    other = Progress(attempt=_attempt("b", ["", "wrong", ""]))
    merged = merge(one, other).attempt
    assert merged is not None
    assert [asked.answer for asked in merged.asked] == ["right", "wrong", ""]


def test_the_later_attempt_goes_on_and_the_other_is_past() -> None:
    old, new = _attempt("a", ["right", "", ""]), _attempt("c", ["", "", ""])
    merged = merge(Progress(attempt=old), Progress(attempt=new))
    assert merged.attempt == new
    assert merged.past == (old,)


def test_a_note_taken_out_does_not_come_back_from_another_tab() -> None:
    note = Note("a", "2026-11-20T12:00:00Z", "Block pool", "it was whole blocks")
    both = Progress(notes=(note,))
    assert merge(both.without_note("a"), both).notes == ()


def test_forgetting_everything_holds_in_another_tab() -> None:
    full = Progress(
        attempt=_attempt("a", ["right", "", ""]), completed={"x": "2026-11-20T12:00:00Z"}
    )
    forgotten = Progress(since="2026-11-29T12:00:00Z")
    assert merge(full, forgotten) == forgotten


def test_text_that_is_not_progress_is_one_sentence() -> None:
    for text in ("", "null", "[]", "{}", "x" * 10, '{"schema": 1}', "[" * 100_000, "\ud800"):
        with pytest.raises(QuizError) as caught:
            read(text)
        assert "\n" not in str(caught.value)


def test_another_version_is_said_and_not_guessed_at() -> None:
    with pytest.raises(QuizError, match="another version"):
        read('{"schema": "kv-scope-progress/2"}')


def test_what_is_too_large_is_not_even_parsed() -> None:
    with pytest.raises(QuizError, match="KiB"):
        read(" " * (MAX_BYTES + 1))


@pytest.mark.parametrize(
    "change",
    [
        {"attempt": 3},
        {"attempt": {"id": "a", "at": "yesterday", "asked": []}},
        {"attempt": {"id": "../x", "at": "2026-11-20T12:00:00Z", "asked": []}},
        {"past": {}},
        {"past": [None]},
        {"past": [{}] * 51},
        {"completed": []},
        {"begun": {"x": "soon"}},
        {"completed": {"x": "soon"}},
        {"notes": [{"id": "a", "at": "2026-11-20T12:00:00Z", "page": "p", "text": "x" * 501}]},
        {"notes": [{"id": "a", "at": "2026-11-20T12:00:00Z", "page": "p", "text": "\ud800"}]},
        {"removed": [1]},
        {"since": "2026"},
    ],
)
def test_a_damaged_part_is_named_and_nothing_of_it_is_taken(change: dict[str, Any]) -> None:
    content = {"schema": SCHEMA, **asdict(Progress()), **change}
    with pytest.raises(QuizError, match="damaged"):
        read(json.dumps(content))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
        max_leaves=8,
    ),
    st.sampled_from(["attempt", "past", "completed", "begun", "notes", "removed", "since"]),
)
def test_any_content_is_read_or_refused(value: Any, name: str) -> None:
    content = {"schema": SCHEMA, **asdict(Progress()), name: value}
    try:
        found = read(json.dumps(content))
    except QuizError as exc:
        assert "\n" not in str(exc)
    else:
        assert read(found.to_json()) == found
