"""A visitor plays a run in a real browser, against a really running app."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.serving import App

pytestmark = pytest.mark.browser

# Every visible text below 18 px, inside components too.
SMALL_TEXT = """() => {
  const found = [];
  const seen = { visibilityProperty: true, opacityProperty: true };
  const walk = (root) => {
    for (const node of root.querySelectorAll('*')) {
      if (node.shadowRoot) walk(node.shadowRoot);
      const own = [...node.childNodes].some((c) => c.nodeType === 3 && c.data.trim());
      const box = node.getBoundingClientRect();
      if (!own || box.width < 2 || box.height < 2 || !node.checkVisibility(seen)) continue;
      const size = parseFloat(getComputedStyle(node).fontSize);
      if (size < 17.9) found.push(`${node.className} ${size} ${node.textContent.slice(0, 30)}`);
    }
  };
  walk(document.querySelector('.stMainBlockContainer'));
  return found;
}"""


def _at(page: Any) -> int:
    """The step that the player bar names."""
    text = page.get_by_text(re.compile(r"^Step \d+ of \d+")).first.inner_text()
    found = re.search(r"Step (\d+) of", text)
    assert found, text
    return int(found.group(1))


def _wait_for_step(page: Any, step: int) -> None:
    page.get_by_text(re.compile(rf"^Step {step} of ")).first.wait_for()


def _open(page: Any, app: App, query: str = "scenario=two-answers") -> None:
    page.goto(f"{app.url}/block_pool?{query}")
    page.get_by_text(re.compile(r"^Step \d+ of ")).first.wait_for()


def test_plays_a_run_and_steps_back(page: Any, app: App) -> None:
    _open(page, app)
    assert _at(page) == 0
    page.get_by_role("button", name="Play", exact=True).click()
    _wait_for_step(page, 2)
    page.get_by_role("button", name="Pause", exact=True).click()
    stopped = _at(page)
    assert stopped >= 2
    page.keyboard.press("ArrowLeft")
    _wait_for_step(page, stopped - 1)


def test_keyboard_goes_everywhere(page: Any, app: App) -> None:
    _open(page, app)
    page.keyboard.press("End")
    _wait_for_step(page, 15)
    page.keyboard.press("Home")
    _wait_for_step(page, 0)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    _wait_for_step(page, 2)


def test_the_keys_still_work_after_a_click_on_the_picture(page: Any, app: App) -> None:
    """Such a click gives the focus to Streamlit's scrolling area."""
    _open(page, app)
    page.locator(".kv .ttl").click()
    page.keyboard.press("ArrowRight")
    _wait_for_step(page, 1)


def test_a_prediction_is_answered_in_a_few_lines(page: Any, app: App) -> None:
    _open(page, app)
    page.get_by_placeholder("blocks", exact=True).fill("8")
    page.get_by_placeholder("empty slots").fill("0")
    page.keyboard.press("Tab")
    page.locator(".st-key-kv-predict").get_by_role("button", name="Lock it in").click()
    page.get_by_text("You rounded down.").wait_for()
    assert page.locator(".st-key-kv-predict").bounding_box()["height"] < 140


def test_the_whole_pool_is_above_the_fold(page: Any, app: App) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    _open(page, app)
    pool = page.locator(".kv .poolbox").bounding_box()
    bar = page.locator(".kv .player").bounding_box()
    assert pool["y"] + pool["height"] <= bar["y"] and bar["y"] + bar["height"] <= 900


def test_a_hover_lights_the_block_and_its_table_entries(page: Any, app: App) -> None:
    _open(page, app, "scenario=two-answers&step=2")
    _wait_for_step(page, 2)
    page.locator('.cell[data-b="4"]').hover()
    lit = page.locator(".lanes .lit, .lane .lit")
    lit.first.wait_for()
    # Block 4 holds the prompt that B#0, B#1 and C share: three tables name it.
    assert lit.count() == 3


def test_the_step_is_in_the_address_and_comes_back(page: Any, app: App) -> None:
    _open(page, app)
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile(r"[?&]step=3(&|$)"))
    page.reload()
    _wait_for_step(page, 3)


@pytest.mark.parametrize("path", ["?present=1", "block_pool?scenario=two-answers&present=1"])
def test_present_mode_hides_the_sidebar_and_nothing_is_small(
    page: Any, app: App, path: str
) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.goto(f"{app.url}/{path}")
    page.locator(".kv .cell, .stage .cell").first.wait_for()
    assert page.locator('[data-testid="stSidebar"]').count() == 0
    small = page.evaluate(SMALL_TEXT)
    assert not small, small[:10]


@pytest.mark.parametrize("path", ["", "block_pool"])
def test_nothing_scrolls_sideways_on_a_phone(page: Any, app: App, path: str) -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    page.goto(f"{app.url}/{path}")
    page.locator(".kv .cell, .stage .cell").first.wait_for()
    wide = page.evaluate(
        "() => [document.documentElement.scrollWidth,"
        " document.querySelector('[data-testid=\"stMain\"]').scrollWidth]"
    )
    assert max(wide) <= 360


def test_the_landing_page_plays_and_leads_in(page: Any, app: App) -> None:
    page.goto(app.url)
    page.locator(".stage .cell").first.wait_for()
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    page.get_by_role("link", name="Watch a run").click()
    page.get_by_text(re.compile(r"^Step \d+ of ")).first.wait_for()
    assert "block_pool" in page.url
    assert not [url for url in loaded if "plotly" in url.lower()]


def test_the_app_reached_nothing_outside_and_loaded_no_torch(page: Any, app: App) -> None:
    _open(page, app)
    page.goto(app.url)
    page.locator(".stage .cell").first.wait_for()
    noted = app.notes.read_text() if app.notes.exists() else ""
    assert noted == ""
    assert app.health()["torch_installed"] is False
    assert "Traceback" not in app.log.read_text()


def test_present_is_one_button_and_escape_leaves_it(page: Any, app: App) -> None:
    _open(page, app, "scenario=fork")
    page.get_by_role("button", name="Present", exact=True).click()
    page.wait_for_url(re.compile(r"[?&]present=1"))
    page.locator('[data-testid="stSidebar"]').wait_for(state="hidden")
    assert "scenario=fork" in page.url
    page.wait_for_timeout(1000)  # the page has drawn itself again
    page.keyboard.press("Escape")
    page.locator('[data-testid="stSidebar"]').wait_for()
    assert "present" not in page.url


def test_the_list_changes_the_picture_and_the_address(page: Any, app: App) -> None:
    _open(page, app, "scenario=fork")
    chosen = page.get_by_role("combobox", name="What to play")
    chosen.click()
    page.keyboard.type("Static")  # a long list draws only what can be seen of it
    page.get_by_role("option", name="Static batching", exact=True).click()
    page.wait_for_url(re.compile(r"scenario=static"))
    page.get_by_text(re.compile(r"^Step 0 of 11\b")).first.wait_for()
    page.reload()
    page.get_by_text(re.compile(r"^Step 0 of 11\b")).first.wait_for()
