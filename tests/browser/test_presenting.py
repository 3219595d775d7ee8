"""Presenting, on every page: a clicker's keys, a recorded run by one key, back to the start."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.test_accessibility import axe, faults  # noqa: F401
from tests.serving import App
from ui import nav

pytestmark = pytest.mark.browser

TOP = "document.querySelector('[data-testid=\"stMain\"]').scrollTop"
ROOM = """(() => {
  const main = document.querySelector('[data-testid="stMain"]');
  return main.scrollHeight - main.clientHeight;
})()"""
STEP = """() => {
  const all = (root) => [...root.querySelectorAll("*")].flatMap(
    (n) => [n, ...(n.shadowRoot ? all(n.shadowRoot) : [])]);
  const nodes = all(document).filter((n) => n.checkVisibility?.() && n.textContent.length < 120);
  const told = (pattern, only) => nodes.filter((n) => !only || n.tagName === only)
    .map((n) => n.textContent.trim().match(pattern)).find(Boolean);
  const found = told(/^Step (\\d+): /, "H2") ?? told(/^Step (\\d+) of \\d+(?! to)/);
  return found ? Number(found[1]) : null;
}"""
"""The step that an instrument of the page shows, or null."""

# Pages with a run of their own step through it; those in CI stand for the others.
STEPPED = ("prefill_decode", "block_pool", "batching", "prefix_cache")
SOME = ("prefill_decode", "block_pool", "attention")
PLACES = ["", *nav.PLACES]


def _open(page: Any, app: App, path: str) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.goto(f"{app.url}/{path}{'&' if '?' in path else '?'}present=1")
    _drawn(page)


def _drawn(page: Any) -> None:
    """Until the page stands there and neither its address nor its length changes."""
    page.get_by_role("button", name="Keys for presenting").wait_for()
    name = page.url.split("?")[0].split("/")[-1]
    before = None
    for _ in range(50):
        now = _state(page), page.evaluate(ROOM)
        waiting = page.locator(".kv-skeleton").count() or (name in STEPPED and now[0][2] is None)
        if now == before and not waiting:
            return
        before = now
        page.wait_for_timeout(400)


def _state(page: Any) -> tuple[str, float, int | None]:
    return page.url, page.evaluate(TOP), page.evaluate(STEP)


def _until(page: Any, holds: Callable[[], bool], what: str) -> None:
    for _ in range(60):
        if holds():
            return
        page.wait_for_timeout(250)
    raise AssertionError(what)


def _present_on(page: Any, app: App, name: str) -> None:
    _open(page, app, name)
    start, first = _state(page), page.locator("h3:visible").all_inner_texts()

    page.keyboard.press("PageUp" if name == "prefill_decode" else "PageDown")  # it shows the end
    if name in STEPPED:
        _until(page, lambda: _state(page)[2] != start[2], "a clicker steps the run")
    elif page.evaluate(ROOM) > 20 or page.locator(".reader").count():
        _until(
            page,
            lambda: page.evaluate(TOP) > 0 or page.locator("h3:visible").all_inner_texts() != first,
            "a clicker turns the page",
        )

    page.keyboard.press("v")
    if name not in STEPPED:
        page.wait_for_url(lambda url: url.split("?")[0].split("/")[-1] in STEPPED)
        assert "present=1" in page.url
    seen: set[int | None] = set()

    def plays() -> bool:
        seen.add(page.evaluate(STEP))
        return len(seen - {None}) > 2

    _until(page, plays, f"the recorded run plays: {seen}")

    page.keyboard.press("0")
    page.wait_for_url(start[0])
    _drawn(page)
    assert _state(page) == start


@pytest.mark.parametrize("name", SOME)
def test_keys_step_a_run_plays_and_the_start_comes_back(page: Any, app: App, name: str) -> None:
    _present_on(page, app, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PLACES if name not in SOME])
def test_the_same_on_every_other_page(page: Any, app: App, name: str) -> None:
    _present_on(page, app, name)


def test_the_start_is_the_address_with_which_presenting_began(page: Any, app: App) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.goto(f"{app.url}/block_pool?scenario=two-answers&step=3")
    page.get_by_text(re.compile(r"^Step 3 of ")).first.wait_for()
    page.get_by_role("button", name="Present", exact=True).click()
    _drawn(page)
    start = _state(page)
    assert start[2] == 3 and "step=3" in start[0]
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile(r"step=7"))
    page.reload()  # what the "play" button of a clicker does
    _drawn(page)
    assert page.evaluate(STEP) == 7
    page.keyboard.press("0")
    page.wait_for_url(start[0])
    page.get_by_text(re.compile(r"^Step 3 of ")).first.wait_for()
    _drawn(page)
    assert _state(page) == start
    page.keyboard.press("Escape")
    page.locator('[data-testid="stSidebar"]').wait_for()
    page.wait_for_timeout(2000)
    assert page.evaluate("sessionStorage.getItem('kv-scope.presenting')") is None


def test_black_legend_and_focus(page: Any, app: App, axe: str) -> None:  # noqa: F811
    _open(page, app, "block_pool?scenario=two-answers")
    black, legend = page.locator("dialog.black"), page.locator("dialog.legend")
    page.keyboard.press(".")
    assert black.is_visible() and black.bounding_box() == {
        "x": 0, "y": 0, "width": 1920, "height": 1080,
    }  # fmt: skip
    assert black.evaluate("(n) => getComputedStyle(n).backgroundColor") == "rgb(0, 0, 0)"
    page.keyboard.press("PageDown")  # it lights the screen again and does nothing else
    assert not black.is_visible() and page.evaluate(STEP) == 0
    page.keyboard.press("b")
    assert black.is_visible()
    page.keyboard.press("Escape")
    assert not black.is_visible()

    page.keyboard.press("?")
    assert legend.is_visible() and "from its start" in legend.inner_text()
    page.wait_for_timeout(300)
    assert not faults(page, axe)
    page.keyboard.press("Escape")
    assert not legend.is_visible() and "present=1" in page.url, "Escape closes the list first"

    # A clicker has no pointer: what was clicked last does not swallow its keys.
    page.get_by_role("button", name="Keys for presenting").focus()
    page.keyboard.press("PageDown")
    page.get_by_text(re.compile(r"^Step 1 of ")).first.wait_for()
    page.keyboard.press("Escape")
    page.locator('[data-testid="stSidebar"]').wait_for()


def test_in_a_field_the_keys_are_letters(page: Any, app: App) -> None:
    _open(page, app, "exercises?exercise=rag")
    field = page.get_by_label("Answer to a, with its unit")
    field.click()
    page.keyboard.type("0.5 b?v")
    assert field.input_value() == "0.5 b?v"
    assert page.locator("dialog[open]").count() == 0 and "exercises" in page.url


def test_options_keep_their_letters(page: Any, app: App) -> None:
    _open(page, app, "quiz")
    option = page.locator('label.opt input[type="radio"]')
    option.first.wait_for(state="attached")
    option.first.focus()
    page.keyboard.press("b")
    assert option.nth(1).is_checked() and page.locator("dialog[open]").count() == 0
    page.keyboard.press(".")
    assert page.locator("dialog.black").is_visible()
