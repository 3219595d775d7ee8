"""The whole path through the course without a mouse: Tab, arrows, Enter and Space."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.serving import App

pytestmark = pytest.mark.browser

MOST_TABS = 200

# What has the focus, inside components too: its name as a person hears or reads it.
FOCUSED = """() => {
  let node = document.activeElement;
  while (node?.shadowRoot?.activeElement) node = node.shadowRoot.activeElement;
  if (!node || node === document.body) return { name: "", tag: "", seen: true };
  const name = node.getAttribute("aria-label") || node.innerText || node.textContent || "";
  const box = node.getBoundingClientRect();
  return {
    name: name.trim(),
    tag: node.tagName.toLowerCase(),
    type: node.type ?? "",
    seen: node.matches(":focus-visible") && box.width > 0 && box.height > 0,
    inside: node !== document.activeElement,
  };
}"""


def _focused(page: Any) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(FOCUSED)
    return found


def _tab_to(
    page: Any, name: str, tag: str = "", *, back: bool = False, inside: bool = False
) -> None:
    """Press Tab until something of that name, a regular expression, has the focus. inside: it must
    be within a component."""
    passed = []
    for _ in range(MOST_TABS):
        page.keyboard.press("Shift+Tab" if back else "Tab")
        found = _focused(page)
        fits = re.search(name, found["name"]) and found["tag"].startswith(tag)
        if fits and (not inside or found["inside"]):
            assert found["seen"], f"{name} has the focus and does not show it"
            return
        passed.append(f"{found['tag']} {found['name'][:24]!r}")
    raise AssertionError(f"no way by Tab to {name!r}: {passed}")


def _at_step(page: Any, step: int) -> None:
    page.get_by_text(re.compile(rf"^Step {step} of ")).first.wait_for()


def _go_to(page: Any, title: str, path: str) -> None:
    """Another page, by its link in the sidebar."""
    _tab_to(page, rf"^\w+\n+{title}$", "a")  # the icon's name stands in the text before it
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"/{path}(\?|$)"))


def test_from_the_start_through_a_run_to_the_quiz(page: Any, app: App) -> None:
    page.goto(app.url)
    page.locator(".stage .cell").first.wait_for()
    _tab_to(page, "Watch a run", "a")
    page.keyboard.press("Enter")

    _at_step(page, 0)
    _tab_to(page, "^Play", "button", inside=True)  # a way to look at the page is called so too
    page.keyboard.press("Enter")
    _at_step(page, 1)
    page.keyboard.press("Enter")  # the same button is Pause now
    page.get_by_role("button", name="Play", exact=True).wait_for()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    _at_step(page, 2)
    page.wait_for_url(re.compile(r"[?&]step=2(&|$)"))  # where one stopped has reached the server

    _go_to(page, "Prefill and decode", "prefill_decode")
    page.get_by_role("heading", name=re.compile(r"^Step \d+: ")).wait_for()
    _tab_to(page, "Show the code", "summary")
    page.keyboard.press("Enter")
    page.get_by_text("core/engine.py:").first.wait_for()

    _go_to(page, "Quiz", "quiz")
    for place in range(4):
        page.get_by_text(f"Question {place + 1} of 4").wait_for()
        _tab_to(page, "", "input", inside=True)
        page.keyboard.press("Space")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        # The focus goes to the news, so that a screen reader reads it; the button is after it.
        page.locator(".fb h3").wait_for()
        page.wait_for_timeout(300)
        assert _focused(page)["tag"] == "h3"
        _tab_to(page, "^Next question" if place < 3 else "^See the result", "button")
        page.keyboard.press("Enter")
    page.locator(".score").wait_for()


DRAWN = {
    "": ".stage .cell",
    "course": ".course .row",
    "tiers": ".series.lesson .plot svg",
    "prefill_decode": ".kv.bench svg",
    "kv_sizing": ".hbm .part",
    "roofline": ".kv.rooflines .plane .pt",
    "block_pool": ".kv .cell",
    "batching": ".kv.gantt .picture .stay",
    "prefix_cache": ".kv .hc",
    "quantisation": ".kv.quant .heat .cell",
    "capacity_planner": ".kv.planner .pt",
    "claims_ledger": ".ledger .row",
    "exercises": ".kv-ex-head",
    "quiz": "label.opt",
    "review": ".kv-empty",
    "notebook": ".kv-empty",
}
"""A page's address → what is on it once it is drawn."""


@pytest.mark.parametrize("path", list(DRAWN))
def test_tab_goes_round_every_page_and_is_never_caught(page: Any, app: App, path: str) -> None:
    page.goto(f"{app.url}/{path}")
    page.locator(DRAWN[path]).first.wait_for()
    page.wait_for_timeout(1000)
    passed = []
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        found = _focused(page)
        if found["tag"] == "" and len(passed) > 5:
            break  # past the last one, at the browser's own controls
        passed.append((found["tag"], found["name"][:40]))
        if len(passed) > 20 and passed[0] == passed[-1]:
            break
    else:
        raise AssertionError(f"Tab does not come round: {passed[-12:]}")
