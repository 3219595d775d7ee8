"""Two tabs, two devices, a file: what comes together, whoever merges with whom."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from quiz.errors import QuizError
from quiz.progress import (
    Deck,
    Note,
    Plan,
    Predicted,
    Progress,
    Standing,
    merge,
    read,
    take_in,
)
from tests.quiz.documents import attempt, progresses

EARLY, LATE = "2026-11-20T12:00:00Z", "2026-11-21T12:00:00Z"
NOTE = Note("a", EARLY, "Block pool", "it was whole blocks")


@given(progresses, progresses, progresses)
def test_merging_does_not_depend_on_who_merges(a: Progress, b: Progress, c: Progress) -> None:
    assert merge(a, b) == merge(b, a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    once = merge(a, b)
    assert merge(once, b) == merge(once, a) == merge(once, once) == once
    assert read(once.to_json()) == once


@given(progresses, progresses)
def test_a_merge_loses_nothing_but_what_was_thrown_away(a: Progress, b: Progress) -> None:
    both = merge(a, b)
    kept = {note.id for note in both.notes}
    for note in (*a.notes, *b.notes):
        assert note.id in kept or note.id in both.removed or note.touched < both.since
    for lesson, at in (*a.completed.items(), *b.completed.items()):
        assert lesson in both.completed or at < both.since
    for page, at in (*a.begun.items(), *b.begun.items()):
        assert at < both.since or both.begun[page] >= at
    for name, said in (*a.predictions.items(), *b.predictions.items()):
        assert said.at < both.since or both.predictions[name].at >= said.at
    for deck in (a.deck, b.deck):
        for name, plan in deck.plans.items():
            assert plan.at < both.since or both.deck.plans[name].at >= plan.at
        for name, standing in deck.standing.items():
            assert standing.at < both.since or both.deck.standing[name].at >= standing.at
        known = {one.id for one in both.deck.log}
        assert all(one.id in known or one.at < both.since for one in deck.log)
    ids_left = {one.id for one in (*both.past, *filter(None, [both.attempt]))}
    for one in (*a.past, *b.past):
        answered = any(question.answer for question in one.asked)
        assert one.id in ids_left or one.at < both.since or not answered


def test_the_answers_of_two_tabs_come_together() -> None:
    one = Progress(attempt=attempt("b", ["right", "", ""]))
    other = Progress(attempt=attempt("b", ["", "wrong", ""]))
    merged = merge(one, other).attempt
    assert merged is not None
    assert [asked.answer for asked in merged.asked] == ["right", "wrong", ""]


def test_the_later_attempt_goes_on_and_the_other_is_past() -> None:
    old, new = attempt("a", ["right", "", ""]), attempt("c", ["", "", ""])
    merged = merge(Progress(attempt=old), Progress(attempt=new))
    assert merged.attempt == new
    assert merged.past == (old,)


def test_of_two_edits_the_later_one_counts() -> None:
    one = Progress(notes=(replace(NOTE, text="first edit", edited=EARLY),))
    other = Progress(notes=(replace(NOTE, text="second edit", edited=LATE, tags=("kv",)),))
    assert merge(one, other).notes == other.notes
    assert merge(Progress(notes=(NOTE,)), one).notes[0].id == "a"


def test_a_note_taken_out_does_not_come_back_from_another_tab() -> None:
    both = Progress(notes=(NOTE,))
    assert merge(both.without_note("a", LATE), both).notes == ()
    edited_later = Progress(notes=(replace(NOTE, edited="2026-11-29T12:00:00Z"),))
    assert merge(both.without_note("a", LATE), edited_later).notes == ()
    assert merge(both.without_notes(LATE), both).notes == ()


def _plan(at: str, turn: int, by: str) -> Plan:
    return Plan(LATE, at, turn, "review", None, 3.0, 5.0, at, 1, 0, by)


def test_of_two_reviews_of_a_card_the_later_one_counts() -> None:
    one = Progress(deck=Deck({"paging/blocks": _plan(EARLY, 3, "x")}))
    other = Progress(deck=Deck({"paging/blocks": _plan(LATE, 1, "y")}))
    assert merge(one, other).deck.plans["paging/blocks"].by == "y"
    undone = Progress(deck=Deck({"paging/blocks": _plan(LATE, 2, "before")}))
    assert merge(undone, other).deck.plans["paging/blocks"].by == "before"  # in the same second


def test_a_card_set_aside_in_one_tab_keeps_the_review_of_the_other() -> None:
    one = Progress(deck=Deck({"paging/blocks": _plan(EARLY, 1, "x")}))
    other = Progress(deck=Deck(standing={"paging/blocks": Standing("suspended", LATE)}))
    deck = merge(one, other).deck
    assert deck.plans["paging/blocks"].by == "x"
    assert deck.standing["paging/blocks"].status == "suspended"


def test_forgetting_everything_holds_in_another_tab() -> None:
    full = Progress(
        attempt=attempt("a", ["right", "", ""]),
        completed={"x": EARLY},
        notes=(NOTE,),
        predictions={"quiz/p": Predicted(EARLY, {"x": 1})},
        deck=Deck({"paging/blocks": _plan(EARLY, 1, "x")}, retention=0.8, retention_at=EARLY),
    )
    forgotten = Progress(since="2026-11-29T12:00:00Z")
    assert merge(full, forgotten) == forgotten


@given(progresses, progresses)
def test_a_file_only_adds_and_twice_is_as_good_as_once(a: Progress, b: Progress) -> None:
    a, b = merge(a, a), merge(b, b)  # a document of ours is merged before it is exported
    once = take_in(a, b)
    assert take_in(once, b) == once
    assert {note.id for note in a.notes} <= {note.id for note in once.notes}
    there = {note.id for note in a.notes}
    for note in b.notes:  # a note of both is the one that was edited later
        assert note.id in there or note.text in {one.text for one in once.notes}
    assert {*a.completed, *b.completed} == {*once.completed}
    assert {*a.deck.plans, *b.deck.plans} == {*once.deck.plans}
    assert read(once.to_json()) == once


def test_an_export_brings_back_what_was_erased_after_it() -> None:
    before = Progress(completed={"four-questions": EARLY}, notes=(NOTE,))
    erased = Progress(since="2026-11-29T12:00:00Z")
    back = take_in(erased, before)
    assert back.completed.keys() == before.completed.keys()
    assert back.notes[0].text == NOTE.text and back.notes[0].at == NOTE.at
    assert merge(back, erased) == back  # another tab that knows of the erasing only
    emptied = before.without_notes(LATE)
    assert [note.text for note in take_in(emptied, before).notes] == [NOTE.text]
    assert len(take_in(take_in(emptied, before), before).notes) == 1


def test_a_file_that_is_too_much_is_refused_and_nothing_is_dropped_for_it() -> None:
    def many(letter: str) -> Progress:
        notes = tuple(replace(NOTE, id=f"{letter}{i:03}") for i in range(300))
        return Progress(notes=notes)

    with pytest.raises(QuizError, match="more than 500 notes"):
        take_in(many("a"), many("b"))
    assert len(take_in(many("a"), many("a")).notes) == 300


def test_a_file_cannot_throw_away_what_is_here() -> None:
    here = Progress(completed={"four-questions": EARLY}, notes=(NOTE,))
    hostile = Progress(since="2299-12-31T23:59:59Z", removed={"a": LATE})
    assert take_in(here, hostile) == here
