"""The capacity planner in a real browser: a control moves the plan and the address, the frontier by
keyboard, the trial that stands at the step where one more waits, files."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pandas as pd
import pytest

from tests.serving import App
from tests.sizing.test_flags import parsed
from ui.planner import figures, trial
from ui.planner.place import DEFAULT, Place

pytestmark = pytest.mark.browser

PATH = "capacity_planner"


def _open(page: Any, app: App, query: str = "") -> None:
    page.goto(f"{app.url}/{PATH}?{query}")
    page.locator(".kv.planner .pt").first.wait_for()


def _answer(place: Place) -> re.Pattern[str]:
    made = figures.planned(place).design
    return re.compile(rf"^{made.num_gpus} GPUs? .*{made.streams:,} sequences at once")


def test_users_move_the_plan_and_the_link_brings_it_back(page: Any, app: App) -> None:
    _open(page, app)
    page.locator(".answer .big").filter(has_text=_answer(DEFAULT)).wait_for()
    page.get_by_role("spinbutton", name="Users at once, exactly").fill("500")
    page.keyboard.press("Enter")
    moved = page.locator(".answer .big").filter(has_text=_answer(Place(users=500)))
    moved.wait_for()
    page.wait_for_url(re.compile(r"[?&]users=500(&|$)"))
    page.get_by_role("combobox", name="KV cache in").select_option("bf16")
    page.wait_for_url(re.compile(r"[?&]kv=bf16(&|$)"))
    limit = page.get_by_role("spinbutton", name="Between tokens, ms")
    for text in ("-5", ""):
        limit.fill(text)
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert limit.input_value() == "50", "what is no number goes back to the last that held"
    other = page.context.new_page()
    other.goto(page.url)
    other.locator(".answer .big").filter(has_text=_answer(Place(users=500, kv="bf16"))).wait_for()
    other.close()


def test_what_cannot_be_is_said_and_the_control_goes_back(page: Any, app: App) -> None:
    _open(page, app, "model=llama-2-13b&tp=8")
    page.get_by_role("combobox", name="GPUs of a replica (tp)").select_option("16")
    page.locator(".refused").filter(has_text="40 query heads do not divide over 16").wait_for()
    assert page.get_by_role("combobox", name="GPUs of a replica (tp)").input_value() == "8"


def test_a_plan_of_the_frontier_is_taken_over_by_keyboard(page: Any, app: App) -> None:
    _open(page, app)
    page.locator(".front .pt[tabindex='0']").focus()
    page.keyboard.press("Home")
    label = page.evaluate("""() => {
      let at = document.activeElement;
      while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
      return at.getAttribute('aria-label');
    }""")
    assert "an hour, first token" in label
    page.locator(".front .said").filter(has_text=label).wait_for()
    page.keyboard.press("Enter")
    page.locator(".front .pt.now1").filter(has=page.locator(".ring")).first.wait_for()
    page.wait_for_url(re.compile(r"[?&](w|kv|tp)="))
    page.wait_for_function(
        """() => {
          let at = document.activeElement;
          while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
          return at?.getAttribute('aria-label')?.endsWith('The present plan.');
        }"""
    )  # the focus stays in the chart, on the plan that was taken
    page.keyboard.press("End")
    page.get_by_role("spinbutton", name="Users at once, exactly").fill("20000")
    page.keyboard.press("Enter")
    page.locator(".answer .big").filter(has_text="20,000 users").wait_for()
    page.locator(".front:not(.stale)").wait_for()
    assert page.locator(".front .pt[tabindex='0']").count() == 1, "however few plans are left"


def test_what_is_pressed_and_drawn_anew_leaves_the_focus_near(page: Any, app: App) -> None:
    focused = """() => {
      let at = document.activeElement;
      while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
      return at?.textContent === 'first token' ? 'axis' : at?.getAttribute('aria-label');
    }"""
    _open(page, app)
    page.get_by_role("button", name="first token", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"[?&]y=ttft"))
    page.get_by_role("button", name="first token", exact=True, pressed=True).wait_for()
    page.wait_for_function(f"() => ({focused})() === 'axis'")
    page.get_by_role("button", name="Set the controls to: Cache in BF16").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"[?&]kv=bf16"))
    page.wait_for_function(f"() => ({focused})() === 'What if: one thing changed'")


def test_the_trial_stands_where_one_more_waits(page: Any, app: App) -> None:
    _open(page, app)
    page.get_by_text("Test it on the engine").click()
    done = trial.tried(DEFAULT)
    assert done is not None
    said = page.get_by_text(f"{done.admitted} ran at once")
    said.wait_for()
    player = page.locator(".kv .cell").first
    player.wait_for()
    page.get_by_text("SIMULATED").first.wait_for()
    page.get_by_role("link", name="Open it on the block pool page").click()
    page.wait_for_url(re.compile(r"block_pool\?.*own="))
    page.locator(".kv .cell").first.wait_for()


def test_files_open(page: Any, app: App) -> None:
    _open(page, app, "users=300")
    page.get_by_role("button", name="Export").click()
    texts = {}
    for label in ("One page", "Everything", "Every figure", "vLLM", "SGLang"):
        with page.expect_download() as got:
            page.get_by_role("button", name=re.compile(f"^{label}")).click()
        with open(got.value.path(), encoding="utf-8") as file:
            texts[label] = file.read()
    assert json.loads(texts["Everything"])["inputs"]["users"] == 300
    assert len(pd.read_csv(io.StringIO(texts["Every figure"]))) > 30
    assert "300 users" in texts["One page"].splitlines()[0]
    assert parsed(texts["vLLM"], "vllm").tensor_parallel_size == 2
    assert parsed(texts["SGLang"], "sglang").tp == 2


@pytest.mark.parametrize("width", [360, 1920])
def test_it_fits_the_screen(page: Any, app: App, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    _open(page, app)
    main = page.get_by_test_id("stMain")  # what scrolls; the document itself never does
    assert main.evaluate("n => n.scrollWidth - n.clientWidth") <= 0, "nothing goes sideways"
    root = page.locator(".kv.planner")
    assert root.evaluate("n => n.scrollWidth - n.clientWidth") <= 1
