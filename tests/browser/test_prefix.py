"""A visitor on the prefix cache page, in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.test_play import SMALL_TEXT
from tests.serving import App

pytestmark = pytest.mark.browser


def _open(page: Any, app: App, query: str = "work=one_system_prompt") -> None:
    page.goto(f"{app.url}/prefix_cache?{query}")
    page.locator(".kv.prefix .hc").first.wait_for()


def _wait_for_step(page: Any, step: int) -> None:
    page.get_by_text(re.compile(rf"^Step {step} of ")).first.wait_for()


def test_plays_splits_a_node_and_steps_back(page: Any, app: App) -> None:
    _open(page, app, "work=one_system_prompt&step=1")
    assert page.locator(".nd").count() == 1
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
    assert page.locator(".pb.hit").count() == 3
    assert page.locator(".pb.miss").count() == 3
    assert "24 of 42 tokens are not computed again." in page.locator(".stripsays").inner_text()
    page.keyboard.press("ArrowLeft")
    _wait_for_step(page, 1)
    assert page.locator(".nd").count() == 1


def test_the_lower_part_of_a_split_node_is_the_same_box_and_moves(page: Any, app: App) -> None:
    _open(page, app, "work=one_system_prompt&step=1")
    box = page.locator(".nd[data-name='0']")
    box.evaluate("(node) => (node.marked = true)")
    before = box.bounding_box()["x"]
    page.get_by_role("button", name="Step on").click()
    _wait_for_step(page, 2)
    page.wait_for_timeout(800)
    assert box.evaluate("(node) => node.marked")
    assert box.bounding_box()["x"] > before + 100


def test_without_motion_nothing_moves(page: Any, app: App) -> None:
    page.emulate_media(reduced_motion="reduce")
    _open(page, app)
    style = (
        "(n) => { const s = getComputedStyle(n); return [s.transitionDuration, s.animationName]; }"
    )
    duration, animation = page.locator(".nd").first.evaluate(style)
    assert duration in ("0s", "") and animation == "none"


def test_a_click_on_a_node_is_answered_and_reaches_the_link(page: Any, app: App) -> None:
    _open(page, app, "work=one_system_prompt&step=2")
    page.locator(".nd[data-name='1'] .nh").click()
    why = page.locator(".why")
    assert why.locator("h3").inner_text().startswith("Radix tree: node 1")
    assert "2 sequences read all of my 3 blocks, so I am locked." in why.inner_text()
    page.wait_for_url(re.compile(r"[?&]pick=node%3A1(&|$)"))
    page.locator(".hc[data-name='6'] button").click()
    assert "B needs me: I am entry 3 of its block table" in why.inner_text()
    page.wait_for_url(re.compile(r"[?&]pick=chain%3A6(&|$)"))
    page.reload()
    page.locator(".kv.prefix .hc").first.wait_for()
    _wait_for_step(page, 2)
    assert "B needs me" in page.locator(".why").inner_text()


def test_pointing_lights_the_same_prefix_everywhere(page: Any, app: App) -> None:
    _open(page, app, "work=one_system_prompt&step=2")
    page.locator(".pb.hit").nth(1).hover()
    key = page.locator(".pb.hit").nth(1).get_attribute("data-k")
    lit = page.locator(".lit")
    assert {lit.nth(i).get_attribute("data-k") for i in range(lit.count())} == {key}
    for place in (".strip .lit", ".hc .lit", ".nd .lit", ".evs .lit"):
        assert page.locator(place).count() >= 1, place
    page.mouse.move(5, 5)
    assert lit.count() == 0


def test_arrow_keys_go_from_block_to_block(page: Any, app: App) -> None:
    _open(page, app, "work=one_system_prompt&step=2")
    page.locator(".hc button[tabindex='0']").focus()
    seen = []
    for _ in range(3):
        seen.append(page.evaluate("document.activeElement.shadowRoot.activeElement.dataset.b"))
        page.keyboard.press("ArrowRight")
    assert seen == ["0", "1", "2"]
    page.keyboard.press("Enter")
    assert page.locator(".why h3").inner_text().startswith("Hash chain: block 3")
    _wait_for_step(page, 2)  # the arrows moved in the picture, not in time


def test_a_node_folds_and_the_level_of_detail_changes(page: Any, app: App) -> None:
    _open(page, app, "work=chat&step=20")
    nodes = page.locator(".nd").count()
    assert nodes > 4
    page.locator(".nd .fold").first.click()
    assert page.locator(".nd").count() < nodes
    assert page.locator(".nd .fold[aria-expanded=false]").count() == 1
    page.locator(".nd .fold[aria-expanded=false]").click()
    assert page.locator(".nd").count() == nodes
    page.get_by_role("button", name="Radix tree: less detail").click()
    page.get_by_role("button", name="Hash chain: more detail").click()
    assert page.locator(".nd").count() == nodes


def test_a_large_tree_stays_inside_its_pane(page: Any, app: App) -> None:
    _open(page, app, "work=api&users=8&turns=6&block=1&pool=1024&step=40")
    page.keyboard.press("End")
    page.wait_for_timeout(300)
    assert page.locator(".hc").count() > 200
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_whose_prompt_is_chosen_in_a_list(page: Any, app: App) -> None:
    _open(page, app)
    page.get_by_label("Whose prompt").select_option("E")
    _wait_for_step(page, 24)
    assert "40 of 41 tokens are not computed again." in page.locator(".stripsays").inner_text()
    page.wait_for_url(re.compile(r"[?&]follow=E(&|$)"))


def test_what_is_shown_can_be_taken_away(page: Any, app: App) -> None:
    _open(page, app, "work=one_system_prompt&step=2")
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
    assert page.locator(".kv.prefix table.t tbody tr").count() == 14


def test_studies_and_knobs_change_what_is_shown(page: Any, app: App) -> None:
    _open(page, app)
    page.get_by_role("radio", name="Eviction").click()
    page.get_by_text("Cached blocks that F takes").wait_for()
    page.get_by_text("B finds 6 of 7 blocks").wait_for()
    slider = page.get_by_role("slider", name="Cached blocks that F takes")
    slider.focus()
    slider.press("ArrowRight")
    page.get_by_text("B finds 5 of 7 blocks").wait_for()
    page.wait_for_url(re.compile(r"[?&]take=3(&|$)"))
    page.get_by_role("radio", name="Time and money").click()
    page.get_by_text("Why time saves less than FLOP.").wait_for()
    assert "study=time" in page.url and "take" not in page.url


def test_ones_own_prompts_run_and_travel_in_the_link(page: Any, app: App) -> None:
    _open(page, app, "study=yours")
    box = page.get_by_label("Prompt B")
    box.fill("Something else altered from its very first word onwards.")
    page.get_by_role("button", name="Run them").click()
    page.locator(".stripsays", has_text="No hit.").wait_for()
    page.wait_for_url(re.compile(r"[?&]own="))
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.locator(".kv.prefix .hc").first.wait_for()
    assert page.get_by_label("Prompt B").input_value().startswith("Something else")


HOSTILE = '<img src=x onerror="window.hit=1"> **bold** [[block]] $x$'


def test_hostile_prompts_are_text(page: Any, app: App) -> None:
    from ui.prefix import place

    own = place.pack_own([HOSTILE, HOSTILE])
    _open(page, app, f"study=yours&own={own}&block=2")
    page.locator(".pb").first.click()
    page.wait_for_timeout(200)
    assert page.evaluate("window.hit === undefined")
    assert page.locator(".kv.prefix img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
@pytest.mark.parametrize("study", ["watch", "evict", "time", "yours"])
def test_nothing_scrolls_sideways(page: Any, app: App, study: str, width: int, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 780})
    page.goto(f"{app.url}/prefix_cache?study={study}")
    page.locator(".kv.prefix .hc, .kv-px-table").first.wait_for()
    page.wait_for_timeout(300)
    main = "document.querySelector('[data-testid=stMain]')"
    assert page.evaluate(f"{main}.scrollWidth <= {main}.clientWidth + 1")


def test_the_projector_has_large_type(page: Any, app: App) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    _open(page, app, "work=one_system_prompt&step=2&present=1")
    page.wait_for_timeout(500)
    assert page.evaluate(SMALL_TEXT) == []
    page.get_by_role("button", name="Leave presenter mode").click()
    page.get_by_role("heading", name="Prefix cache").wait_for()
    assert "present" not in page.url
