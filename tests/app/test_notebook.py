"""The notebook page without a browser: written, found, edited, taken away and brought back."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiz.errors import QuizError
from quiz.progress import Note, Progress, Source, read, take_in
from tests.app.conftest import Open, text_of
from tests.quiz.documents import notes as made_notes
from ui.kit import notebook
from ui.notebook import files

AT = "2026-11-28T12:00:00Z"
NOTES = (
    Note("a1", AT, "Block pool", "Blocks are taken **whole**", "You said 8.", tags=("paging",)),
    Note(
        "a2",
        "2026-11-29T12:00:00Z",
        "KV sizing",
        "",
        tags=("kv", "paging"),
        quote="Keys and values of one token",
        source=Source("kv_sizing", "How it works", "how-it-works", "tp=2"),
    ),
    Note("a3", "2026-11-30T12:00:00Z", "Notebook", "Ask about <b>MLA</b> & more"),
)


def _open(open_page: Open, *notes: Note, **params: str) -> Any:
    at = open_page("notebook", **params)
    at.session_state["kv.progress"] = Progress(notes=notes)
    return at.run()


def _kept(at: Any) -> Progress:
    known: Progress = at.session_state["kv.progress"]
    return known


def _html(at: Any) -> str:
    return "\n".join(element.proto.body for element in at.get("html"))


def test_before_the_browser_has_answered_there_is_an_outline(open_page: Open) -> None:
    at = open_page("notebook")
    assert not at.exception
    assert "kv-skeleton" in _html(at)


def test_an_empty_notebook_says_how_it_fills(open_page: Open) -> None:
    at = _open(open_page)
    assert not at.exception
    assert "No notes yet." in _html(at) and "Quote in notebook" in _html(at)


def test_a_note_is_written_with_tags_and_a_page(open_page: Open) -> None:
    at = _open(open_page)
    at.text_area(key="notebook.new.text").set_value("  # Mine\n*whole* blocks ")
    at.text_input(key="notebook.new.tags").set_value("#Paging, to-do")
    at.selectbox(key="notebook.new.page").select("block_pool")
    at.button[0].click().run()
    assert not at.exception
    (note,) = _kept(at).notes
    assert (note.text, note.tags) == ("# Mine\n*whole* blocks", ("paging", "to-do"))
    assert (note.page, note.source) == ("Block pool", Source("block_pool"))
    assert at.text_area(key="notebook.new.text").value == ""
    assert "1 note" in _html(at)
    at.button[0].click().run()
    assert len(_kept(at).notes) == 1  # an empty one is none


def test_quotes_and_foreign_text_are_text_and_lead_back(open_page: Open) -> None:
    at = _open(open_page, *NOTES)
    assert not at.exception
    drawn = _html(at)
    assert 'href="kv_sizing?tp=2#how-it-works"' in drawn and "KV sizing: How it works" in drawn
    assert "<blockquote>Keys and values of one token</blockquote>" in drawn
    hostile = Note("h", AT, "<script>1</script>", "x", "<img src=x>", quote="<b>q</b>")
    drawn = _html(_open(open_page, hostile))
    assert "<script>1" not in drawn and "<img" not in drawn and "<b>q" not in drawn
    (markdown,) = [one for one in at.markdown if "MLA" in one.value]
    assert not markdown.proto.allow_html


def test_notes_are_found_by_words_page_and_tags(open_page: Open) -> None:
    at = _open(open_page, *NOTES)
    assert "3 notes" in _html(at)
    at.text_input(key="find").set_value("WHOLE blocks").run()
    assert "3 notes, 1 of them shown" in _html(at) and "whole" in text_of(at)
    at.text_input(key="find").set_value("").run()
    at.selectbox(key="about").select("KV sizing").run()
    assert "1 of them shown" in _html(at) and "Keys and values" in _html(at)
    at.button(key="note.delete.a2").click().run()
    assert not at.exception  # the page that was chosen has no note any more
    assert "2 notes" in _html(at)


def test_what_is_found_has_every_word_and_every_tag() -> None:
    def ids(*demand: Any) -> list[str]:
        return [note.id for note in files.found(NOTES, *demand)]

    assert ids("", "", ()) == ["a3", "a2", "a1"]
    assert ids("#paging", "", ()) == ["a2", "a1"]
    assert ids("token works", "", ()) == ["a2"]
    assert ids("", "", ("paging", "kv")) == ["a2"]
    assert ids("", "Block pool", ("kv",)) == []


def test_a_note_is_edited_and_that_is_said(open_page: Open) -> None:
    at = _open(open_page, *NOTES)
    at.button(key="note.edit.a1").click().run()
    at.text_area(key="notebook.edit.text").set_value("Blocks are *taken* whole")
    at.text_input(key="notebook.edit.tags").set_value("kv")
    at.button(key="notebook.edit.keep").click().run()
    assert not at.exception
    note = _kept(at).notes[0]
    assert (note.text, note.tags, note.at) == ("Blocks are *taken* whole", ("kv",), AT)
    assert note.edited > AT and ", edited " in _html(at)


def test_an_edit_can_be_given_up_and_a_note_is_not_emptied(open_page: Open) -> None:
    at = _open(open_page, *NOTES)
    at.button(key="note.edit.a1").click().run()
    at.text_area(key="notebook.edit.text").set_value("gone")
    at.button(key="notebook.edit.cancel").click().run()
    assert _kept(at).notes == NOTES
    at.button(key="note.edit.a1").click().run()
    at.text_area(key="notebook.edit.text").set_value("  ")
    at.button(key="notebook.edit.keep").click().run()
    assert _kept(at).notes == NOTES


def test_erasing_asks_first_and_is_a_deletion_of_each(open_page: Open) -> None:
    at = _open(open_page, *NOTES)
    assert "deletes 3 notes" in "\n".join(one.value for one in at.text)
    at.button(key="notebook.sure").click().run()
    assert not at.exception
    assert _kept(at).notes == () and _kept(at).removed.keys() == {"a1", "a2", "a3"}


def test_a_long_notebook_is_shown_in_parts(open_page: Open) -> None:
    many = tuple(Note(f"n{i:02}", AT, "Quiz", f"note {i}") for i in range(45))
    at = _open(open_page, *many)
    assert len([one for one in at.button if one.label == "Delete"]) == 20
    at.button(key="notebook.show").click().run()
    assert len([one for one in at.button if one.label == "Delete"]) == 40


def test_present_mode_shows_and_changes_nothing(open_page: Open) -> None:
    at = _open(open_page, *NOTES, present="1")
    assert not at.exception
    assert "whole" in text_of(at)
    assert not at.button and not at.text_area


@given(st.lists(made_notes, max_size=3, unique_by=lambda note: note.id).map(tuple))
def test_an_exported_notebook_is_read_again(made: tuple[Note, ...]) -> None:
    known = Progress(notes=made)
    assert files.read_notes(files.as_json(known)) == made
    assert files.read_notes(known.to_json()) == made
    assert {note.id for note in take_in(Progress(), Progress(notes=made)).notes} == {
        note.id for note in made
    }
    notebook.as_text(known).encode("utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"schema": "kv-scope-notebook/2", "notes": []}',
        '{"schema": "something else", "notes": []}',
        '{"schema": "kv-scope-notebook/1", "notes": [{"id": "a"}]}',
        '{"schema": "kv-scope-notebook/1", "notes": 3}',
        json.dumps({"schema": files.SCHEMA, "notes": [{**asdict(NOTES[0]), "text": "x" * 5000}]}),
        json.dumps({"schema": files.SCHEMA, "notes": [{**asdict(NOTES[0]), "id": "../../x"}]}),
    ],
)
def test_a_file_that_is_no_notebook_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(QuizError) as caught:
        files.read_notes(text)
    assert "\n" not in str(caught.value)


def test_an_old_export_of_progress_gives_its_notes(root: Any) -> None:
    text = (root / "tests/fixtures/progress/v1_mastered.json").read_text("utf-8")
    assert files.read_notes(text) == read(text).notes
    assert len(files.read_notes(text)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "![x](https://evil.example/x.png)",
        "\\![x](https://evil.example/x.png)",
        "![x][1]\n\n[1]: https://evil.example/x.png",
        "[![x](https://evil.example/x.png)](https://evil.example)",
        "!![x](https://evil.example/x.png)",
        "![![a](https://evil.example/1.png)](https://evil.example/2.png)",
    ],
)
def test_a_note_loads_no_image(text: str) -> None:
    markdown_it = pytest.importorskip("markdown_it")

    def images(markdown: str) -> int:
        tokens = markdown_it.MarkdownIt().parse(markdown)
        return sum(child.type == "image" for token in tokens for child in token.children or ())

    assert images(files.safe(text)) == 0
    assert images("![x](https://evil.example/x.png)") == 1  # the parser knows one when it sees one


def test_a_price_is_no_formula_and_a_formula_is() -> None:
    assert files.safe("$5 and $6, `$1` too") == "\\$5 and \\$6, `$1` too"
    assert files.safe("$a + b$") == "$a + b$"
