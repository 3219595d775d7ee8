"""Pages that are read, the map and the search, in a real browser."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from tests.browser.conftest import at_rest
from tests.browser.test_keyboard import FOCUSED
from tests.browser.test_play import SMALL_TEXT
from tests.serving import App
from ui import lesson
from ui.reading import charts, document

pytestmark = pytest.mark.browser

WIDE = (
    "() => [document.documentElement.scrollWidth,"
    " document.querySelector('[data-testid=\"stMain\"]').scrollWidth]"
)
# How many letters fit into a line of the first long paragraph.
MEASURE = """() => {
  const p = [...document.querySelectorAll('.st-key-kv-text [data-testid="stMarkdownContainer"] p')]
    .find((one) => one.textContent.length > 300);
  const walk = document.createTreeWalker(p, NodeFilter.SHOW_TEXT);
  const lines = new Map();
  while (walk.nextNode()) {
    if (walk.currentNode.parentElement.closest(".kv-def")) continue;
    for (let i = 0; i < walk.currentNode.length; i++) {
      const range = document.createRange();
      range.setStart(walk.currentNode, i);
      range.setEnd(walk.currentNode, i + 1);
      const top = Math.round(range.getBoundingClientRect().bottom / 8);
      lines.set(top, (lines.get(top) ?? 0) + 1);
    }
  }
  return Math.max(...lines.values());
}"""
HEADS = document.headings(lesson.load("tiers"), "plain")
RELOAD = dict(HEADS)["reload"]
SECTION = '[class*="st-key-kv-sec-"][data-kv-on]'


def _open(page: Any, app: App, path: str) -> None:
    page.goto(f"{app.url}/{path}")
    page.locator(".st-key-kv-text h2").first.wait_for()
    page.wait_for_timeout(900)


def _top(page: Any, part: str) -> float:
    found: float = page.evaluate(
        "(name) => document.querySelector(`.st-key-kv-sec-${name}`).getBoundingClientRect().top",
        part,
    )
    return found


def test_a_figure_shows_its_derivation_on_focus_and_escape_puts_it_away(
    page: Any, app: App
) -> None:
    _open(page, app, "tiers")
    value = page.locator(".kv-value", has_text="640").first
    value.focus()
    said = value.locator(".kv-def")
    assert said.is_visible()
    assert "M · S" in said.inner_text() and "kv_bytes_sequence" in said.inner_text()
    box, main = said.bounding_box(), page.locator('[data-testid="stMain"]').bounding_box()
    assert box["x"] >= main["x"] and box["x"] + box["width"] <= 1440
    page.keyboard.press("Escape")
    assert not said.is_visible()
    page.locator(".kv-term").first.focus()
    value.focus()
    assert said.is_visible()  # it comes back with the next focus
    value.evaluate("(node) => node.blur()")
    value.hover()
    assert said.is_visible()


def test_a_term_leads_to_its_place_among_all_terms(page: Any, app: App) -> None:
    _open(page, app, "tiers")
    page.evaluate("window.kept = true")
    term = page.locator(".kv-term", has_text="offloading").first
    term.hover()
    at_rest(term.locator(".kv-def"))
    term.get_by_text("Among all terms").click()  # the pointer goes to it, and the words stay
    page.wait_for_url(re.compile(r"course\?view=terms&term=offloading"))
    page.locator(".term.open dt", has_text="offloading").wait_for()
    assert page.evaluate("window.kept"), "and nothing was loaded anew"


def test_a_part_that_is_drawn_late_is_there_on_a_projector(page: Any, app: App) -> None:
    page.goto(f"{app.url}/failures?present=1")
    page.locator(f"{SECTION} h2").first.wait_for()
    page.evaluate(
        """() => {
          const there = document.querySelector("[data-kv-on]");
          const anew = there.cloneNode(true);
          anew.removeAttribute("data-kv-on");
          there.replaceWith(anew);
        }"""
    )
    page.locator(f"{SECTION} h2").first.wait_for()
    assert page.locator(SECTION).count() == 1


def test_contents_lead_to_a_part_and_the_address_keeps_it(page: Any, app: App) -> None:
    _open(page, app, "tiers")
    assert 50 <= page.evaluate(MEASURE) <= 74
    page.get_by_role("navigation", name="On this page").get_by_text(RELOAD).click()
    page.wait_for_url(re.compile(r"[?&]at=reload(&|$)"))
    at_rest(page.locator(".st-key-kv-sec-reload h2"))
    assert abs(_top(page, "reload")) < 90
    assert page.evaluate(FOCUSED)["tag"] == "h2"
    current = page.locator(".reader nav a[aria-current]")
    assert current.inner_text() == RELOAD
    page.reload()
    page.locator(".st-key-kv-sec-policy h2").wait_for()
    page.wait_for_timeout(2500)
    assert abs(_top(page, "reload")) < 90


def test_a_link_within_the_course_loads_nothing_anew_and_the_end_marks_the_page(
    page: Any, app: App
) -> None:
    _open(page, app, "tiers")
    page.evaluate("window.kept = true")
    page.get_by_text("In short", exact=True).click()
    page.locator(".kv-small", has_text="About").wait_for()
    page.locator(".st-key-kv-sec-policy").scroll_into_view_if_needed()
    page.locator('[data-testid="stMain"]').evaluate("(m) => m.scrollTo(0, m.scrollHeight)")
    side = page.locator('[data-testid="stSidebarNav"] a[href$="/tiers"]')
    side.get_by_text("clock_loader_40").wait_for(state="attached")
    page.get_by_text("How it works", exact=True).click()
    page.get_by_role("link", name="the ledger").first.click()
    page.wait_for_url(re.compile(r"/claims_ledger\?claim=B100"))
    page.locator(".ledger .row, .ledger .claim").first.wait_for()
    assert page.evaluate("window.kept")


def test_the_projector_shows_one_part_at_a_time_and_the_keys_turn(page: Any, app: App) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    _open(page, app, "tiers?present=1")
    shown = page.locator(f"{SECTION} h2")
    assert shown.count() == 1 and shown.inner_text() == HEADS[0][1]
    page.keyboard.press("ArrowRight")
    assert shown.inner_text() == RELOAD
    page.wait_for_url(re.compile(r"[?&]at=reload(&|$)"))
    page.keyboard.press("PageDown")  # it is longer than the screen
    page.wait_for_timeout(200)
    assert shown.inner_text() == RELOAD
    assert page.locator('[data-testid="stMain"]').evaluate("(m) => m.scrollTop") > 300
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("PageUp")
    assert shown.inner_text() == HEADS[0][1]
    page.keyboard.press("End")
    page.get_by_text(f"{len(HEADS)} of {len(HEADS)}").wait_for()
    assert not page.evaluate(SMALL_TEXT, 18)
    page.keyboard.press("Escape")
    page.locator(".st-key-kv-objectives").wait_for()
    assert "present" not in page.url


def test_a_chart_is_read_by_keys_has_a_table_and_names_that_lie_apart(page: Any, app: App) -> None:
    data = charts.data("reload_or_recompute")
    _open(page, app, "tiers?at=reload")
    chart = page.locator(".series.lesson").first
    at_rest(chart)
    chart.get_by_text("MODELLED").wait_for()
    boxes = [one.bounding_box() for one in chart.locator("text.name").all()]
    boxes.sort(key=lambda box: box["y"])
    assert len(boxes) >= len(data["lines"]) >= 4
    right = chart.bounding_box()["x"] + chart.bounding_box()["width"]
    for above, below in itertools.pairwise(boxes):
        assert below["y"] - above["y"] >= 12
        assert below["x"] + below["width"] <= right
    slider = chart.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    read = f"{data['x']['label']} {data['x']['values'][1]:,} {data['x']['unit']}: "
    chart.get_by_text(f"{read}{data['lines'][0]['name']}").wait_for()
    chart.get_by_text("Table", exact=True).click()
    chart.get_by_text("computed by").wait_for()
    assert chart.locator("tbody tr").count() == len(data["x"]["values"]) + 1
    with page.expect_download() as saved:
        chart.get_by_label("Save the chart").click()
        chart.get_by_text("Values, as CSV").click()
    text = saved.value.path().read_text("utf-8")
    assert text.count("\n") == len(data["x"]["values"]) + 1


def test_search_finds_what_is_typed_and_the_keys_lead_there(page: Any, app: App) -> None:
    page.goto(f"{app.url}/course")
    page.locator(".course .row").first.wait_for()
    page.wait_for_timeout(800)
    page.keyboard.press("/")
    page.keyboard.type("crossover")
    first = page.locator(".course .results li").first
    first.wait_for()
    assert "Offloading" in first.inner_text()
    assert first.locator("mark").first.inner_text().lower() == "crossover"
    page.wait_for_url(re.compile(r"[?&]q=crossover(&|$)"))
    page.keyboard.press("ArrowDown")
    assert page.evaluate(FOCUSED)["name"].startswith("Offloading")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/tiers\?at="))
    page.locator(".st-key-kv-text h2").first.wait_for()
    page.go_back()
    page.locator(".course .results li").first.wait_for()
    assert page.get_by_label("Search the course").input_value() == "crossover"


def test_hostile_words_in_the_search_are_only_words(page: Any, app: App) -> None:
    page.goto(f"{app.url}/course?q=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E")
    page.get_by_text("Nothing in the course says that").wait_for()
    assert page.get_by_label("Search the course").input_value() == "<img src=x onerror=alert(1)>"
    assert not page.locator(".course img").count()
    page.get_by_label("Search the course").fill("(((*+?[\\")
    page.get_by_text("Nothing in the course says that").wait_for()
    page.get_by_label("Search the course").fill("")
    page.locator(".course .row").first.wait_for()


def test_pointing_at_a_place_shows_what_it_builds_on(page: Any, app: App) -> None:
    page.goto(f"{app.url}/course")
    row = page.locator('.course .row[data-name="batching"]')
    row.wait_for()
    at_rest(row)
    row.hover()
    on = page.locator(".course .arc.on")
    pairs = {tuple(one.evaluate("(p) => [p.dataset.from, p.dataset.to]")) for one in on.all()}
    assert {("metrics", "batching"), ("block_pool", "batching")} <= pairs
    assert ("serving", "prefill_decode") in pairs
    row.locator("a").click()
    page.wait_for_url(re.compile(r"/batching"))


def test_a_phone_reads_it_without_turning_aside(page: Any, app: App) -> None:
    width = 360
    page.set_viewport_size({"width": width, "height": 780})
    page.emulate_media(color_scheme="dark")
    for path in ("tiers", "failures", "course"):
        page.goto(f"{app.url}/{path}")
        page.locator(".st-key-kv-text h2, .course .row").first.wait_for()
        page.wait_for_timeout(1200)
        assert all(wide <= width for wide in page.evaluate(WIDE)), path
    page.goto(f"{app.url}/tiers")
    page.get_by_text("On this page").last.click()
    page.locator(".reader details a", has_text=RELOAD).click()
    at_rest(page.locator(".st-key-kv-sec-reload h2"))
    assert -5 < _top(page, "reload") < 120
