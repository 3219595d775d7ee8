"""A visitor runs a prompt in a real browser; tests/fake_engine.py plays the engine's routes."""

from __future__ import annotations

import json
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.test_accessibility import axe, faults  # noqa: F401
from tests.browser.test_play import SMALL_TEXT
from tests.serving import App, running

pytestmark = pytest.mark.browser

PATH = "prefill_decode"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("live")
    with running(folder, block="torch,triton", script="tests/fake_engine.py") as app:
        yield app


def _fake(app: App, **settings: Any) -> None:
    request = urllib.request.Request(
        f"{app.url}/fake",
        data=json.dumps(settings).encode(),
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).read()


def _open(page: Any, app: App, query: str = "", **settings: Any) -> None:
    _fake(app, **settings)
    page.goto(f"{app.url}/{PATH}?{query}")
    page.get_by_role("heading", name=re.compile(r"^Step \d+: ")).wait_for()
    page.locator(".bench .engine", has_text=re.compile("^Engine (ready|busy)")).wait_for()


def _step(page: Any) -> int:
    head = page.get_by_role("heading", name=re.compile(r"^Step \d+: ")).inner_text()
    return int(re.search(r"\d+", head).group())


def _answer(page: Any) -> str:
    return page.locator(".bench .out").inner_text()


def test_a_prompt_streams_and_ends(page: Any, live: App) -> None:
    _open(page, live)
    page.get_by_label("Prompt", exact=True).fill("Why is the sky blue?")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("button", name="Stop", exact=True).wait_for()
    page.locator(".bench .caret").wait_for()
    page.get_by_role("button", name="Run", exact=True).wait_for()
    assert "The first step reads the entire prompt at once" in _answer(page)
    assert page.locator(".bench .bar .prov.live").is_visible()
    assert _step(page) == 43
    asked = json.loads(live.get("/fake")[2])[-1]
    assert asked["messages"] == [{"role": "user", "content": "Why is the sky blue?"}]
    assert asked["max_tokens"] == 48
    page.get_by_text("Checked: 1 of 1 answer.").wait_for()


def test_a_run_can_be_stopped_and_keeps_its_steps(page: Any, live: App) -> None:
    _open(page, live, pause_ms=150)
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".bench .bar .prov.live").wait_for()
    page.locator(".bench .out .t").nth(4).wait_for()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_text("Stopped. The steps so far stay.").wait_for()
    page.get_by_role("button", name="Run", exact=True).wait_for()
    assert 4 <= page.locator(".bench .out .t").count() < 40


def test_a_slow_press_counts_while_the_page_is_redrawn(page: Any, live: App) -> None:
    """Between a finger's coming and going there are several steps, and the page is drawn anew."""

    def press(what: str) -> None:
        x, y = page.locator(".bench").evaluate(
            "(bench, what) => {"
            "  const node = [...bench.querySelectorAll(what)].at(-1);"
            "  node.scrollIntoView({ block: 'center' });"
            "  const { x, y, width, height } = node.getBoundingClientRect();"
            "  return [x + width / 10, y + height / 2];"  # bars grow narrower while it is pressed
            "}",
            what,
        )
        page.mouse.move(x, y)
        page.mouse.down()
        page.wait_for_timeout(150)
        page.mouse.up()

    _open(page, live, pause_ms=60)
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".bench .bar .prov.live").wait_for()
    page.locator(".bench .out .t").nth(3).wait_for()
    press(".stepbox .row .l")
    opened = page.locator(".bench .stepbox .row").last
    page.wait_for_function(
        "row => row.getAttribute('aria-expanded') === 'true'", arg=opened.element_handle()
    )
    press('.chart [data-k="0"] .hit')
    page.get_by_role("heading", name="Step 0: prefill").wait_for()
    press(".prompt .go .btn.primary svg")
    page.get_by_text("Stopped. The steps so far stay.").wait_for()
    assert page.locator(".bench .out .t").count() < 43


def test_a_lost_engine_leaves_the_steps_and_a_recorded_run_by_name(page: Any, live: App) -> None:
    _open(page, live, lose_at=12)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("The engine was lost in the middle of this run.").wait_for()
    assert page.locator(".bench .out .t").count() > 4
    # It says so, and the button now replays; once the engine is back it goes live again by itself.
    page.get_by_role("button", name="Replay", exact=True).wait_for()
    assert page.locator(".bench .bar .prov.live").is_visible()
    _fake(live)
    page.get_by_text("The engine is back.").wait_for()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("button", name="Stop", exact=True).wait_for()
    page.get_by_role("button", name="Run", exact=True).wait_for()
    assert _step(page) == 43


def test_the_recorded_run_offered_is_played(page: Any, live: App) -> None:
    _open(page, live, lose_at=12)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("button", name="Watch the recorded run “One question, answered”").click()
    page.locator(".bench .bar .prov.recorded").wait_for()
    assert _step(page) == 43


def test_a_cut_line_is_taken_up_again(page: Any, live: App) -> None:
    _open(page, live, cut_at=15)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("button", name="Stop", exact=True).wait_for()
    page.get_by_role("button", name="Run", exact=True).wait_for()
    assert _step(page) == 43
    assert page.locator(".bench .out .t").count() == 43  # and the end token, which has no text


def test_a_refusal_is_told_with_its_reason(browser: Any, live: App) -> None:
    page = browser.new_page()  # the browser itself notes a 429 on the console
    _open(page, live, refuse="The prompt has 900 tokens; the pool holds 512.")
    page.get_by_label("As a chat message").uncheck()
    with page.expect_response("**/engine/live") as answer:
        page.get_by_role("button", name="Run", exact=True).click()
    assert answer.value.status == 429
    page.get_by_text("The prompt has 900 tokens; the pool holds 512. Try again in 3 s.").wait_for()
    page.get_by_role("button", name="Run", exact=True).wait_for()
    page.close()


def test_doubling_the_prompt_answers_the_prediction(page: Any, live: App) -> None:
    _open(page, live, pause_ms=2)
    for field, said in (("Time to first token", "× 1"), ("Gap between tokens", "× 2")):
        group = page.locator('[data-testid="stButtonGroup"]').filter(has_text=field)
        group.get_by_role("radio", name=said).click()
    page.locator(".st-key-kv-pd-predict").get_by_role("button", name="Lock it in").click()
    page.get_by_text("Locked. Now measure it.").wait_for()
    page.get_by_role("button", name="Double the prompt", exact=True).click()
    page.get_by_role("button", name="Show the step of 148 tokens").wait_for()
    page.get_by_text(re.compile("Measured: 74 → 148 tokens")).wait_for()
    sent = json.loads(live.get("/fake")[2])[-1]
    a, b = (r["prompt_tokens"] for r in sent["requests"])
    assert b == a + a
    # A row leads to the step that it is about.
    page.get_by_role("button", name="Show the step of 148 tokens").click()
    page.get_by_role("heading", name="Step 24: prefill").wait_for()


def test_the_cache_experiment_runs_twice_and_compares(page: Any, live: App) -> None:
    _open(page, live, pause_ms=1)
    page.get_by_role("button", name=re.compile("^KV cache off")).click()
    page.get_by_text("4,680 tokens instead of 121").wait_for()
    page.get_by_role("button", name="KV cache on", exact=True).click()
    page.get_by_role("heading", name=re.compile("^Step 47: decode")).wait_for()


def test_without_an_engine_a_recording_is_replayed(page: Any, live: App) -> None:
    _fake(live, state="absent")
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{live.url}/{PATH}")
    page.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_text("This is a replay of the recorded run").wait_for()
    page.get_by_role("button", name="Replay", exact=True).wait_for()
    page.get_by_role("button", name=re.compile("^Batch 1 to 32")).click()
    page.get_by_role("button", name="Show the step of 32 sequences").wait_for()
    assert page.locator(".bench .bar .prov.recorded").is_visible()


def test_the_keys_go_from_step_to_step_and_the_link_brings_it_back(page: Any, live: App) -> None:
    _open(page, live, "run=kv_cache_on&step=5&machine=h100-sxm5")
    assert _step(page) == 5
    assert page.locator(".bench .prov.modelled").first.is_visible()
    page.keyboard.press("ArrowRight")
    page.get_by_role("heading", name="Step 6: decode").wait_for()
    page.keyboard.press("Home")
    page.get_by_role("heading", name="Step 0: prefill").wait_for()
    page.get_by_label("Target for each gap, milliseconds").fill("30")
    page.keyboard.press("Tab")
    page.wait_for_url(re.compile(r"gap=30"))
    assert "run=kv_cache_on" in page.url and "step=0" in page.url
    page.reload()
    page.get_by_role("heading", name="Step 0: prefill").wait_for()
    assert page.get_by_label("Target for each gap, milliseconds").input_value() == "30"


def test_the_stages_walk_through_the_run(page: Any, live: App) -> None:
    _open(page, live)
    for stage, said in (
        ("Tokenise", "The pieces joined give back the exact text"),
        ("Prefill", "one token is sampled"),
        ("Keys and values", "Bytes written = tokens in the step × 23,040 B"),
        ("Decode", "computed = tokens − 1"),
        ("Append and stop", "the model sampled its end token"),
    ):
        page.get_by_role("button", name=re.compile(rf"^\d ?{stage}")).click()
        page.get_by_text(said).first.wait_for()
        checked = page.locator(".bench .inv").inner_text()
        found = re.search(r"Checked: (\d+) of (\d+)", checked)
        assert found and found.group(1) == found.group(2), checked


def test_a_prompt_is_text_and_never_markup(page: Any, live: App) -> None:
    evil = "<img src=x onerror=\"document.title='owned'\">"
    _open(page, live, f"prompt={urllib.parse.quote(evil)}")
    assert page.get_by_label("Prompt", exact=True).input_value() == evil
    page.wait_for_timeout(300)
    assert page.title() != "owned"


@pytest.mark.parametrize(
    ("scheme", "query"),
    [
        ("light", ""),
        ("dark", "exp=cache&machine=h100-sxm5"),
        ("light", "present=1&exp=double"),
    ],
)
def test_axe_finds_nothing(page: Any, live: App, axe: str, scheme: str, query: str) -> None:  # noqa: F811
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    _open(page, live, query)
    page.wait_for_timeout(800)
    found = faults(page, axe)
    assert not found, "\n".join(found)


def test_on_a_projector_nothing_is_small_and_both_charts_are_in_sight(page: Any, live: App) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    _open(page, live, "present=1")
    assert not page.evaluate(SMALL_TEXT)
    for chart in page.locator(".bench .chart svg").all():
        box = chart.bounding_box()
        assert box["y"] + box["height"] <= 1080


def test_on_a_phone_nothing_scrolls_sideways(page: Any, live: App) -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    _open(page, live, "exp=cache")
    wide = page.evaluate(
        "() => [document.documentElement.scrollWidth,"
        " document.querySelector('[data-testid=\"stMain\"]').scrollWidth]"
    )
    assert max(wide) <= 360
