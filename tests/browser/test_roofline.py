"""The roofline page in a real browser: sliders, roofs, the brush both ways, links, files."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.browser.conftest import at_rest
from tests.browser.test_play import SMALL_TEXT
from tests.serving import App
from ui.roofline import figures, measured
from ui.roofline.place import DEFAULT

pytestmark = pytest.mark.browser


def _open(page: Any, app: App, query: str = "") -> None:
    page.goto(f"{app.url}/roofline?{query}")
    page.locator(".plane .m").first.wait_for()


def _on(page: Any) -> list[int]:
    """The steps that are selected in the row of steps, by their place."""
    found: list[int] = page.locator(".strip .bars").evaluate(
        "node => [...node.children].flatMap((bar, i) => bar.classList.contains('on') ? [i] : [])"
    )
    return found


def test_a_slider_moves_the_points_and_the_address(page: Any, app: App) -> None:
    _open(page, app)
    slider = page.get_by_role("slider", name="Decode: sequences at once")
    before = page.locator(".plane .pt").first.get_attribute("cx")
    slider.focus()
    for _ in range(16):  # eight places are one doubling
        page.keyboard.press("ArrowRight")
    page.get_by_text("With 128 sequences the matrices of decode are bound by memory").wait_for()
    page.wait_for_url(re.compile(r"[?&]b=128(&|$)"))
    assert page.locator(".plane .pt").first.get_attribute("cx") != before
    page.get_by_role("spinbutton", name="Decode: sequences at once, exactly").fill("512")
    page.keyboard.press("Enter")
    page.get_by_text("With 512 sequences the matrices of decode are bound by compute").wait_for()
    other = page.context.new_page()
    other.goto(page.url)
    other.get_by_text("With 512 sequences the matrices").wait_for()
    other.close()


def test_roofs_come_and_go_and_carry_the_points(page: Any, app: App) -> None:
    _open(page, app, "roofs=h100-sxm5:bf16")
    page.get_by_label("Add a GPU and precision to the chart").select_option("mi300x:fp8")
    put = page.get_by_role("button", name="Put the points on MI300X, FP8")
    put.wait_for()
    page.wait_for_url(re.compile("roofs=h100-sxm5%3Abf16%2Cmi300x%3Afp8"))
    put.click()
    roof = figures.modelled(replace(DEFAULT, roofs=("mi300x:fp8",)))["roofs"][0]
    reach = roof["saturates"]["value"]
    page.get_by_text(f"reach the ridge of MI300X, FP8 from {reach:,} tokens").wait_for()
    page.get_by_role("button", name="Take H100 SXM5, BF16 out").click()
    page.wait_for_url(re.compile(r"roofs=mi300x%3Afp8(&|$)"))
    opens = page.get_by_role("button", name=re.compile("^ridge, MI300X"))
    opens.focus()
    page.keyboard.press("Enter")
    opened = page.get_by_role("dialog", name="How a number is reached")
    opened.get_by_text("I* = peak / BW").wait_for()


def test_a_step_lights_its_points_and_a_brush_selects_its_steps(page: Any, app: App) -> None:
    _open(page, app, "view=own")
    strip = page.get_by_role("slider", name=re.compile("^Step of the run"))
    strip.focus()
    page.keyboard.press("ArrowRight")
    page.get_by_role("heading", name="Step 1, decode").wait_for()
    assert page.locator(".plane .m.on").count() == 2, "its matrices and its attention"
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.get_by_role("heading", name="Steps 1–3").wait_for()
    page.wait_for_url(re.compile(r"[?&]steps=1-3(&|$)"))
    part = measured.part(DEFAULT.run)
    assert part is not None
    flops = sum(row[5][0] for row in part["rows"][1:4])
    page.get_by_role("cell", name=f"{flops / 1e9:.2f} G", exact=True).first.wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("heading", name="No step selected").wait_for()

    box = at_rest(page.locator(".plane svg"))
    page.mouse.move(box["x"] + 60, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] - 50, steps=4)
    page.mouse.up()
    assert len(_on(page)) == len(part["rows"]), "a brush over all of them"
    page.get_by_role("button", name="All prefill", exact=True).click()
    kinds = [row[1] for row in part["rows"]]
    assert _on(page) == [i for i, kind in enumerate(kinds) if kind == "prefill"]
    place = at_rest(page.locator(".plane .m.matrices").nth(30))
    page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    assert len(_on(page)) == 1


def test_another_run_brings_its_steps_and_files_open(page: Any, app: App) -> None:
    import pandas as pd

    _open(page, app, "steps=9")
    page.get_by_role("heading", name=re.compile("^Step 9, ")).wait_for()
    page.get_by_role("combobox", name="Recorded run").select_option("one_question")
    page.get_by_role("heading", name="No step selected").wait_for()
    page.wait_for_url(re.compile(r"[?&]run=one_question(&|$)"))
    page.locator(".files > summary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Measured steps, as CSV").click()
    table = pd.read_csv(download.value.path())
    part = measured.part("one_question")
    assert part is not None and len(table) == len(part["rows"])
    assert table["whole_flops"].iloc[0] == part["rows"][0][5][0]
    page.locator(".files > summary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Picture, as PNG").click()
    with open(download.value.path(), "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"
    page.get_by_text("Every step as a table").click()
    page.locator(".hold tbody tr").first.wait_for()  # its rows are made once it opens
    assert page.locator(".hold tbody tr").count() == len(part["rows"])


CONTRAST = """(nodes) => {
  const ink = document.createElement('canvas').getContext('2d');
  const light = (colour) => {
    ink.clearRect(0, 0, 1, 1);
    ink.fillStyle = colour;
    ink.fillRect(0, 0, 1, 1);
    const part = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = ink.getImageData(0, 0, 1, 1).data;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b) + 0.05;
  };
  const ground = light(getComputedStyle(nodes[0].closest('.panel')).backgroundColor);
  return nodes.map((t) => {
    const [a, b] = [light(getComputedStyle(t).fill), ground].sort((x, y) => x - y);
    return [t.textContent, b / a];
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_name_in_the_picture_can_be_read(page: Any, app: App, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    _open(page, app)
    page.locator(".plane text.name.h").first.wait_for()
    found = page.locator(".plane text").evaluate_all(CONTRAST)
    assert len(found) > 20
    assert [one for one in found if one[1] < 4.5] == []


@pytest.mark.parametrize(("width", "query"), [(360, "steps=1-9"), (1920, "present=1")])
def test_narrow_and_on_a_projector(page: Any, app: App, width: int, query: str) -> None:
    page.set_viewport_size({"width": width, "height": 1080})
    _open(page, app, query)
    page.wait_for_timeout(500)
    main = page.locator("[data-testid=stMain]")
    assert main.evaluate("node => node.scrollWidth <= node.clientWidth"), "nothing goes sideways"
    if "present" in query:
        assert not page.evaluate(SMALL_TEXT)
