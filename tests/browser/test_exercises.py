"""The exercises in a real browser: an answer and its derivation, words, phone, projector."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.browser.test_accessibility import axe, faults  # noqa: F401
from tests.browser.test_play import SMALL_TEXT
from tests.serving import App

pytestmark = pytest.mark.browser

WIDE = (
    "() => [document.documentElement.scrollWidth,"
    " document.querySelector('[data-testid=\"stMain\"]').scrollWidth]"
)
KEPT = "localStorage.getItem('kv-scope.progress')"


def _open(page: Any, app: App, query: str = "exercise=rag") -> None:
    page.goto(f"{app.url}/exercises?{query}")
    page.locator(".kv-ex-head").wait_for()
    page.get_by_label("Answer to a, with its unit").wait_for()


def _answer(page: Any, part: str, text: str, says: str) -> None:
    field = page.get_by_label(f"Answer to {part}, with its unit")
    field.fill(text)
    field.press("Enter")
    page.locator(f".st-key-kv-ex-part-{part} .kv-ex-fb", has_text=says).wait_for()


def test_wrong_unit_slip_right_and_the_derivation(
    page: Any,
    app: App,
    axe: str,  # noqa: F811
) -> None:
    _open(page, app)
    _answer(page, "a", "351 MB", "The number is right in MiB")
    _answer(page, "a", "702.5 MiB", "That is BF16.")
    _answer(page, "a", "351.25 MiB", "Right.")
    part = page.locator(".st-key-kv-ex-part-a")
    part.get_by_text("(documents · their tokens + question) · bytes of a token").wait_for()
    part.get_by_text("Every step, from the sizing library").click()
    page.get_by_text("kv_bytes_sequence", exact=True).first.wait_for()
    assert part.get_by_role("link", name="B180").get_attribute("href")
    page.locator(".st-key-kv-ex-part-b").get_by_role("button", name="Show me").click()
    page.get_by_text("h · S / (S + U)").wait_for()
    page.get_by_text("1 of 5 numbers right").wait_for()
    _answer(page, "c", "9 TB", "Far too high")
    page.wait_for_timeout(600)
    assert not faults(page, axe)


def test_words_reach_the_notebook_and_survive_a_reload(page: Any, app: App) -> None:
    _open(page, app, "exercise=waste")
    page.get_by_label("Your answer to f").fill("Nobody knows how long an answer gets.")
    page.get_by_role("button", name="Keep in the notebook").click()
    page.get_by_text("In your notebook, in this browser.").wait_for()
    page.wait_for_function(f"{KEPT}?.includes('how long an answer gets')")
    note = json.loads(page.evaluate(KEPT))["notes"][0]
    assert note["tags"] == ["exercise"] and note["about"] == "Reserved, and never used (f)"
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("I say on what it was measured").wait_for()
    page.get_by_text("A model answer", exact=True).click()
    figure = page.locator(".st-key-kv-ex-part-f .kv-value").first
    figure.focus()
    assert figure.locator(".kv-def").is_visible()
    page.goto(f"{app.url}/notebook")
    page.get_by_text("Nobody knows how long an answer gets.").first.wait_for()


def test_fresh_numbers_are_in_the_link(page: Any, app: App) -> None:
    _open(page, app, "exercise=mistral-kv")
    page.get_by_role("button", name="Other numbers").click()
    page.wait_for_url(re.compile(r"draw=\d+"))
    page.wait_for_timeout(800)
    given = page.locator(".st-key-kv-ex-given").inner_text()
    page.reload()
    page.locator(".kv-ex-head").wait_for()
    page.get_by_label("Answer to a, with its unit").wait_for()
    assert page.locator(".st-key-kv-ex-given").inner_text() == given


def test_on_a_phone_nothing_scrolls_sideways(page: Any, app: App) -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    _open(page, app, "exercise=long-context")
    page.get_by_role("button", name="Show me").first.click()
    page.locator(".kv-ex-answer").first.wait_for()
    page.wait_for_timeout(500)
    assert max(page.evaluate(WIDE)) <= 360


def test_on_a_projector_nothing_is_small(page: Any, app: App) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    _open(page, app, "exercise=rag&present=1")
    page.get_by_role("button", name="Show me").first.click()
    page.locator(".kv-ex-answer").first.wait_for()
    page.wait_for_timeout(500)
    small = page.evaluate(SMALL_TEXT)
    assert not small, small[:10]
