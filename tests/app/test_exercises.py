"""The page of exercises without a browser: wrong unit, a slip, right, show me, words, links."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from quiz.exercises import exercise
from tests.app.conftest import Open, text_of
from ui import nav
from ui.exercises import number_part, place, words_part
from ui.exercises.place import Place
from ui.kit import code
from ui.paths import ROOT


def _html(at: Any) -> str:
    return "\n".join(str(one.proto.body) for one in at.get("html"))


def _answer(at: Any, part: str, text: str, where: str = "rag.0") -> Any:
    at.text_input(key=f"ex.{where}.{part}.text").input(text)
    return at.button(key=f"ex.{where}.{part}.check").click().run()


def test_an_answer_is_told_what_is_wrong_with_it_until_it_is_right(open_page: Open) -> None:
    at = open_page("exercises", exercise="rag")
    assert not at.exception and not at.warning
    assert "0 of 5 numbers right" in _html(at)
    _answer(at, "a", "351 MB")
    assert "<b>The unit.</b> The number is right in MiB" in _html(at)
    assert "351.2" not in _html(at), "the answer is not given away"
    _answer(at, "a", "702.5 MiB")
    assert "<b>A known slip.</b> That is BF16." in _html(at)
    _answer(at, "a", "0,351 GiB")
    assert "read as 0.351 GiB" in _html(at)
    _answer(at, "a", "351.25 MiB")
    said = _html(at)
    assert "<b>Right.</b>" in said and "1 of 5 numbers right" in said
    made = exercise.make("rag").part("a")
    assert made.derived is not None
    for line in number_part.lines(made.derived, "B"):
        assert html.escape(line) in said
    assert "163,840 · 2248 = 368,312,320 B" in said and "claims_ledger?claim=B180" in text_of(at)
    assert not at.exception


def test_show_me_gives_the_answer_and_counts_for_nothing(open_page: Open) -> None:
    at = open_page("exercises", exercise="rag")
    at.button(key="ex.rag.0.b.show").click().run()
    said = _html(at)
    assert "<b>59.2\N{NO-BREAK SPACE}%</b>" in said and "0 of 5 numbers right" in said
    assert "h · S / (S + U)" in said
    assert not [one for one in at.button if one.key == "ex.rag.0.b.show"]


def test_hostile_text_is_judged_and_never_said_again(open_page: Open) -> None:
    at = open_page("exercises", exercise="rag")
    for text in ("<script>alert(1)</script>", "9" * 80, "**bold** [x](javascript:1)", "1e400 B"):
        _answer(at, "a", text)
        assert not at.exception and "Cannot be read" in _html(at)
        assert "<script" not in _html(at) and "javascript" not in _html(at)


def test_words_are_written_compared_and_kept(open_page: Open) -> None:
    at = open_page("exercises", exercise="waste")
    assert "Blocks turn the question round" not in text_of(at)
    at.text_area(key="ex.waste.0.f.words").input("Nobody knows how long an answer gets.").run()
    at.button(key="ex.waste.0.f.keep").click().run()
    notes = at.session_state[nav.PROGRESS].notes
    assert [note.text for note in notes] == ["Nobody knows how long an answer gets."]
    assert (notes[0].page, notes[0].about) == ("exercises", "Reserved, and never used (f)")
    assert notes[0].tags == ("exercise",) and notes[0].source is not None
    assert notes[0].source.query == "exercise=waste"
    assert "In your notebook" in _html(at)
    at.button(key="ex.waste.0.f.show").click().run()
    assert len(at.checkbox) == len(exercise.make("waste").part("f").rubric)
    said = text_of(at)
    assert "Blocks turn the question round" in said
    assert "1 − 800 / 4096" in said, "a figure says how it was computed"
    assert "Kwon et al." in said and not at.exception


def test_other_numbers_are_drawn_and_linked(open_page: Open) -> None:
    at = open_page("exercises", exercise="mistral-kv")
    _answer(at, "a", "128 KiB", "mistral-kv.0")
    at.button(key="exercises.another").click().run()
    drawn = int(at.query_params["draw"])
    assert drawn and at.query_params["exercise"] == "mistral-kv"
    assert "0 of 4 numbers right" in _html(at)
    made = exercise.make("mistral-kv", drawn)
    assert made.statement.split("\n\n")[0] in text_of(at)
    _answer(at, "a", made.part("a").answer, f"mistral-kv.{drawn}")
    assert "1 of 4 numbers right" in _html(at)
    at.button(key="exercises.first").click().run()
    assert "draw" not in at.query_params and "1 of 4 numbers right" in _html(at)
    assert at.text_input(key="ex.mistral-kv.0.a.text").value == "128 KiB"


@pytest.mark.parametrize("id", list(exercise.files()))
def test_every_exercise_opens_by_its_link(open_page: Open, id: str) -> None:
    at = open_page("exercises", exercise=id)
    assert not at.exception and not at.warning
    assert html.escape(exercise.make(id).title) in _html(at)
    for part in exercise.make(id).parts:
        assert part.ask in text_of(at)


@pytest.mark.parametrize(
    "params",
    [{"exercise": "<script>"}, {"exercise": ""}, {"exercise": "rag", "draw": "-1"},
     {"exercise": "rag", "draw": "99999"}, {"exercise": "fleet", "draw": "3"},
     {"exercise": "rag", "draw": "½"}],
)  # fmt: skip
def test_a_hostile_link_gives_one_sentence(open_page: Open, params: dict[str, str]) -> None:
    at = open_page("exercises", **params)
    assert not at.exception and len(at.warning) == 1
    bad = "draw" if "draw" in params else "exercise"
    assert at.warning[0].value == f"This link's {bad} cannot be shown here, so it was left out."


def test_a_whole_link_is_read() -> None:
    assert place.read({"exercise": "rag", "draw": "7"}) == (Place("rag", 7), None)
    assert place.written(Place("rag", 7)) == {"exercise": "rag", "draw": "7"}
    assert place.read({}) == (place.first(), None)
    assert place.written(place.first()) == {"exercise": "mistral-kv"}


@pytest.mark.parametrize("id", list(exercise.files()))
def test_every_figure_of_a_model_answer_says_where_it_is_from(id: str) -> None:
    for part in exercise.make(id).parts:
        if part.rubric:
            shown = words_part.model(part)
            assert not re.search(r"(?<![_^])[{][a-z_]+[}]", shown)
            assert shown.count('role="tooltip"') == len(
                re.findall(r"(?<![_^])[{]\w+[}]", part.model)
            )


@pytest.mark.parametrize("id", list(exercise.files()))
def test_values_are_put_into_every_derivation(id: str) -> None:
    for part in exercise.make(id).parts:
        if part.derived is None:
            continue
        shown = number_part.lines(part.derived)
        assert "46 = 46" not in shown and max(map(len, shown)) < 160
        assert shown and not [line for line in shown if re.search(r"[a-z]+_[a-z]+\(", line)], shown


def test_the_code_shown_exists() -> None:
    source = (ROOT / "pages" / "exercises.py").read_text("utf-8")
    shown = [part for part in source.split('"') if part.startswith("quiz.") and ":" in part]
    assert len(shown) == 3 and all(code.snippet(target) for target in shown)
