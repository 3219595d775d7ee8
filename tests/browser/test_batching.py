"""The batching page in a real browser: lockstep, keys, hover, targets, exports, links, sizes."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import at_rest
from tests.browser.test_play import SMALL_TEXT
from tests.serving import App

pytestmark = pytest.mark.browser

STAY = ".kv.gantt .picture .stay"


def _open(page: Any, app: App, query: str = "") -> None:
    page.goto(f"{app.url}/batching?{query}")
    page.locator(STAY).first.wait_for()
    page.locator(".kv.gantt table.figs tbody tr").first.wait_for()


def _step(page: Any) -> int:
    return int(page.locator(".kv.gantt .now b").first.inner_text().replace(",", ""))


def _figure(page: Any, name: str) -> list[str]:
    row = page.locator("table.figs tr", has=page.get_by_role("rowheader", name=name, exact=True))
    return [cell.strip() for cell in row.locator("td .val").all_inner_texts()]


def _cursors(page: Any) -> list[float]:
    return [float(c.get_attribute("x")) for c in page.locator(".picture .cursor").all()]


def test_two_runs_stand_in_one_step_and_go_back(page: Any, app: App) -> None:
    _open(page, app)
    assert _step(page) == 0
    page.get_by_role("button", name="Step on").click()
    page.get_by_role("button", name="Step on").click()
    assert _step(page) == 2
    first, second = _cursors(page)
    assert first == pytest.approx(second, abs=1)
    page.get_by_role("button", name="Step back").click()
    assert _step(page) == 1
    assert _cursors(page)[0] < first
    page.wait_for_url(re.compile(r"[?&]step=1(&|$)"))
    page.get_by_role("button", name="Last step").click()
    assert _step(page) == 43
    assert "Done" in page.get_by_role("region", name="Continuous").locator(".what").inner_text()


def test_it_plays_and_pauses(page: Any, app: App) -> None:
    _open(page, app)
    page.get_by_label("Speed").select_option("8")
    page.get_by_role("button", name="Play", exact=True).click()
    page.get_by_role("button", name="Pause").wait_for()
    page.wait_for_timeout(700)
    page.get_by_role("button", name="Pause").click()
    assert 1 <= _step(page) <= 43


def test_the_keys_of_the_player_and_of_the_requests(page: Any, app: App) -> None:
    _open(page, app)
    page.locator(".kv.gantt .ttl").first.click()
    page.keyboard.press("End")
    assert _step(page) == 43
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert _step(page) == 1
    page.keyboard.press("e")
    assert _step(page) > 1
    page.locator(".chip").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    chosen = page.locator(".chip[aria-pressed=true]")
    assert chosen.get_attribute("data-chip") == "B"
    assert "let in in step 0" in page.locator(".requests .card").inner_text()
    page.wait_for_url(re.compile(r"[?&]request=B(&|$)"))


def test_a_bar_says_why_its_request_waited(page: Any, app: App) -> None:
    _open(page, app)
    static = page.get_by_role("region", name="Static")
    static.locator(".wait[data-s=E] rect").hover()
    tip = page.locator(".tip.on")
    tip.wait_for()
    said = tip.inner_text()
    assert said.startswith("E: 14 tokens in, 20 out; arrives in step 0, let in in step 24")
    assert "Waits" in said
    card = page.locator(".requests .card").inner_text()
    assert "batch_not_finished" in card
    assert "max_num_seqs" in card
    assert page.locator(".picture.dim").count() == 2
    assert page.locator(".stay.lit[data-s=E]").count() == 2
    page.locator(".kv.gantt .ttl").first.hover()
    page.locator(".picture.dim").first.wait_for(state="detached")


def test_a_click_in_the_picture_goes_to_its_step(page: Any, app: App) -> None:
    _open(page, app)
    box = at_rest(page.locator(".picture").first)
    page.mouse.click(box["x"] + box["width"] * 0.75, box["y"] + 30)
    assert 28 <= _step(page) <= 34


def test_targets_change_the_goodput_and_the_link(page: Any, app: App) -> None:
    _open(page, app)
    slider = page.get_by_role("slider", name=re.compile("^First token within"))
    slider.focus()
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    assert _figure(page, "Goodput") == ["0 of 8", "0 of 8"]
    assert page.locator(".chip .met").count() == 0
    for _ in range(60):
        page.keyboard.press("ArrowRight")
    assert _figure(page, "Goodput") == ["8 of 8", "8 of 8"]
    assert page.locator(".chip .missed").count() == 0
    target = page.locator(".tgt output").first.inner_text().split()[0].replace(",", "")
    page.wait_for_url(re.compile(rf"[?&]ttft={target}(&|$)"))
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.locator(STAY).first.wait_for()
    assert _figure(page, "Goodput") == ["8 of 8", "8 of 8"]


def test_the_figures_are_those_of_the_runs(page: Any, app: App) -> None:
    _open(page, app)
    assert _figure(page, "Steps") == ["44", "29"]
    assert _figure(page, "Tokens a step") == ["2.30", "3.48"]
    assert [v.replace("\u00a0", " ") for v in _figure(page, "Idle place-steps")] == [
        "75 (43 %)",
        "15 (13 %)",
    ]
    value = page.locator("table.figs td .val").nth(2)
    value.focus()
    assert "4 places × 44 steps = 176" in page.locator(".tip.on").inner_text()


def test_studies_and_controls_change_the_picture_and_the_address(page: Any, app: App) -> None:
    _open(page, app)
    page.get_by_text("A long prompt lands", exact=True).click()
    page.get_by_role("region", name="256 tokens a step").wait_for()
    page.wait_for_url(re.compile(r"[?&]study=landing(&|$)"))
    assert page.locator(".seg.axis [aria-pressed=true]").inner_text() == "Milliseconds"
    page.get_by_text("64 tokens a step", exact=True).first.click()
    page.get_by_role("region", name="64 tokens a step").wait_for()
    page.wait_for_url(re.compile(r"[?&]chunk=64(&|$)"))
    page.get_by_text("Memory pressure", exact=True).click()
    page.get_by_role("region", name="Nothing held back").wait_for()
    assert _figure(page, "Preemptions") == ["6", "0", "0"]
    again = page.locator(".stay[data-s=H] .part.again")
    assert again.count() == 6
    assert again.first.evaluate("node => getComputedStyle(node).fill").startswith("url(")
    page.get_by_text("Arrivals", exact=True).click()
    page.get_by_role("button", name="New draw").wait_for()
    before = page.locator(".kv.gantt .brief").first.inner_text()
    page.get_by_role("button", name="New draw").click()
    page.wait_for_url(re.compile(r"[?&]seed=\d+"))
    page.locator(STAY).first.wait_for()
    address = page.url
    page.goto(address)
    page.locator(STAY).first.wait_for()
    assert page.locator(".kv.gantt .brief").first.inner_text() != before


def test_on_a_clock_the_long_step_is_wide(page: Any, app: App) -> None:
    _open(page, app, "study=landing&axis=ms")
    bar = page.locator(".picture").first.locator(".stay[data-s=E] .prefill")
    wide = float(bar.get_attribute("width"))
    page.get_by_role("button", name="Steps", exact=True).click()
    assert float(bar.get_attribute("width")) < wide / 2


def test_what_can_be_taken_away(page: Any, app: App, tmp_path: Path) -> None:
    _open(page, app)

    def saved(item: str) -> Path:
        page.get_by_label("Save figures, picture or runs").click()
        with page.expect_download() as download:
            page.get_by_role("button", name=item).click()
        target = tmp_path / download.value.suggested_filename
        download.value.save_as(target)
        return target

    rows = list(csv.DictReader(io.StringIO(saved("Figures of each request").read_text("utf-8"))))
    assert [(r["run"], r["sequence"]) for r in rows][:2] == [("Static", "A"), ("Static", "B")]
    assert len(rows) == 16
    assert rows[4]["waited_steps"] == "24"
    assert saved("Picture, as PNG").read_bytes().startswith(b"\x89PNG")
    taken = json.loads(saved("Runs, as JSON").read_text("utf-8"))
    assert [run["name"] for run in taken] == ["Static", "Continuous"]
    assert len(taken[0]["run"]["steps"]) == 44


def test_the_table_has_every_request(page: Any, app: App) -> None:
    _open(page, app)
    page.get_by_text("Table: Static").click()
    rows = page.get_by_role("region", name="Table: Static").locator("tbody tr")
    assert rows.count() == 8
    assert "1–24 batch_not_finished" in rows.nth(4).inner_text()


@pytest.mark.parametrize("query", ["", "study=pressure", "study=arrivals"])
def test_a_phone_scrolls_down_only(page: Any, app: App, query: str) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    _open(page, app, query)
    page.wait_for_timeout(400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    wide = page.evaluate(
        """() => { const m = document.querySelector('[data-testid=stMain]');
        return m.scrollWidth - m.clientWidth; }"""
    )
    assert wide <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_projector_has_both_runs_and_no_small_text(page: Any, app: App, scheme: str) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.emulate_media(color_scheme=scheme)
    _open(page, app, "present=1&step=8")
    page.wait_for_timeout(500)
    assert page.evaluate(SMALL_TEXT) == []
    boxes = [p.bounding_box() for p in page.locator(".picture").all()]
    assert all(box["y"] + box["height"] < 1080 for box in boxes)
    page.keyboard.press("Escape")
    page.get_by_role("heading", name="Batching", exact=True).wait_for()
