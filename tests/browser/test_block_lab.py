"""A visitor acts by hand, changes the block size and compares allocators, in a real browser."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.browser.test_keyboard import _tab_to
from tests.browser.test_play import SMALL_TEXT
from tests.serving import App

pytestmark = pytest.mark.browser

STEP = re.compile(r"^Step \d+ of ")


def _open(page: Any, app: App, query: str) -> None:
    page.goto(f"{app.url}/block_pool?{query}")
    page.get_by_text(STEP).first.wait_for()


def _by_hand(page: Any, app: App, query: str) -> Any:
    _open(page, app, f"view=hand&{query}")
    bar = page.locator(".kv.hand")
    bar.get_by_role("button", name="Fork").wait_for()
    return bar


def _wait_for_step(page: Any, step: int) -> None:
    page.get_by_text(re.compile(rf"^Step {step} of ")).first.wait_for()


def _lane(page: Any, sequence: str) -> Any:
    return page.locator(f'.lane[data-seq="{sequence}"]')


def test_a_fork_is_seen_in_the_next_step(page: Any, app: App) -> None:
    bar = _by_hand(page, app, "scenario=two-answers&step=2")
    bar.get_by_text("after step 2").wait_for()
    bar.get_by_label("The sequence to act on").select_option("A")
    bar.get_by_role("button", name="Fork").click()
    _wait_for_step(page, 3)
    bar.get_by_text("Step 3: F goes on from A, with the same blocks.").wait_for()
    # A has four blocks. The write into the last one copies it; the other three are named twice.
    shared = _lane(page, "F").locator(".ent", has_text="×2")
    shared.first.wait_for()
    assert shared.count() >= 3
    page.locator(".moment.cow", has_text="Only that block is copied").wait_for()
    page.wait_for_url(re.compile(r"[?&]own=.*"))
    assert re.search(r"[?&]step=3(&|$)", page.url)
    # The link alone brings the same picture to anyone.
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    _wait_for_step(page, 3)
    _lane(page, "F").wait_for()


def test_an_action_is_meant_for_the_step_that_is_seen(page: Any, app: App) -> None:
    """Without waiting until the server has heard of the step."""
    bar = _by_hand(page, app, "scenario=two-answers")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    bar.get_by_text("after step 3").wait_for()
    page.keyboard.press("x")  # the first of the list: A
    bar.get_by_text("Step 4: the request of A is cancelled.").wait_for()
    _wait_for_step(page, 4)
    _lane(page, "A").get_by_text("given back").first.wait_for()
    assert re.search(r"[?&]step=4(&|$)", page.url)
    page.keyboard.press("ArrowLeft")
    _wait_for_step(page, 3)
    assert _lane(page, "A").get_by_text("given back").count() == 0, "the past is as it was"


def test_finish_and_undo_by_keyboard(page: Any, app: App) -> None:
    bar = _by_hand(page, app, "scenario=one-request&step=2")
    page.keyboard.press("d")
    bar.get_by_text("A ends with the next token that it samples.").wait_for()
    page.get_by_text(re.compile(r"^Step 3 of 3\b")).first.wait_for()
    page.get_by_text("stop token").first.wait_for()
    page.keyboard.press("z")
    bar.get_by_text("Taken back.").wait_for()
    _wait_for_step(page, 2)
    assert "scenario=one-request" in page.url
    assert bar.get_by_role("button", name="Undo").get_attribute("aria-disabled") == "true"


def test_all_of_it_without_a_mouse(page: Any, app: App) -> None:
    _by_hand(page, app, "scenario=two-answers&step=2")
    _tab_to(page, "^The sequence to act on$", "select")
    page.keyboard.press("ArrowDown")
    _tab_to(page, "^Fork", "button")
    page.keyboard.press("Enter")
    page.get_by_text("Step 3: F goes on from B#0, with the same blocks.").wait_for()
    _wait_for_step(page, 3)


def test_a_request_is_added_from_the_form(page: Any, app: App) -> None:
    bar = _by_hand(page, app, "scenario=two-answers&step=1")
    page.keyboard.press("a")
    bar.get_by_label("tokens shared").fill("0")
    bar.get_by_role("button", name="Add it").click()
    bar.get_by_text("Share at least 1 token.").wait_for()
    bar.get_by_label("The sequence to begin like").select_option("A")
    bar.get_by_label("tokens shared").fill("12")
    bar.get_by_label("tokens shared").press("Enter")
    bar.get_by_text("Step 2: F arrives and begins like A: 12 tokens.").wait_for()
    _wait_for_step(page, 2)
    assert _lane(page, "F").locator(".ent", has_text="×2").count() == 3
    # What is typed into the form is no key of the player or of this row.
    bar.get_by_role("button", name="Add a request").click()
    bar.get_by_role("button", name="Text", exact=True).click()
    prompt = bar.get_by_role("textbox", name="prompt", exact=True)
    prompt.press_sequentially("a fox")
    assert prompt.input_value() == "a fox"
    _wait_for_step(page, 2)


def test_where_nobody_is_alive_a_new_request_begins_with_its_own_tokens(
    page: Any, app: App
) -> None:
    bar = _by_hand(page, app, "scenario=one-request")
    page.keyboard.press("End")
    bar.get_by_text(re.compile(r"^after step [1-9]")).wait_for()
    bar.get_by_role("button", name="Add a request").click()
    tokens = bar.get_by_role("button", name="Tokens", exact=True)
    assert tokens.get_attribute("aria-pressed") == "true"
    assert not bar.get_by_label("The sequence to begin like").is_visible()


def test_a_recorded_run_changed_by_hand_is_simulated_and_says_so(page: Any, app: App) -> None:
    bar = _by_hand(page, app, "run=two_answers_one_prefix&step=3")
    page.locator(".prov.recorded").first.wait_for()
    page.keyboard.press("d")
    bar.get_by_text("A ends with the next token that it samples.").wait_for()
    page.locator(".prov.simulated").first.wait_for()
    page.get_by_text("its tokens are the script now").wait_for()
    assert "base=two_answers_one_prefix" in page.url
    assert "Water" in _lane(page, "A").inner_text()
    bar.get_by_role("button", name="Add a request").click()
    assert not bar.get_by_role("button", name="Text", exact=True).is_visible()


def test_beams_cannot_go_on_by_hand_and_say_why(page: Any, app: App) -> None:
    bar = _by_hand(page, app, "run=beam_search&step=3")
    fork = bar.get_by_role("button", name="Fork")
    assert fork.get_attribute("aria-disabled") == "true"
    assert "Beams" in fork.get_attribute("title")
    bar.get_by_text("Beams live by the model's probabilities").wait_for()


def test_another_block_size_is_another_pool(page: Any, app: App) -> None:
    _open(page, app, "view=size&scenario=two-answers")
    assert page.locator(".kv .cell").count() == 16
    page.get_by_role("radio", name="8", exact=True).or_(
        page.get_by_role("button", name="8", exact=True)
    ).first.click()
    page.wait_for_url(re.compile(r"[?&]size=8\b"))
    page.locator(".kv .cell").nth(7).wait_for()
    page.wait_for_function("() => true")
    page.get_by_text("8 slots a block").first.wait_for()
    assert page.locator(".kv .cell").count() == 8
    page.get_by_text("All sizes as a table").click()
    page.get_by_text("not one block of 128 slots fits").wait_for()
    page.reload()
    page.get_by_text("8 slots a block").first.wait_for()


def test_two_allocators_go_in_step(page: Any, app: App) -> None:
    _open(page, app, "view=paged&scenario=contiguous")
    page.get_by_text("E waits longer with contiguous memory.").wait_for()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.get_by_text("Its reserve needs 6 blocks in one unbroken row").first.wait_for()
    assert page.locator(".kv.series svg").count() >= 3
    page.get_by_text("The longest there is").click()
    page.get_by_text("B, C, D, E wait longer with contiguous memory.").wait_for()
    assert "reserve=max_model_len" in page.url


def test_on_a_projector_the_pool_comes_before_the_charts(page: Any, app: App) -> None:
    _open(page, app, "view=size&scenario=two-answers&present=1")
    page.locator(".kv-multiples").wait_for()
    pool, charts = page.locator(".kv .cell").first, page.locator(".kv-multiples")
    assert pool.bounding_box()["y"] < charts.bounding_box()["y"]


@pytest.mark.parametrize("view", ["hand", "size", "paged"])
def test_on_a_projector_nothing_is_small(page: Any, app: App, view: str) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    _open(page, app, f"view={view}&scenario=contiguous&present=1")
    page.wait_for_timeout(800)
    small = page.evaluate(SMALL_TEXT)
    assert not small, small[:10]


@pytest.mark.parametrize("view", ["hand", "size", "paged"])
def test_nothing_scrolls_sideways_on_a_phone(page: Any, app: App, view: str) -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    _open(page, app, f"view={view}&scenario=contiguous")
    if view == "hand":
        page.get_by_role("button", name="Add a request").click()
    page.wait_for_timeout(500)
    wide = page.evaluate(
        "() => [document.documentElement.scrollWidth,"
        " document.querySelector('[data-testid=\"stMain\"]').scrollWidth]"
    )
    assert max(wide) <= 360
