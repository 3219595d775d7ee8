"""The page kit: terms, levels, predictions, the notebook, the states of a part."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from quiz.progress import Note, Predicted, Progress, Source
from tests.app.conftest import Open, text_of
from ui.kit import glossary, notebook, text
from ui.lesson import Lesson

AT = "2026-11-30T12:00:00Z"
LESSONS = sorted((Path(__file__).parents[2] / "lessons").glob("*.md"))


@pytest.mark.parametrize("file", LESSONS, ids=lambda file: file.stem)
def test_every_term_in_a_lesson_has_a_definition(file: Path) -> None:
    for term in glossary.terms(file.read_text("utf-8")):
        assert term in glossary.by_form(), term


def test_definitions_are_sentences_and_no_form_means_two_things() -> None:
    forms = [form for term in glossary.entries() for form in (term.name, *term.also)]
    assert len({*forms}) == len(forms)
    for meaning in (term.meaning for term in glossary.entries()):
        assert meaning[0].isupper() and meaning.endswith(".") and len(meaning) < 240


@pytest.mark.parametrize(
    "said", ["", "# a", "# a\nalso: b", "no term\n\nA meaning.", "# a\nwhere: b\n\nA meaning."]
)
def test_a_file_that_is_no_term_says_its_name(said: str) -> None:
    with pytest.raises(ValueError, match=r"glossary/x\.md"):
        glossary.parse("x", said)


def test_a_term_s_file_says_its_forms_and_where_it_is_taught() -> None:
    term = glossary.parse("b-t", "# b t\nalso: b ts, tb\nsee: block_pool\n\nThe list\nof it.\n")
    assert (term.name, term.also, term.see) == ("b t", ("b ts", "tb"), "block_pool")
    assert term.meaning == "The list of it."
    assert glossary.parse("c", "# c\n\nIt.").also == ()


def test_a_term_is_marked_with_its_definition() -> None:
    made = glossary.marked("A [[block table|table]] of [[blocks]], $x < y$.")
    assert made.count('class="kv-term"') == 2
    assert ">table<" in made and ">blocks<" in made
    assert "$x < y$" in made
    with pytest.raises(KeyError):
        glossary.marked("[[no such thing]]")


def test_a_definition_is_text_and_not_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    term = glossary.Term("a", "a", (), "", "less <than> so")
    monkeypatch.setattr(glossary, "by_form", lambda: {"a": term})
    assert "less &#60;than&#62; so" in glossary.marked("[[a]]")
    shown = html.unescape(glossary.hover("Little's law", ("*a* _b_ :red[c] $d$ {e} &amp;",)))
    assert "Little's law" in shown and "*a* _b_ :red[c] $d$ {e} &amp;" in shown


def test_the_notebook_can_be_taken_away_as_text() -> None:
    notes = (
        Note("a1", "2026-11-30T12:00:00Z", "Block pool", "whole blocks", "You said 8 blocks."),
        Note(
            "a2",
            "2026-12-01T12:00:00Z",
            "Quiz",
            "KV heads",
            edited="2026-12-02T12:00:00Z",
            tags=("kv", "heads"),
            quote="one head\nof eight",
            source=Source("quiz", "The four"),
        ),
    )
    assert notebook.as_text(Progress(notes=notes)).splitlines() == [
        "# Notebook",
        "",
        "## 2026-11-30, Block pool",
        "",
        "*You said 8 blocks.*",
        "",
        "whole blocks",
        "",
        "## 2026-12-01, Quiz, The four, edited 2026-12-02",
        "",
        "> one head",
        "> of eight",
        "",
        "KV heads",
        "",
        "#kv #heads",
    ]


def test_a_level_falls_back_to_what_the_lesson_has() -> None:
    words = Lesson("T", "o", {"a": "plain", "a.short": "short", "b": "only", "c.full": "all"})
    assert [text.pick(words, "a", level) for level in text.LEVELS.values()] == [
        "short",
        "plain",
        "plain",
    ]
    assert text.pick(words, "b", "full") == "only"
    assert text.pick(words, "c", "full") == "all"
    with pytest.raises(KeyError):
        text.pick(words, "c", "short")


def test_the_block_pool_page_has_three_levels(open_page: Open) -> None:
    for level, part in (("In short", "any free block"), ("In full", r"\lfloor p / B \rfloor")):
        at = open_page("block_pool", level=level)
        assert not at.exception
        assert part in "\n".join(str(one.value) for one in at.markdown), level
    at = open_page("block_pool", level="nonsense")
    assert not at.exception


def test_what_changed_your_mind_goes_into_the_notebook(open_page: Open) -> None:
    at = open_page("block_pool")
    at.number_input(key="predict.blocks").set_value(8)
    at.number_input(key="predict.waste").set_value(0)
    at.button(key="predict.lock").click().run()
    at.text_input(key="predict.note.text").set_value("the last block is taken whole")
    at.button(key="predict.note.note").click().run()
    assert not at.exception
    (note,) = at.session_state["kv.progress"].notes
    assert note.page == "Block pool"
    assert note.text == "the last block is taken whole"
    assert note.about == "You said 8 blocks, 0 empty slots."
    assert note.source.place == "block_pool" and "scenario=two-answers" in note.source.query
    assert re.fullmatch(r"[0-9a-f]{16}", note.id)


def test_an_empty_note_is_none(open_page: Open) -> None:
    at = open_page("block_pool")
    at.number_input(key="predict.blocks").set_value(9)
    at.number_input(key="predict.waste").set_value(3)
    at.button(key="predict.lock").click().run()
    at.text_input(key="predict.note.text").set_value("   ")
    at.button(key="predict.note.note").click().run()
    assert at.session_state["kv.progress"].notes == ()


def test_a_note_is_listed_as_text_and_can_be_deleted(open_page: Open) -> None:
    written = "<b>not bold</b> :red[nor red]"
    at = open_page("quiz")
    note = Note("a1", "2026-11-30T12:00:00Z", "Block pool", written)
    at.session_state["kv.progress"] = Progress(notes=(note,))
    at.run()
    assert written in [one.value for one in at.text]
    at.button(key="note.a1").click().run()
    assert not at.exception
    assert at.session_state["kv.progress"].notes == ()
    assert at.session_state["kv.progress"].removed.keys() == {"a1"}


def test_what_was_predicted_is_kept_and_stands_there_the_next_time(open_page: Open) -> None:
    at = open_page("block_pool")
    at.number_input(key="predict.blocks").set_value(8)
    at.number_input(key="predict.waste").set_value(0)
    at.button(key="predict.lock").click().run()
    known = at.session_state["kv.progress"]
    ((name, said),) = known.predictions.items()
    assert (name, said.said) == ("block_pool/predict", {"blocks": 8, "waste": 0})

    later = open_page("block_pool")
    later.session_state["kv.progress"] = known
    later.run()
    assert "You said 8 blocks, 0 empty slots." in text_of(later)
    later.button(key="predict.afresh").click().run()
    assert "You said" not in text_of(later)
    later.number_input(key="predict.blocks").set_value(9)
    later.number_input(key="predict.waste").set_value(3)
    later.button(key="predict.lock").click().run()
    assert not later.exception
    said = later.session_state["kv.progress"].predictions["block_pool/predict"]
    assert said.said == {"blocks": 9, "waste": 3}


@pytest.mark.parametrize(
    "said",
    [{"blocks": 8}, {"blocks": -8, "waste": 0}, {"blocks": "8", "waste": 0}, {"x": 1}, {}],
)
def test_a_prediction_that_the_page_does_not_ask_for_is_asked_again(
    open_page: Open, said: dict[str, int | str]
) -> None:
    at = open_page("block_pool")
    at.number_input(key="predict.blocks").set_value(8)
    at.number_input(key="predict.waste").set_value(0)
    at.button(key="predict.lock").click().run()
    ask = at.session_state["kv.progress"].predictions["block_pool/predict"].ask
    for kept in (Predicted(AT, said, ask), Predicted(AT, {"blocks": 8, "waste": 0}, "Other?")):
        later = open_page("block_pool")
        later.session_state["kv.progress"] = Progress(predictions={"block_pool/predict": kept})
        later.run()
        assert not later.exception
        assert later.button(key="predict.lock")


def test_a_choice_locks_and_a_second_answer_changes_nothing() -> None:
    def page() -> None:
        import streamlit as st

        from ui.kit.predict import Choice, Prediction, draw

        asked = Prediction("Which?", (Choice("who", "Who", ("static", "continuous")),), key="p")
        draw(asked, lambda said: st.markdown(f"You said {said['who']}"), name="predict-p")

    at = AppTest.from_function(page).run()
    at.button(key="p.lock").click().run()
    assert "p.locked" not in at.session_state
    at.session_state["p.who"] = "static"
    at.run()
    at.button(key="p.lock").click().run()
    assert not at.exception
    assert at.session_state["p.locked"] == {"who": "static"}
    assert "You said static" in at.markdown[-1].value


def test_each_state_draws_itself_and_shows_foreign_text_as_text() -> None:
    def page() -> None:
        import streamlit as st

        from core.errors import KVScopeError
        from ui.kit import states

        states.skeleton("player", "a run")
        states.empty("No <run>", "`make` gives one.")
        states.notice("<script>x</script>")
        states.refused(KVScopeError("<img src=x>"), "Refused.")
        st.write("end")

    at = AppTest.from_function(page).run()
    assert not at.exception
    assert at.code[0].value == "<img src=x>"
    html = "\n".join(element.proto.body for element in at.get("html"))
    assert "&lt;script&gt;" in html and "<script>" not in html
    assert "No &lt;run&gt;" in html and "<code>make</code> gives one." in html
