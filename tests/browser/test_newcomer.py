"""What somebody meets who takes another way than was planned: by keyboard, on a phone, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from quiz.progress import Note, Progress
from tests.browser.test_keeping import AT, seed, stored
from tests.serving import App

pytestmark = pytest.mark.browser


def test_a_field_on_the_way_to_the_options_is_not_a_selection(page: Any, app: App) -> None:
    """The list of lessons is selected when Tab reaches it, and stays so among the options."""
    page.goto(f"{app.url}/quiz?lesson=metrics")
    page.locator("label.opt").first.wait_for()
    page.get_by_test_id("stMain").focus()
    for key in ("Tab", "Tab", "Space", "ArrowDown"):
        page.keyboard.press(key)
    page.wait_for_timeout(500)
    assert page.get_by_role("button", name="Quote in notebook").count() == 0
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Lock it in").wait_for()
    assert page.evaluate(
        "() => { let at = document.activeElement;"
        " while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;"
        " return at.innerText }"
    ).startswith("Lock it in")


def test_back_from_a_term_shows_the_search_and_not_its_end(page: Any, app: App) -> None:
    page.goto(f"{app.url}/course")
    field = page.get_by_role("searchbox", name="Search the course")
    field.fill("block table")
    page.locator(".results a").first.wait_for()
    page.wait_for_url("**q=block+table")
    page.locator(".results a").first.click()
    page.locator(".term.open").wait_for()
    scrolled = "document.querySelector('[data-testid=stMain]').scrollTop"
    page.wait_for_function(f"{scrolled} > 0")
    page.go_back()
    page.locator(".results a").first.wait_for()
    page.wait_for_function(f"{scrolled} === 0")


def _begin(page: Any, app: App, text: str) -> None:
    page.goto(f"{app.url}/notebook")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Note", exact=True).fill(text)


def _keep_it(page: Any) -> None:
    page.locator("[class*=st-key-kv-note-]").get_by_role("button", name="Keep it").click()


@pytest.mark.parametrize("other", ["Keep it", "Delete"])
def test_what_is_written_is_kept_whatever_another_tab_does_to_the_note(
    page: Any, app: App, other: str
) -> None:
    seed(page, app, Progress(notes=(Note("a1", AT, "KV sizing", "as it was"),)).to_json())
    tab = page.context.new_page()
    tab.set_default_timeout(20_000)
    _begin(page, app, "mine")
    if other == "Delete":
        tab.goto(f"{app.url}/notebook")
        tab.get_by_role("button", name="Delete").click()
    else:
        _begin(tab, app, "theirs")
        _keep_it(tab)
    changed = "() => !localStorage['kv-scope.progress'].includes('as it was')"
    page.wait_for_function(changed)
    page.wait_for_timeout(1500)  # time enough to take it in
    _keep_it(page)
    page.get_by_text("What you wrote is kept as a note of its own.").wait_for()
    page.wait_for_function("() => localStorage['kv-scope.progress'].includes('mine')")
    kept = {note.text for note in stored(page).notes}
    assert kept == ({"mine"} if other == "Delete" else {"mine", "theirs"})


def test_an_edit_that_was_left_open_begins_with_the_note_again(page: Any, app: App) -> None:
    seed(page, app, Progress(notes=(Note("a1", AT, "KV sizing", "as it was"),)).to_json())
    page.goto(f"{app.url}/notebook")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Note", exact=True).wait_for()
    page.get_by_role("link", name="References").first.click()
    page.get_by_role("heading", name="If you read five").wait_for()
    page.go_back()
    page.get_by_label("Note", exact=True).wait_for()
    assert page.get_by_label("Note", exact=True).input_value() == "as it was"
