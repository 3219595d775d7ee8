"""What somebody meets who takes another way than was planned: by keyboard, on a phone, by hand."""

from __future__ import annotations

from typing import Any

import pytest

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
