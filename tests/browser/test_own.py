"""A visitor brings something of their own: a file, or an edit in the table of requests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from core.engine import Engine
from core.runner import ScriptedRunner
from core.scenario import Scenario
from core.simulate import simulate
from tests.browser.conftest import at_rest
from tests.serving import App
from ui import catalogue

pytestmark = pytest.mark.browser


def _open(page: Any, app: App, query: str) -> None:
    page.goto(f"{app.url}/block_pool?{query}")
    page.get_by_text(re.compile(r"^Step \d+ of ")).first.wait_for()


def _upload(page: Any, file: Path) -> None:
    page.get_by_role("button", name="Files").click()
    page.locator('[data-testid="stFileUploader"] input[type=file]').set_input_files(str(file))


def test_a_run_file_is_opened(page: Any, app: App, tmp_path: Path) -> None:
    run = simulate(Scenario.from_json(catalogue.entries()["preempt"].text))
    run.write(tmp_path / "mine.run.json.gz")
    _open(page, app, "scenario=fork")
    _upload(page, tmp_path / "mine.run.json.gz")
    page.get_by_text(re.compile(rf"^Step 0 of {len(run.steps) - 1}\b")).first.wait_for()
    chosen = page.get_by_role("combobox", name="What to play").input_value()
    assert chosen == "Your file: mine.run.json.gz"
    page.get_by_text("has no link").wait_for()


def test_a_damaged_file_changes_nothing(page: Any, app: App, tmp_path: Path) -> None:
    (tmp_path / "bad.run.json.gz").write_bytes(b"\x1f\x8b broken")
    _open(page, app, "scenario=fork")
    _upload(page, tmp_path / "bad.run.json.gz")
    page.get_by_text("This file was not opened").wait_for()
    assert "scenario=fork" in page.url


def test_a_scenario_file_is_opened_and_gets_a_link(page: Any, app: App, tmp_path: Path) -> None:
    scenario = {
        "schema": "scenario/1",
        "name": "Brought along",
        "requests": [{"id": "Q", "prompt": "hello there", "max_tokens": 3}],
    }
    (tmp_path / "mine.json").write_text(json.dumps(scenario))
    _open(page, app, "scenario=fork")
    _upload(page, tmp_path / "mine.json")
    page.wait_for_url(re.compile(r"[?&]own="))
    # The link alone brings the same picture back, for anyone.
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.get_by_text("Brought along").first.wait_for()


def test_a_cell_of_the_table_can_be_changed(page: Any, app: App) -> None:
    _open(page, app, "scenario=one-request")
    page.get_by_text("Change it").click()
    table = page.locator('[data-testid="stDataFrame"] canvas').first
    table.wait_for()
    # The grid is a canvas with a table for screen readers inside; its editor is a real field.
    table.locator("td", has_text=re.compile(r"^A$")).first.wait_for(state="attached")
    page.wait_for_timeout(1000)  # it measures its columns once it is drawn
    box = at_rest(table)
    page.mouse.dblclick(box["x"] + 60, box["y"] + 52)
    field = page.locator(".gdg-input")
    field.wait_for()
    field.fill("Zed")
    field.press("Enter")
    table.locator("td", has_text="Zed").first.wait_for(state="attached")
    page.wait_for_timeout(1500)  # the change reaches the server without a sign on the page
    page.get_by_role("button", name="Run this scenario").first.click()
    page.wait_for_url(re.compile(r"[?&]own="))
    page.locator('.lane[data-seq="Zed"]').first.wait_for()


@pytest.mark.parametrize("num_tokens", [13, 97])
def test_what_a_sliding_window_has_passed_is_a_dash_with_its_reason(
    page: Any, app: App, tmp_path: Path, num_tokens: int
) -> None:
    """As boxes of tokens, and as bars for a long sequence. 5 tokens behind the next are seen."""
    source = {"device": "CPU", "dtype": "float32", "model": "some-model", "model_sha256": None}
    sizes = {"num_blocks": 40, "max_model_len": 128, "max_num_batched_tokens": 128}
    scenario = {
        "schema": "scenario/1",
        "engine": {"prefix_cache": "hash", **sizes},
        "requests": [{"id": "A", "prompt_tokens": list(range(num_tokens)), "max_tokens": 4}],
    }
    runner = ScriptedRunner(source=source, sliding_window=6)
    engine = Engine(Scenario.from_dict(scenario), runner, label="RECORDED")
    engine.run_to_end().write(tmp_path / "window.run.json.gz")
    _open(page, app, "scenario=fork")
    _upload(page, tmp_path / "window.run.json.gz")
    page.get_by_text(re.compile(r"^Step 0 of 3\b")).first.wait_for()
    page.get_by_text("The sequences of this step as a table").click()
    last = num_tokens // 4
    page.get_by_text(f"{last - 2} → –, {last - 1} → {last - 1}, {last} → {last}").wait_for()
    if num_tokens == 13:
        page.locator(".g.none .ent").first.hover()
    else:
        page.get_by_text("2 blocks, 97 tokens").wait_for()
        page.locator("canvas.barscanvas").click(position={"x": 3, "y": 9})
    page.get_by_text("Entry 0 of A names no block: the model sees only the last 6").wait_for()
