"""Pages that are read and the map of the course, without a browser."""

from __future__ import annotations

from typing import Any

import pytest

from tests.app.conftest import Open, text_of
from ui import lesson, nav
from ui.kit import text
from ui.reading import document

READ = [place.name for place in nav.COURSE if place.reads]


def said(at: Any) -> str:
    html = "\n".join(element.proto.body for element in at.get("html"))
    return f"{text_of(at)}\n{html}"


@pytest.mark.parametrize("name", READ)
def test_a_lesson_is_drawn_at_every_level(open_page: Open, name: str) -> None:
    words = lesson.load(name)
    at = open_page(name)
    for label, level in text.LEVELS.items():
        at.query_params["level"] = label
        at.session_state["level"] = label
        at.run()
        assert not at.exception and not at.error and not at.warning
        shown = said(at)
        assert words.objective.split(",")[0] in shown.replace("&#x27;", "'")
        for part, heading in document.headings(words, level):
            assert heading in shown.replace("**", "").replace("`", "") or "{" in heading, part
        assert f"About {document.minutes(words, level)} minute" in shown
        assert "{" not in "".join(
            piece
            for one in at.markdown
            for piece, prose in document.plain_pieces(str(one.value))
            if prose
        ), "a value that the lesson does not define"
        assert "–<span" not in shown, "a value that cannot be had"
        assert "cannot be drawn" not in shown and "is not here" not in shown


def test_a_lesson_says_what_it_builds_on_and_what_comes_next(open_page: Open) -> None:
    at = open_page("tiers")
    assert "Builds on" in said(at) and 'href="prefix_cache"' in said(at)
    labels = [link.proto.label for link in at.get("page_link")]
    assert nav.PLACES["disaggregation"].title in labels


def test_a_link_to_a_part_is_kept_and_a_bad_one_is_named(open_page: Open) -> None:
    at = open_page("tiers", at="reload")
    assert not at.exception
    assert "reload" in at.query_params["at"]
    at = open_page("tiers", at="<b>nowhere</b>")
    assert not at.exception
    assert "at cannot be shown here" in said(at) and "nowhere" not in said(at)
    assert "at" not in at.query_params


def test_present_mode_leaves_the_text_alone(open_page: Open) -> None:
    at = open_page("tiers", present="1")
    assert not at.exception
    shown = said(at)
    assert "After this page you can" not in shown and "Builds on" not in shown
    assert document.headings(lesson.load("tiers"), "plain")[0][1] in shown


def test_a_run_that_is_not_on_this_server_says_so(
    open_page: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("KV_SCOPE_RUNS", str(tmp_path))
    at = open_page("failures")
    assert not at.exception
    assert "This recorded run is not here." in said(at)


@pytest.mark.parametrize(
    "params",
    [{}, {"q": "paged <b>attention"}, {"view": "terms", "term": "block"}, {"q": "x" * 999}],
)
def test_the_map_opens(open_page: Open, params: dict[str, str]) -> None:
    at = open_page("course", **params)
    assert not at.exception and not at.error
    assert ("q cannot be shown here" in said(at)) == (len(params.get("q", "")) > 80)
    assert "x" * 99 not in said(at)
    at = open_page("course", present="1", **params)
    assert not at.exception
