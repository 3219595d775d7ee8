"""The KV sizing page in a real browser: sliders, numbers that open, links, files, hostile names."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest

from core.sizing import catalog
from tests.browser.test_play import SMALL_TEXT
from tests.serving import App
from ui.sizing import figures
from ui.sizing.place import DEFAULT, Place

pytestmark = pytest.mark.browser

PATH = "kv_sizing"


def _open(page: Any, app: App, query: str = "") -> None:
    page.goto(f"{app.url}/{PATH}?{query}")
    page.locator(".kv.sizing .hbm .part").first.wait_for()


def _fits(place: Place) -> str:
    planned = figures.sized(place).planned
    assert planned is not None
    return f"{planned.held_paged.value:,} sequences fit"


def test_a_slider_moves_every_figure_and_the_address(page: Any, app: App) -> None:
    _open(page, app)
    page.get_by_text(_fits(DEFAULT)).wait_for()
    slider = page.get_by_role("slider", name="Context of each, tokens")
    slider.focus()
    for _ in range(8):  # eight places are one doubling
        page.keyboard.press("ArrowRight")
    page.get_by_text(_fits(Place(ctx=8192))).wait_for()
    page.wait_for_url(re.compile(r"[?&]ctx=8192(&|$)"))
    assert slider.get_attribute("aria-valuetext") == "8,192"
    page.get_by_role("spinbutton", name="Sequences at once, exactly").fill("600")
    page.keyboard.press("Enter")
    page.get_by_text("600 do not fit").wait_for()
    address = page.url
    other = page.context.new_page()
    other.goto(address)
    other.get_by_text("600 do not fit").wait_for()
    assert (
        other.get_by_role("spinbutton", name="Context of each, tokens, exactly").input_value()
        == "8192"
    )
    other.close()


def test_what_cannot_be_is_said_and_the_control_goes_back(page: Any, app: App) -> None:
    _open(page, app, "model=llama-2-13b")
    count = page.get_by_role("combobox", name="How many")
    count.select_option("16")
    page.get_by_text("40 KV heads do not divide over 16 GPUs").wait_for()
    assert count.input_value() == "8"
    count.select_option("4")
    page.get_by_role("button", name="All 4", exact=True).wait_for()
    page.wait_for_url(re.compile(r"[?&]gpus=4(&|$)"))
    page.locator(".refused").wait_for(state="hidden")


def test_the_newest_of_many_movements_is_what_stands(page: Any, app: App) -> None:
    _open(page, app)
    slider = page.get_by_role("slider", name="Sequences at once")
    slider.evaluate(
        """(rng) => new Promise((done) => {
          let k = 10;
          const move = () => {
            rng.value = String(k);
            rng.dispatchEvent(new Event("input"));
            if (++k < 40) setTimeout(move, 8); else done();
          };
          move();
        })"""
    )
    exact = page.get_by_role("spinbutton", name="Sequences at once, exactly")
    wanted = exact.input_value()
    page.wait_for_url(re.compile(rf"[?&]n={wanted}(&|$)"))
    page.wait_for_timeout(300)
    assert exact.input_value() == wanted, "the hand's last place stays"
    page.get_by_text(f"with {wanted} sequences at").wait_for()
    reserved = page.get_by_role("spinbutton", name="Reserved for each")
    for field in (exact, reserved):
        held = field.input_value()
        for none in ("0", "-5", ""):
            field.fill(none)
            field.press("Enter")
            assert field.input_value() == held, f"{none!r} is no number of them"


def test_numbers_open_by_keyboard_and_letters_say_what_they_are(page: Any, app: App) -> None:
    _open(page, app)
    letter = page.get_by_role("button", name="KV heads: 8")
    letter.focus()
    page.get_by_text("num_key_value_heads. Queries are not kept.").wait_for()
    page.get_by_role("button", name=re.compile("^Fewer bytes")).focus()
    page.get_by_text("Fewer bytes moves b.").wait_for()
    assert page.locator(".form .s.on").get_attribute("data-sym") == "b"
    part = page.get_by_role("button", name=re.compile("^Keys and values: ")).first
    part.focus()
    page.keyboard.press("Enter")
    opened = page.get_by_role("dialog", name="How a number is reached")
    opened.get_by_text("n · M_pool").wait_for()
    assert "85.90 GB = 80.00 GiB" in opened.inner_text()
    page.keyboard.press("Escape")
    opened.wait_for(state="hidden")
    assert part.evaluate("node => node.getRootNode().activeElement === node"), "and back"


def test_files_open(page: Any, app: App) -> None:
    import pandas as pd

    _open(page, app, "n=16")
    page.get_by_text("Export").first.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Every figure, as CSV").click()
    table = pd.read_csv(download.value.path())
    with page.expect_download() as download:
        page.get_by_role("button", name="Every figure, as JSON").click()
    with open(download.value.path(), encoding="utf-8") as file:
        assert json.load(file)["inputs"]["n"] == 16, "the place as it stands, not the first one"
    token = table[table["name"] == "kv_bytes_per_token"]["value"].iloc[0]
    assert int(token) == 327_680
    page.keyboard.press("Escape")
    page.locator(".chart .files > summary").first.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Values, as CSV").first.click()
    with open(download.value.path(), encoding="utf-8") as file:
        lines = pd.read_csv(io.StringIO(file.read()))
    assert lines["tokens"].iloc[-1] == 32_768
    assert lines.filter(like="BF16 (B)").iloc[-1, 0] == 16 * 32_768 * 327_680


def test_a_config_of_one_s_own_is_sized_and_its_names_are_text(page: Any, app: App) -> None:
    _open(page, app)
    config = {
        **catalog.entries()["qwen3-32b"].config,
        "<img src=x onerror=window.hurt=1>": 1,
    }
    page.get_by_text("Your config.json").first.click()
    page.locator("input[type=file]").set_input_files(
        {"name": "config.json", "mimeType": "application/json", "buffer": b"\xff\xfe{"}
    )
    page.get_by_text("This config.json cannot be sized.").wait_for()
    page.get_by_text("config: is not UTF-8 text").wait_for()
    page.locator(".st-key-ks\\.own\\.text textarea, [class*=ks-own-text] textarea").first.fill(
        json.dumps(config)
    )
    page.get_by_role("button", name="Size this model").click()
    page.get_by_text("onerror=window.hurt=1").first.wait_for()
    page.get_by_role("button", name=re.compile("^a token, whole model: 262,144 B")).first.wait_for()
    assert page.evaluate("window.hurt") is None
    page.wait_for_url(re.compile("[?&]own="))


@pytest.mark.parametrize(
    ("width", "query"), [(360, "gpus=1&n=4096"), (390, ""), (1920, "present=1")]
)
def test_narrow_and_on_a_projector(page: Any, app: App, width: int, query: str) -> None:
    page.set_viewport_size({"width": width, "height": 1080})
    _open(page, app, query)
    page.wait_for_timeout(500)
    main = page.locator("[data-testid=stMain]")
    assert main.evaluate("node => node.scrollWidth <= node.clientWidth"), "nothing goes sideways"
    cut = (
        "nodes => nodes.filter((n) => n.scrollWidth > n.clientWidth + 1).map((n) => n.textContent)"
    )
    assert page.locator(".mem .part").evaluate_all(cut) == [], "no word on the bar is cut off"
    if "present" in query:
        assert not page.evaluate(SMALL_TEXT)
        page.keyboard.press("PageDown")
        page.wait_for_function(
            "() => document.querySelector('[data-testid=stMain]').scrollTop > 300", timeout=5000
        )
