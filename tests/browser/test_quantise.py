"""The page on quantised caches in a real browser: formats, the heat map by pointer and by keys, two
texts, links, files, phone and projector."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import kv_quantised as made
from tests.browser.conftest import until
from tests.browser.test_accessibility import axe, faults  # noqa: F401
from tests.browser.test_play import SMALL_TEXT
from tests.serving import App, running
from ui import runs
from ui.quantise import measured, memory, quality
from ui.quantise.place import DEFAULT, EXAMPLES, Place

pytestmark = pytest.mark.browser


def _open(page: Any, app: App, query: str = "fmt=int8") -> None:
    """By a link: without one the instrument stands aside until the prediction is made."""
    page.goto(f"{app.url}/quantisation?{query}")
    page.locator(".kv.quant .tokrow .fig").first.wait_for()


def _bytes(place: Place) -> str:
    return f"{memory.of_place(place).token.value:,} B"


def _figure(page: Any, place: Place) -> Any:
    """The instrument's own: a sentence below may name the same number."""
    return page.get_by_role("button", name=f"a token in this format: {_bytes(place)}")


def _measured(name: str) -> dict[str, Any]:
    found = measured.recorded(EXAMPLES[name][1])
    assert found is not None
    return found


@pytest.fixture
def measured_app(root: Path, tmp_path: Path) -> Iterator[App]:
    """The app where a measurement lies, made by hand, beside three of the recorded runs."""
    there = tmp_path / "runs"
    there.mkdir()
    for name in (measured.OWN, measured.RECORDED["int8"], measured.RECORDED["int4"]):
        shutil.copy(root / "runs" / f"{name}{runs.SUFFIX}", there)
    (there / quality.FILE).write_text(json.dumps(made.quality()), encoding="utf-8")
    with running(tmp_path, runs=there, block="torch,triton,transformers") as app:
        yield app


def test_a_row_of_the_table_sets_the_instrument(
    measured_app: App,
    page: Any,
    axe: str,  # noqa: F811
) -> None:
    _open(page, measured_app)
    rows = page.locator("table.q tbody tr")
    assert rows.count() == 6 and rows.nth(2).get_attribute("class") == "here"
    assert rows.nth(4).inner_text().split()[-7:-4] == ["5,760", "1,310", "3.4"]
    button = page.get_by_role("button", name="int4, per token and head")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"fmt=int4"))
    _figure(page, Place(fmt="int4")).wait_for()
    until(lambda: rows.nth(3).get_attribute("class") == "here", page)
    assert button.evaluate("one => one.getRootNode().activeElement === one")  # keys go on there
    page.get_by_text("Where four bits break.").wait_for()
    page.locator(".series.lesson .plot svg").nth(1).wait_for()
    page.get_by_label("Save: quality of each format").click()
    with page.expect_download() as taken:
        page.get_by_text("Measured values, as CSV").click()
    with open(taken.value.path(), encoding="utf-8") as file:
        assert len(file.read().splitlines()) == 7
    page.wait_for_timeout(500)
    found = faults(page, axe)
    assert not found, "\n".join(found)


def test_a_format_moves_bytes_errors_texts_and_the_address(page: Any, app: App) -> None:
    _open(page, app)
    assert page.get_by_role("button", name=re.compile("a token in this format")).inner_text() == (
        _bytes(DEFAULT)
    )
    assert page.locator(".check .eq").inner_text() == "Equal to the byte"
    cells = page.locator(".heat text.cell")
    assert cells.count() == 2 * made.LAYERS * made.HEADS
    eight = cells.first.text_content()
    page.get_by_role("combobox", name="KV cache in").select_option("int4")
    _figure(page, Place(fmt="int4")).wait_for()
    page.wait_for_url(re.compile(r"[?&]fmt=int4"))
    assert cells.first.text_content() != eight
    page.get_by_role("combobox", name="A scale for").select_option("per_tensor")
    page.get_by_role("combobox", name="Scales calibrated").wait_for()
    page.wait_for_url(re.compile(r"scale=per_tensor"))
    own, other = _measured("int4-tensor")["texts"]["parts"]
    until(lambda: page.locator("mark.other").inner_text().strip() == other[0].strip(), page)
    assert page.locator("mark.own").inner_text().strip() == own[0].strip()


def test_layers_apart_are_checked_where_they_are_typed(page: Any, app: App) -> None:
    _open(page, app)
    field = page.get_by_role("textbox", name="Layers apart")
    field.fill("0-30")
    field.press("Enter")
    page.get_by_role("alert").get_by_text("Layers are numbers from 0 to 29").wait_for()
    field.fill("25-29, 0-4")
    field.press("Enter")
    page.wait_for_url(re.compile(r"apart=0-4%2C25-29"))
    _figure(page, EXAMPLES["outer"][1]).wait_for()
    assert field.input_value() == "0-4,25-29"
    page.get_by_role("combobox", name="Those in").select_option("model")
    page.wait_for_url(re.compile(r"to=model"))


def test_every_cell_can_be_read_by_pointer_and_by_keys(page: Any, app: App) -> None:
    _open(page, app)
    errors = _measured("int8")["errors"]
    grid = page.get_by_role("slider", name="Errors by layer and head, keys and then values")
    said = page.locator(".heats .said")
    grid.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    assert said.inner_text().startswith("Layer 2, KV head 0, values: wrong by ")
    assert f"{100 * errors['value'][2][0]:.2f} %" in said.inner_text()
    assert grid.get_attribute("aria-valuetext") == said.inner_text()
    page.keyboard.press("End")
    assert said.inner_text().startswith("Layer 29, KV head 0, values")
    box = page.locator(".heat .cell").nth(made.LAYERS + 7).bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    assert said.inner_text().startswith("Layer 7, KV head 1, keys")
    page.locator(".heats .tbl summary").click()
    row = page.locator(".heats table tbody tr").nth(7).inner_text().split()
    assert len(row) == 1 + 2 * made.HEADS and row[0] == "7"


def test_a_prompt_that_no_run_has_says_how_to_go_on(page: Any, app: App) -> None:
    _open(page, app)
    prompt = page.get_by_role("textbox", name=re.compile("^The prompt"))
    prompt.fill("Say <b>nothing</b>.")
    prompt.blur()
    page.get_by_text("No engine answers here now, and no recorded run").wait_for()
    page.wait_for_url(re.compile(r"own="))
    assert page.locator(".heats").is_hidden()
    other = page.context.new_page()
    other.goto(page.url)
    other.get_by_text("No engine answers here now, and no recorded run").wait_for()
    there = other.get_by_role("textbox", name=re.compile("^The prompt"))
    assert there.input_value() == "Say <b>nothing</b>."
    other.close()
    prompt.fill("")  # empty: the page's own
    prompt.blur()
    page.locator(".kv.quant .heat .cell").first.wait_for()
    assert prompt.input_value() == measured.prompt()


def test_the_page_can_be_taken_away(page: Any, app: App) -> None:
    _open(page, app, "fmt=int4")
    page.get_by_text("Export").click()
    with page.expect_download() as taken:
        page.get_by_text("Bytes, errors and texts, as JSON").click()
    with open(taken.value.path(), encoding="utf-8") as file:
        found = json.load(file)
    assert found["kv_dtype"]["format"] == "int4"
    assert found["measured"]["errors"] == _measured("int4")["errors"]
    page.keyboard.press("Escape")
    page.get_by_label("Save: errors by layer and head").click()
    with page.expect_download() as taken:
        page.get_by_text("Errors, as CSV").click()
    with open(taken.value.path(), encoding="utf-8") as file:
        assert len(file.read().splitlines()) == 1 + 2 * made.LAYERS * made.HEADS


@pytest.mark.parametrize("width", [360, 390])
def test_nothing_scrolls_sideways_on_a_phone(page: Any, app: App, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    _open(page, app, "fmt=int4&scale=per_tensor")
    page.wait_for_timeout(500)
    wide = page.evaluate(
        "() => [document.documentElement.scrollWidth,"
        " document.querySelector('[data-testid=\"stMain\"]').scrollWidth]"
    )
    assert max(wide) <= width
    # Upright: a row for each layer.
    first, second = (page.locator(".heat .cell").nth(i).bounding_box() for i in (0, 1))
    assert second["y"] > first["y"] and abs(second["x"] - first["x"]) < 8


def test_nothing_is_small_on_a_projector(page: Any, app: App) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    _open(page, app, "present=1")
    page.wait_for_timeout(800)
    small = [one for one in page.evaluate(SMALL_TEXT) if "cell" not in one]
    assert not small, small[:10]
