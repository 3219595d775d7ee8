"""How a lesson to read is taken apart, and what a search finds in it."""

from __future__ import annotations

import json
from gzip import decompress

import pytest

from ui import lesson, nav
from ui.course import data, index, place
from ui.kit import glossary
from ui.reading import document

SAMPLE = lesson.parse(
    """# A page
> What one can do.
## objectives
- one;
- two.
## first.short
### The *first* [[token]]
Short.
## first
### The *first* [[token]]
Some **prose** of [[block table|a table]], see [there](tiers?at=x), {n} of it.
::chart growth
More, with `code` and $x_{n}$.
::run two?step=2&block=6 | Two of them.
## second
### The second
Words.
## second.full
### The second
More words, $\\frac{a}{b}$.
## values
n = stated "5" "a source"
"""
)


def test_parts_come_in_their_order_with_their_headings() -> None:
    assert document.part_names(SAMPLE) == ["first", "second"]
    assert document.headings(SAMPLE, "short") == [
        ("first", "The first token"),
        ("second", "The second"),
    ]
    assert document.at_level(SAMPLE, "full")[1].endswith("$\\frac{a}{b}$.")


def test_a_part_is_prose_charts_and_runs() -> None:
    found = list(document.blocks(SAMPLE["first"]))
    assert [type(one).__name__ for one in found] == ["Prose", "Chart", "Prose", "Run"]
    assert found[1] == document.Chart("growth")
    assert found[3] == document.Run("two", {"step": "2", "block": "6"}, "Two of them.")


@pytest.mark.parametrize("line", ["::chart", "::chart a b", "::run a", "::picture a", "::run | x"])
def test_a_figure_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="::"):
        list(document.blocks(f"Words.\n{line} \n"))


def test_reading_takes_a_minute_at_least_and_more_for_more() -> None:
    assert document.minutes(SAMPLE, "short") == 1
    assert document.minutes(SAMPLE, "plain") == 2
    long = lesson.Lesson("t", "o", {"a": "### H\n" + "word " * 1000})
    assert document.minutes(long, "plain") == 6


def test_the_words_to_search_are_those_that_are_read() -> None:
    said = index.plain(SAMPLE["first"], SAMPLE)
    assert said == (
        "Some prose of a table, see there, 5 of it. More, with code and x_{n}. Two of them."
    )
    assert index.plain(SAMPLE["second.full"], SAMPLE) == "More words, ."


def test_the_index_holds_every_part_term_claim_and_number() -> None:
    entries = index.entries()
    assert json.loads(decompress(index.body()[0])) == list(entries)
    kinds = {entry["kind"] for entry in entries}
    assert kinds >= {"Lesson", "Lesson, in full", "Page", "Term", "Claim", "Number"}
    to = [entry["to"] for entry in entries]
    for read in nav.COURSE:
        if read.reads:
            for part in document.part_names(lesson.load(read.name)):
                assert f"{read.name}?at={part}" in to
    assert sum(entry["kind"] == "Term" for entry in entries) == len(glossary.entries())
    for entry in entries:
        assert entry["to"].partition("?")[0] in nav.PLACES
        assert entry["text"].strip() and "[[" not in entry["text"], entry
        assert not {"{", "::"} & set(entry["title"]), entry


def test_the_index_tells_no_verdict_before_the_vote() -> None:
    for entry in index.entries():
        if entry["kind"] == "Claim":
            assert set(entry) == {"kind", "title", "head", "to", "text"}
            assert entry["to"] == f"claims_ledger?claim={entry['title']}"


AT = "2026-11-30T12:00:00Z"


def test_the_map_goes_on_where_one_is() -> None:
    from quiz.progress import Progress

    first = data.next_place(None)
    assert first is not None and first == nav.STATIONS[0]
    begun = Progress().with_begun("batching", AT)
    ahead = data.next_place(begun)
    assert ahead is not None and ahead.name == "batching"
    first_done = Progress(completed={"serving": AT}, begun={"quiz": AT})
    ahead = data.next_place(first_done)  # and not the four questions, begun by another gate
    assert ahead is not None and ahead.name == "prefill_decode"
    sections = data.sections(begun)
    marks = {one["name"]: one["mark"] for section in sections for one in section["places"]}
    assert marks["batching"] == "begun" and set(marks.values()) == {"begun", "todo"}
    assert [one for section in sections for one in section["places"] if one["minutes"] < 0] == []


@pytest.mark.parametrize(
    ("params", "kept", "refused"),
    [
        ({"q": "paged attention"}, {"q": "paged attention"}, False),
        ({"q": "x" * 81}, {}, True),
        ({"q": "a\x00b", "view": "terms"}, {"view": "terms"}, True),
        ({"term": "block"}, {"term": "block"}, False),
        ({"term": "<script>", "view": "all"}, {}, True),
    ],
)
def test_a_link_to_the_course_s_page(
    params: dict[str, str], kept: dict[str, str], refused: bool
) -> None:
    found, notice = place.read(params)
    assert found == kept and bool(notice) == refused
    assert "script" not in (notice or "")


def test_what_the_browser_reports_is_not_trusted() -> None:
    assert place.written({"q": 3, "view": ["terms"], "term": "no such", "x": "y"}) == {}
    assert place.written("no") == {} and place.written({"view": "map", "q": "a"}) == {"q": "a"}
