"""Selected text becomes a note with a link back: by mouse, by keyboard, inside an instrument."""

from __future__ import annotations

import re
from typing import Any

import pytest

from quiz.progress import Note, Progress, Source
from tests.browser.conftest import at_rest
from tests.browser.test_accessibility import axe, faults  # noqa: F401
from tests.browser.test_keeping import AT, KEY, open_notebook, seed, stored
from tests.serving import App

pytestmark = pytest.mark.browser

BUTTON = "Quote in notebook"


def _ready(page: Any) -> None:
    """What makes quotes is at the foot of a page, beside what keeps the document."""
    stored(page)
    page.locator("[data-testid=stMain] .quote").first.wait_for(state="attached")


def _select(page: Any, target: Any, *, ready: bool = True) -> None:
    """Drag over the first line of something."""
    if ready:
        _ready(page)
    target.scroll_into_view_if_needed()
    box = at_rest(target)
    page.mouse.move(box["x"] + 2, box["y"] + 9)
    page.mouse.down()
    page.mouse.move(box["x"] + min(box["width"] - 2, 240), box["y"] + 9, steps=4)
    page.mouse.up()


def _prose(page: Any) -> Any:
    """A paragraph of the lesson, below a heading."""
    text = page.locator(".st-key-kv-words [data-testid=stMarkdownContainer]:has(h3) p")
    return text.filter(has_text=re.compile(r".{60}")).first


def _notes(page: Any, count: int) -> tuple[Note, ...]:
    page.wait_for_function(
        "([key, count]) => JSON.parse(localStorage.getItem(key))?.notes.length === count",
        arg=[KEY, count],
    )
    return stored(page).notes


def test_a_line_of_a_lesson_becomes_a_note_that_leads_back(page: Any, app: App) -> None:
    page.goto(f"{app.url}/kv_sizing")
    prose = _prose(page)
    prose.wait_for()
    _select(page, prose)
    page.get_by_role("button", name=BUTTON).click()
    (note,) = _notes(page, 1)
    assert note.quote and note.quote.split()[0] in prose.inner_text()
    assert (note.page, note.text) == ("KV sizing", "")
    assert note.source is not None
    assert note.source.place == "kv_sizing" and note.source.section and note.source.anchor
    page.get_by_role("link", name="Kept. Open the notebook").click()
    page.wait_for_url("**/notebook")
    page.locator("blockquote", has_text=note.quote[:20]).wait_for()
    page.locator(".kv-note-head a").click()
    page.wait_for_url(f"**/{note.source.address}")
    page.locator(f"#{note.source.anchor}").wait_for()


def test_by_keyboard_and_away_with_escape(page: Any, app: App) -> None:
    page.goto(f"{app.url}/kv_sizing")
    prose = _prose(page)
    prose.wait_for()
    _select(page, prose)
    button = page.get_by_role("button", name=BUTTON)
    button.wait_for()
    page.keyboard.press("Escape")
    button.wait_for(state="hidden")
    page.keyboard.press("Shift+ArrowRight")  # the selection grows
    button.wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    _notes(page, 1)
    page.keyboard.press("Enter")  # the focus is on the way to the notebook
    page.wait_for_url("**/notebook")


def test_inside_an_instrument_and_not_in_a_field(page: Any, app: App) -> None:
    page.goto(f"{app.url}/block_pool?scenario=two-answers&step=2")
    heading = page.locator(".kv h2").first
    heading.wait_for()
    _select(page, heading)
    page.get_by_role("button", name=BUTTON).click()
    (note,) = _notes(page, 1)
    assert note.quote == heading.inner_text()
    assert note.source is not None and "step=2" in note.source.query
    field = page.get_by_placeholder("blocks", exact=True)
    field.fill("12345678")
    field.dblclick()
    page.wait_for_timeout(500)
    assert page.get_by_role("button", name=BUTTON).count() == 0
    page.goto(f"{app.url}/block_pool?present=1")
    page.locator(".kv h2").first.wait_for()
    _select(page, page.locator(".kv h2").first, ready=False)
    page.wait_for_timeout(500)
    assert page.get_by_role("button", name=BUTTON).count() == 0


def test_a_definition_that_waits_to_be_hovered_is_no_part_of_a_quote(page: Any, app: App) -> None:
    page.goto(f"{app.url}/block_pool")
    term = page.locator(".kv-term").first
    term.wait_for()
    _ready(page)
    at_rest(term)
    hidden = term.locator(".kv-def").text_content()
    term.evaluate("node => getSelection().selectAllChildren(node.closest('p, li'))")
    page.keyboard.press("Shift")
    page.get_by_role("button", name=BUTTON).click()
    (note,) = _notes(page, 1)
    assert hidden[:40] not in note.quote and len(note.quote) > 20


NOTES = Progress(
    notes=(
        Note(
            "a1",
            AT,
            "Block pool",
            "Blocks are taken **whole**: $n$ of them.\n\n- one\n- two [link](https://example.org)",
            "You said 8 blocks.",
            tags=("paging", "to-do"),
            source=Source("block_pool", "", "", "scenario=fork"),
        ),
        Note("a2", AT, "KV sizing", "", quote="one token " * 40, source=Source("kv_sizing", "S")),
    )
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_faults(page: Any, app: App, axe: str, scheme: str) -> None:  # noqa: F811
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    seed(page, app, NOTES.to_json())
    open_notebook(page, app)
    page.get_by_text("New note").click()
    page.get_by_role("button", name="Edit").last.click()
    page.get_by_role("button", name="Cancel").wait_for()
    page.wait_for_timeout(800)
    found = faults(page, axe)
    assert not found, "\n".join(found)


def test_nothing_scrolls_sideways_on_a_phone(page: Any, app: App) -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    seed(page, app, NOTES.to_json())
    open_notebook(page, app)
    page.locator("blockquote").wait_for()
    wide = (
        "() => Math.max(document.documentElement.scrollWidth,"
        " document.querySelector('[data-testid=\"stMain\"]').scrollWidth)"
    )
    assert page.evaluate(wide) <= 360
