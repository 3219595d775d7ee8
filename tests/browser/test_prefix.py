"""A visitor on the prefix cache page, in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import until
from tests.browser.test_play import SMALL_TEXT
from tests.serving import App
from ui.prefix import place

pytestmark = pytest.mark.browser

SPLIT = "work=one_system_prompt&step=2"
"""B is let in, and the node of A's prompt is split."""


def _open(page: Any, app: App, query: str = SPLIT) -> None:
    page.goto(f"{app.url}/prefix_cache?{query}")
    page.locator(".kv.prefix .hc").first.wait_for()


def _wait_for_step(page: Any, step: int) -> None:
    page.get_by_text(re.compile(rf"^Step {step} of ")).first.wait_for()


def test_plays_splits_a_node_and_steps_back(page: Any, app: App) -> None:
    _open(page, app, "work=one_system_prompt&step=1")
    assert page.locator(".nd").count() == 1
    lower = page.locator(".nd[data-name='0']")
    before = lower.bounding_box()["x"]
    page.get_by_role("button", name="Play", exact=True).click()
    _wait_for_step(page, 2)
    page.get_by_role("button", name="Pause", exact=True).click()
    page.keyboard.press("Home")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    _wait_for_step(page, 2)
    assert page.locator(".nd").count() == 3
    assert page.locator(".moment .k").inner_text() == "Node split"
    assert page.locator(".nd.cutabove .splittag").inner_text() == (
        "split here: node 0 keeps what followed"
    )
    # What hits: three blocks of B's prompt, and the match ends at a dashed line.
    assert (page.locator(".pb.hit").count(), page.locator(".pb.miss").count()) == (3, 3)
    assert "24 of 42 tokens are not computed again." in page.locator(".stripsays").inner_text()
    page.keyboard.press("ArrowLeft")
    _wait_for_step(page, 1)
    assert page.locator(".nd").count() == 1
    # The lower part is a box that was there before, and it is seen to move.
    lower.evaluate("(node) => (node.marked = true)")
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(800)
    assert lower.evaluate("(node) => node.marked")
    assert lower.bounding_box()["x"] > before + 50


def test_the_first_picture_begins_at_the_root(page: Any, app: App) -> None:
    """And goes on to what is new, which lies out of sight."""
    _open(page, app)
    area = page.locator(".area").first
    page.wait_for_timeout(300)
    assert area.evaluate("(a) => a.scrollWidth > a.clientWidth"), "there is something to scroll"
    assert area.evaluate("(a) => a.scrollLeft") == 0
    page.keyboard.press("ArrowLeft")
    _wait_for_step(page, 1)
    page.keyboard.press("ArrowRight")
    _wait_for_step(page, 2)
    page.wait_for_timeout(300)
    assert area.evaluate("(a) => a.scrollLeft") > 0


def test_a_click_is_answered_and_travels_in_the_link(page: Any, app: App) -> None:
    page.emulate_media(reduced_motion="reduce")
    _open(page, app)
    style = (
        "(n) => { const s = getComputedStyle(n); return [s.transitionDuration, s.animationName] }"
    )
    assert page.locator(".nd").first.evaluate(style) == ["0s", "none"]
    page.locator(".nd[data-name='1'] .nh").click()
    why = page.locator(".answer")
    assert why.locator("h3").inner_text().startswith("Radix tree: node 1")
    assert "2 sequences read all of my 3 blocks, so I am locked." in why.inner_text()
    page.wait_for_url(re.compile(r"[?&]pick=node%3A1(&|$)"))
    page.locator(".hc[data-name='6'] button").click()
    assert "B needs me: I am entry 3 of its block table" in why.inner_text()
    page.get_by_label("Whose prompt").select_option("E")
    _wait_for_step(page, 24)
    assert "40 of 41 tokens are not computed again." in page.locator(".stripsays").inner_text()
    page.wait_for_url(re.compile(r"[?&]follow=E(&|$)"))
    assert "pick=chain%3A6" in page.url
    page.reload()
    page.locator(".kv.prefix .hc").first.wait_for()
    _wait_for_step(page, 24)
    assert page.locator(".answer h3").inner_text().startswith("Hash chain: block 6")


def test_pointing_keys_and_folding(page: Any, app: App) -> None:
    _open(page, app)
    page.locator(".pb.hit").nth(1).hover()
    key = page.locator(".pb.hit").nth(1).get_attribute("data-k")
    lit = page.locator(".lit")
    assert {lit.nth(i).get_attribute("data-k") for i in range(lit.count())} == {key}
    for where in (".strip .lit", ".hc .lit", ".nd .lit", ".evs .lit"):
        assert page.locator(where).count() >= 1, where
    page.mouse.move(5, 5)
    assert lit.count() == 0

    page.locator(".hc button[tabindex='0']").focus()
    seen = []
    for _ in range(3):
        seen.append(page.evaluate("document.activeElement.shadowRoot.activeElement.dataset.b"))
        page.keyboard.press("ArrowRight")
    assert seen == ["0", "1", "2"]
    page.keyboard.press("Enter")
    assert page.locator(".answer h3").inner_text().startswith("Hash chain: block 3")
    _wait_for_step(page, 2)  # the arrows moved in the picture, not in time

    page.locator(".nd .fold").first.click()
    assert page.locator(".nd").count() == 1
    page.locator(".nd .fold[aria-expanded=false]").click()
    assert page.locator(".nd").count() == 3
    page.get_by_role("button", name="Radix tree: less detail").click()
    assert page.locator(".nd").count() == 3


def test_a_large_tree_stays_inside_its_pane_and_can_be_taken_away(page: Any, app: App) -> None:
    _open(page, app, "work=api&users=8&turns=6&block=1&pool=1024")
    page.keyboard.press("End")
    page.locator(".hc").nth(200).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    _open(page, app)
    with page.expect_download() as waited:
        page.get_by_role("button", name="CSV, download").click()
    lines = Path(waited.value.path()).read_text("utf-8").splitlines()
    assert lines[0].startswith("Cache,Block,Tokens,Key")
    assert len(lines) == 15  # seven blocks in each cache
    with page.expect_download() as waited:
        page.get_by_role("button", name="JSON, download").click()
    both = json.loads(Path(waited.value.path()).read_text("utf-8"))
    assert both["step"] == 2 and both["radix"]["header"]["label"] == "RECORDED"
    with page.expect_download() as waited:
        page.get_by_role("button", name="PNG, download").click()
    assert Path(waited.value.path()).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    page.get_by_text("Both caches of this step as a table").click()
    rows = page.locator(".kv.prefix table.t tbody tr")
    rows.first.wait_for()
    assert rows.count() == 14


def test_studies_and_knobs_on_a_phone(page: Any, app: App) -> None:
    main = "document.querySelector('[data-testid=stMain]')"
    fits = f"{main}.scrollWidth <= {main}.clientWidth + 1"
    page.set_viewport_size({"width": 360, "height": 780})
    page.emulate_media(color_scheme="dark")
    _open(page, app)
    assert page.evaluate(fits)
    page.get_by_role("radio", name="Eviction").click()
    page.get_by_text("B finds 6 of 7 blocks").wait_for()
    slider = page.get_by_role("slider", name="Cached blocks that F takes")
    slider.focus()
    slider.press("ArrowRight")
    page.get_by_text("B finds 5 of 7 blocks").wait_for()
    page.wait_for_url(re.compile(r"[?&]take=3(&|$)"))
    assert page.evaluate(fits)
    page.get_by_role("radio", name="Time and money").click()
    page.get_by_text("Why time saves less than FLOP.").wait_for()
    assert "study=time" in page.url and "take" not in page.url
    assert page.evaluate(fits)


HOSTILE = '<img src=x onerror="window.hit=1"> **bold** [[block]] $x$'


def test_ones_own_prompts_run_and_travel_and_stay_text(page: Any, app: App) -> None:
    own = place.pack_own([HOSTILE, HOSTILE])
    _open(page, app, f"study=yours&own={own}&block=2")
    page.locator(".pb").first.click()
    box = page.get_by_label("Prompt B")
    box.fill("Something else altered from its very first word onwards.")
    page.get_by_role("button", name="Run them").click()
    page.locator(".stripsays", has_text="No hit.").wait_for()
    page.wait_for_function("(own) => !location.search.includes(own)", arg=own)
    assert page.evaluate("window.hit === undefined")
    assert page.locator(".kv.prefix img").count() == 0
    page.reload()
    page.locator(".kv.prefix .hc").first.wait_for()
    until(lambda: page.get_by_label("Prompt B").input_value().startswith("Something else"), page)
    page.get_by_label("Prompt A").fill("Edited, and not run.")
    page.get_by_role("button", name="One prompt more").click()
    altered = "Something else altered from its very first word onwards."
    three = place.pack_own(["Edited, and not run.", altered, altered])
    page.wait_for_function("(own) => location.search.includes(own)", arg=three)


def test_the_projector_has_large_type(page: Any, app: App) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    _open(page, app, f"{SPLIT}&present=1")
    page.wait_for_timeout(500)
    assert page.evaluate(SMALL_TEXT) == []
    page.get_by_role("button", name="Leave presenter mode").click()
    page.get_by_role("heading", name="Prefix cache").wait_for()
    assert "present" not in page.url
