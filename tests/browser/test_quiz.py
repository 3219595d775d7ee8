"""A learner goes through the gate in a real browser, and their progress stays there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from quiz import gate
from quiz.items import RIGHT, Item
from quiz.progress import Progress, read
from tests.browser.test_accessibility import axe, faults  # noqa: F401
from tests.browser.test_play import SMALL_TEXT
from tests.serving import App

pytestmark = pytest.mark.browser

STORED = "() => localStorage.getItem('kv-scope.progress')"


def _open(page: Any, app: App, query: str = "") -> None:
    page.goto(f"{app.url}/quiz{query}")
    page.locator("label.opt, .score").first.wait_for()


def _stored(page: Any) -> Progress:
    page.wait_for_function("localStorage.getItem('kv-scope.progress') !== null")
    return read(page.evaluate(STORED))


def _items(page: Any) -> list[Item]:
    # The document is kept before the attempt is in it.
    page.wait_for_function("JSON.parse(localStorage['kv-scope.progress'] || '{}').attempt")
    attempt = _stored(page).attempt
    assert attempt is not None
    return gate.items(attempt)


def _answer(page: Any, place: int, *, right: bool = True) -> Item:
    """Lock an answer in, and wait until it is kept."""
    page.get_by_text(f"Question {place + 1} of 4").wait_for()
    item = _items(page)[place]
    index = item.keys.index(RIGHT)
    page.locator("label.opt").nth(index if right else (index + 1) % 4).click()
    page.get_by_role("button", name="Lock it in").click()
    page.locator(".fb").wait_for()
    page.wait_for_function(
        "place => JSON.parse(localStorage['kv-scope.progress']).attempt.asked[place].answer",
        arg=place,
    )
    return item


def _go_on(page: Any) -> None:
    page.locator(".foot .next").click()


def _to_the_end(page: Any, *, wrong: int | None = None) -> None:
    for place in range(4):
        _answer(page, place, right=place != wrong)
        _go_on(page)
    page.locator(".score").wait_for()


def test_to_mastery_and_it_outlives_reload_export_and_another_browser(
    page: Any, app: App, browser: Any, tmp_path: Path
) -> None:
    _open(page, app)
    _to_the_end(page)
    page.get_by_text("4 of 4").wait_for()
    page.get_by_text("The lesson is complete").wait_for()
    assert gate.LESSON in _stored(page).completed
    page.reload()
    page.get_by_text("4 of 4").wait_for()
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as caught:
        page.get_by_role("button", name="All of it, as JSON").click()
    file = tmp_path / "progress.json"
    caught.value.save_as(file)
    assert read(file.read_text("utf-8")) == _stored(page)

    other = browser.new_context().new_page()
    other.set_default_timeout(20_000)
    _open(other, app)
    other.get_by_role("button", name="Import").click()
    other.locator("input[type=file]").set_input_files(file)
    other.get_by_text("Taken in, together with what was here.").wait_for()
    other.wait_for_function(
        "() => localStorage.getItem('kv-scope.progress').includes('four-questions')"
    )
    other.context.close()


def test_trying_again_draws_other_items_and_three_of_four_are_not_enough(
    page: Any, app: App
) -> None:
    _open(page, app)
    first = [item.sign for item in _items(page)]
    _to_the_end(page, wrong=2)
    page.get_by_text("3 of 4").wait_for()
    assert _stored(page).completed == {}
    page.get_by_role("button", name="Try again with new numbers").click()
    page.get_by_text("Question 1 of 4").wait_for()
    page.wait_for_function("() => JSON.parse(localStorage['kv-scope.progress']).past.length === 1")
    assert not {*first} & {item.sign for item in _items(page)}


def test_a_reload_in_the_middle_goes_on_at_the_same_question(page: Any, app: App) -> None:
    _open(page, app)
    _answer(page, 0)
    _go_on(page)
    page.get_by_text("Question 2 of 4").wait_for()
    options = page.locator("label.opt").all_inner_texts()
    page.reload()
    page.get_by_text("Question 2 of 4").wait_for()
    assert page.locator("label.opt").all_inner_texts() == options


def test_a_wrong_answer_names_the_misconception_and_the_run_plays_below(
    page: Any, app: App
) -> None:
    _open(page, app)
    _answer(page, 0)
    _go_on(page)
    item = _answer(page, 1, right=False)
    chosen = item.options[(item.keys.index(RIGHT) + 1) % 4]
    page.get_by_text(chosen.says).wait_for()
    page.get_by_text(chosen.fact).wait_for()
    page.get_by_role("button", name="Play the run here").click()
    page.get_by_text(re.compile(r"^Step 2 of ")).first.wait_for()
    page.get_by_text("92,160 B (90 KiB)").first.wait_for()
    link = page.get_by_role("link", name="Block pool: open")
    with page.expect_popup() as popup:
        link.click()
    popup.value.get_by_text(re.compile(r"^Step 2 of ")).first.wait_for()
    assert "run=two_answers_one_prefix" in popup.value.url


def test_the_whole_way_by_keyboard(page: Any, app: App) -> None:
    _open(page, app)
    place = _items(page)[0].keys.index(RIGHT)
    page.locator("label.opt input").first.focus()
    page.keyboard.press("ABCD"[place])
    page.keyboard.press("Enter")
    page.locator(".fb.good").wait_for()
    assert page.evaluate("document.activeElement.shadowRoot.activeElement.closest('.fb') !== null")
    for _ in range(6):
        page.keyboard.press("Tab")
        if page.evaluate(
            "document.activeElement.shadowRoot?.activeElement?.classList.contains('next') ?? false"
        ):
            break
    page.keyboard.press("Enter")
    page.get_by_text("Question 2 of 4").wait_for()


def test_two_tabs_come_together(page: Any, app: App) -> None:
    _open(page, app)
    other = page.context.new_page()
    other.set_default_timeout(20_000)
    _open(other, app)
    _answer(page, 0)
    other.get_by_text("Question 2 of 4").wait_for()
    _answer(other, 1, right=False)
    page.wait_for_function(
        "() => JSON.parse(localStorage['kv-scope.progress']).attempt.asked"
        ".filter((one) => one.answer).length === 2"
    )
    answers = [one.answer for one in _stored(page).attempt.asked]  # type: ignore[union-attr]
    assert answers[0] == RIGHT and answers[1] not in ("", RIGHT)


def test_a_note_of_another_page_is_in_the_notebook(page: Any, app: App) -> None:
    page.goto(f"{app.url}/block_pool")
    page.get_by_text(re.compile(r"^Step \d+ of ")).first.wait_for()
    page.get_by_placeholder("blocks", exact=True).fill("8")
    page.get_by_placeholder("empty slots").fill("0")
    page.keyboard.press("Tab")
    page.locator(".st-key-kv-predict").get_by_role("button", name="Lock it in").click()
    page.get_by_role("button", name="What changed your mind?").click()
    page.get_by_placeholder("What changed your mind?").fill("blocks are taken whole")
    page.get_by_role("button", name="Note it").click()
    page.wait_for_function(
        "() => (localStorage['kv-scope.progress'] ?? '').includes('blocks are taken whole')"
    )
    _open(page, app)
    page.get_by_role("button", name="Notebook (1)").click()
    page.get_by_text("blocks are taken whole").wait_for()


def test_present_and_back(page: Any, app: App) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    _open(page, app)
    page.get_by_role("button", name="Present").click()
    page.wait_for_url(re.compile(r"[?&]present=1"))
    page.locator('[data-testid="stSidebar"]').wait_for(state="hidden")
    _answer(page, 0, right=False)
    page.wait_for_timeout(500)
    small = page.evaluate(SMALL_TEXT)
    assert not small, small[:10]
    page.keyboard.press("Escape")
    page.locator('[data-testid="stSidebar"]').wait_for()
    assert "present" not in page.url


def test_nothing_scrolls_sideways_on_a_phone(page: Any, app: App) -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    _open(page, app)
    wide = (
        "() => Math.max(document.documentElement.scrollWidth,"
        " document.querySelector('[data-testid=\"stMain\"]').scrollWidth)"
    )
    for place in range(4):
        _answer(page, place, right=False)
        assert page.evaluate(wide) <= 360, place
        _go_on(page)
    page.locator(".score").wait_for()
    assert page.evaluate(wide) <= 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_faults(page: Any, app: App, axe: str, scheme: str) -> None:  # noqa: F811
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    _open(page, app)

    def check(where: str) -> None:
        page.wait_for_timeout(800)  # Streamlit fades in what it draws again
        found = faults(page, axe)
        assert not found, f"{where}\n" + "\n".join(found)

    check("a question")
    _answer(page, 0)
    _go_on(page)
    _answer(page, 1, right=False)
    check("an answer")
    _go_on(page)
    for place in (2, 3):
        _answer(page, place)
        _go_on(page)
    page.locator(".score").wait_for()
    check("the result")
