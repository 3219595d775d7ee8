"""Every lesson is a gate of its own: chosen from the list, kept apart, proved by a page."""

from __future__ import annotations

import re
from typing import Any

import pytest

from quiz import bank, gate
from quiz.items import RIGHT
from quiz.progress import Asked, Attempt, Progress, now
from tests.browser.test_quiz import _answer, _items, _open, _stored, _to_the_end
from tests.serving import App

pytestmark = pytest.mark.browser

SIZES = ("kv-size/longest", "kv-size/block", "kv-size/scales", "kv-size/share")
AT_ROOFLINE = "JSON.parse(localStorage['kv-scope.progress']).attempt.gate === 'roofline'"


def test_a_lesson_to_mastery_and_its_mark_in_the_list(page: Any, app: App) -> None:
    _open(page, app, "?lesson=metrics")
    assert {item.topic for item in _items(page)} == {"metrics"}
    _to_the_end(page)
    page.get_by_text("4 of 4").wait_for()
    assert [*_stored(page).completed] == ["metrics"]
    page.get_by_role("link", name="Go on with Why it differs").wait_for()
    page.get_by_role("combobox", name="Which questions").click()
    page.get_by_role("option", name=re.compile("complete$")).wait_for()
    page.get_by_role("option", name="Roofline").click()
    page.wait_for_url(re.compile(r"[?&]lesson=roofline"))
    page.get_by_text("Question 1 of 4").wait_for()
    page.wait_for_function(AT_ROOFLINE)


def test_two_tabs_at_two_gates_leave_each_other_alone(page: Any, app: App) -> None:
    _open(page, app, "?lesson=metrics")
    mine = [item.sign for item in _items(page)]
    other = page.context.new_page()
    other.set_default_timeout(20_000)
    _open(other, app, "?lesson=roofline")
    page.wait_for_function(AT_ROOFLINE)
    page.wait_for_timeout(1500)  # time enough for each to throw away what the other drew
    known = _stored(page)
    metrics, roofline = (gate.current(known, name) for name in ("metrics", "roofline"))
    assert metrics is not None and roofline is not None
    assert [one.sign for one in metrics.asked] == mine
    right = gate.items(metrics)[0].keys.index(RIGHT)
    page.locator("label.opt").nth(right).click()
    page.get_by_role("button", name="Lock it in").click()
    page.locator(".fb.good").wait_for()
    other.wait_for_timeout(1000)
    other.get_by_text("Question 1 of 4").wait_for()
    assert other.locator("label.opt").count() == 4
    assert gate.current(_stored(other), "roofline") == roofline


def test_a_proof_may_be_a_page_with_the_question_s_numbers(page: Any, app: App) -> None:
    asked = tuple(Asked(name, 5, bank.make(name, 5).sign) for name in SIZES)
    known = Progress(attempt=Attempt("abc1", now(), asked, "kv_sizing"))
    page.goto(app.url)
    page.evaluate("text => localStorage.setItem('kv-scope.progress', text)", known.to_json())
    _open(page, app, "?lesson=kv_sizing")
    item = _answer(page, 0, right=False)
    link = page.get_by_role("link", name="KV sizing: open these numbers there, in a new tab")
    with page.expect_popup() as popup:
        link.click()
    popup.value.wait_for_url(re.compile(rf"[?&]model={re.escape(item.proof.link['model'])}"))
    assert page.get_by_role("button", name="Play the run here").count() == 0
