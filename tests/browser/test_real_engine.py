"""Real Chromium, the real app, its real engine process with the real model: nothing stands in.

One engine serves all tests of this file, with pages of several browsers on it.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Messages
from tests.serving import App, running

pytestmark = [pytest.mark.browser, pytest.mark.model]

LONG = "Write a long story about a lighthouse keeper, her dog and the sea. Tell it in detail."
PATIENCE_MS = 60_000  # two cores, with other tests beside


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The app with an engine that it starts by itself, as a visitor's is."""
    engine = {"KV_SCOPE_ENGINE": "on", "KV_SCOPE_ENGINE_ARGS": "--threads 1"}
    with running(tmp_path_factory.mktemp("real"), engine=engine) as app:
        yield app


@pytest.fixture(scope="module")
def visitors(browser: Any, live: App) -> Iterator[tuple[Any, Any]]:
    """The page in two browsers of their own: two cookies, two visitors."""
    messages = Messages()
    contexts = [browser.new_context(viewport={"width": 1440, "height": 900}) for _ in range(2)]
    pages = [context.new_page() for context in contexts]
    for page in pages:
        messages.listen(page)
        page.set_default_timeout(PATIENCE_MS)
        page.add_init_script(f"({FIND})()")
        page.goto(f"{live.url}/prefill_decode?run=one_question")
        page.get_by_role("heading", name=re.compile(r"^Step \d+: ")).wait_for()
        page.locator(".bench .engine", has_text=re.compile("^Engine (ready|busy)")).wait_for()
    yield pages[0], pages[1]
    for context in contexts:
        context.close()
    assert not messages, messages


Visitors = tuple[Any, Any]


def ask(page: Any, prompt: str, max_tokens: int, *, chat: bool = True) -> None:
    """Type a prompt and run it; returns once it is on its way."""
    page.get_by_label("Prompt", exact=True).fill(prompt)
    page.get_by_label("Tokens to answer with, at most").fill(str(max_tokens))
    page.get_by_label("As a chat message").set_checked(chat)
    with page.expect_response("**/engine/live") as answer:
        page.evaluate(f"() => (window.before = {BENCH}.run)")
        page.get_by_role("button", name="Run", exact=True).click()
    assert answer.value.status == 202


def ended(page: Any) -> None:
    """Wait until what runs on the page has come to its end."""
    page.wait_for_function(f"() => !{BENCH}.busy")


def steps(page: Any) -> list[dict[str, Any]]:
    """The steps of the run that the page shows."""
    found: list[dict[str, Any]] = page.evaluate(f"() => {BENCH}.run.steps")
    return found


def has_steps(page: Any, count: int, holds: str = "true") -> None:
    """Wait until the new live run has so many steps. holds: and this, of its `run`."""
    page.wait_for_function(
        f"() => {{ const {{ run }} = {BENCH};"
        f" return run !== window.before && run.header.label === 'LIVE'"
        f" && run.steps.length >= {count} && {holds}; }}"
    )


def cached(page: Any) -> int:
    """How many tokens of the prompt of the page's own request were found in the cache."""
    return max(s["scheduled"].get("A", {}).get("num_cached_tokens", 0) for s in steps(page))


# The instrument's state, through whichever shadow root it stands in.
BENCH = "window.bench()"
FIND = """() => {
  const search = (root) => {
    for (const node of root.querySelectorAll("*")) {
      if (node.bench) return node.bench;
      const found = node.shadowRoot && search(node.shadowRoot);
      if (found) return found;
    }
    return null;
  };
  window.bench = () => search(document);
}"""


def test_a_prompt_typed_streams_token_by_token(visitors: Visitors) -> None:
    page, _ = visitors
    ask(page, LONG, 32)
    lengths = set()
    while len(lengths) < 5:  # the text grows before the reader's eyes, and not all at once
        lengths.add(len(page.locator(".bench .out").inner_text()))
        page.wait_for_timeout(20)
    assert page.locator(".bench .bar .prov.live").is_visible()
    ended(page)
    assert page.locator(".bench .bar .prov.live").inner_text().startswith("LIVE")
    made = steps(page)
    assert len(made) == 32
    assert all(s["timing"]["forward_us"] > 0 and s["work"]["flops"] > 0 for s in made)
    times = page.locator(".bench .kpi .v")
    assert re.match(r"[\d,.]+\s*ms", times.nth(0).inner_text()), times.nth(0).inner_text()
    page.get_by_text(re.compile(r"^Checked: 1 of 1 answer")).wait_for()


def test_a_prompt_asked_again_is_found_by_its_own_browser_alone(visitors: Visitors) -> None:
    one, other = visitors
    prompt = "Salt keeps one visitor's words from another's. " * 4
    for page, hit in ((one, False), (one, True), (other, False)):
        ask(page, prompt, 2, chat=False)
        ended(page)
        assert (cached(page) > 0) == hit, cached(page)
    one.get_by_text(re.compile(r"^32 of the prompt were cached")).wait_for()


def test_two_browsers_share_the_batch(visitors: Visitors) -> None:
    one, other = visitors
    ask(one, LONG, 200)
    has_steps(one, 1)
    ask(other, "Name ten rivers, and say of each where it flows.", 24)
    ended(other)
    both = [s for s in steps(other) if {"A", "other-1"} <= s["scheduled"].keys()]
    assert both, "a step computes tokens of both"
    theirs = [e for s in both for e in s["events"] if e.get("request") == "other-1"]
    words = {e["token"] for e in theirs if e["type"] == "token_sampled"}
    hidden = other.evaluate(f"() => {BENCH}.run.header.hidden_token")
    assert words == {hidden}, "and says nothing of what the other is told"
    other.get_by_text("1 other sequence took part in this step.").wait_for()
    has_steps(one, 1, "run.steps.some((s) => s.scheduled['other-1'])")
    one.get_by_role("button", name="Stop", exact=True).click()
    ended(one)


def test_scenario_runs_queue_and_both_end(visitors: Visitors) -> None:
    one, other = visitors
    one.evaluate(f"() => (window.before = {BENCH}.run)")
    one.get_by_role("button", name=re.compile("^Batch 1 to 32")).click()
    has_steps(one, 1)
    other.get_by_role("button", name=re.compile("^Double the prompt")).click()
    other.get_by_text("Queued: 1 before this one.").wait_for()
    one.get_by_role("button", name="Show the step of 32 sequences").wait_for()
    other.get_by_role("button", name=re.compile(r"^Show the step of \d+ tokens")).last.wait_for()
    for page in (one, other):
        assert page.locator(".bench .bar .prov.live").is_visible()


def test_a_pool_is_allocated_and_takes_what_the_formula_says(visitors: Visitors, live: App) -> None:
    page = visitors[0].context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{live.url}/kv_sizing")
    page.get_by_role("combobox", name="Blocks", exact=True).select_option("128")
    page.get_by_role("button", name="Allocate it").click()
    page.locator(".check .prov.live").wait_for()
    text = page.locator(".check").inner_text()
    assert "128 blocks of" in text and "Equal to the byte" in text
    sizes = re.findall(r"([\d,]+) B\b", text)
    assert len(sizes) == 2 and sizes[0] == sizes[1]
    page.close()


def test_a_recorded_run_is_measured_here_and_now(visitors: Visitors, live: App) -> None:
    """Its steps are the same, and their times those of this machine."""
    page = visitors[0].context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{live.url}/roofline?run=kv_pool_512")
    run = page.locator(".rooflines .runs")
    run.locator(".prov.recorded").wait_for()
    steps = run.locator(".hint, p", has_text="steps. Point at one").first
    told = steps.text_content()
    run.get_by_role("button", name="Run it here, now").click()
    run.locator(".prov.live").wait_for()
    assert run.get_by_role("button", name="Measured now").get_attribute("aria-pressed") == "true"
    assert steps.text_content() == told
    run.get_by_role("button", name="Recorded", exact=True).click()
    run.locator(".prov.recorded").wait_for()
    assert run.get_by_role("button", name="Run it again").is_visible()
    page.close()


def test_a_killed_engine_leaves_the_steps_and_comes_back(visitors: Visitors, live: App) -> None:
    page, _ = visitors
    ask(page, LONG, 256)
    has_steps(page, 6)
    killed = engine_of(live)
    os.kill(killed, signal.SIGKILL)
    page.get_by_text("The engine was lost in the middle of this run. Its steps stay.").wait_for()
    kept = len(steps(page))
    assert 6 <= kept < 256 and page.locator(".bench .out .t").count() >= 5
    page.get_by_role("button", name="Watch the recorded run “One question, answered”").wait_for()
    page.get_by_text("The engine is back. Run goes live again.").wait_for()
    assert len(steps(page)) == kept
    assert engine_of(live) != killed
    ask(page, "Say hello.", 4)
    ended(page)
    assert page.locator(".bench .bar .prov.live").is_visible() and len(steps(page)) <= 4


def engine_of(app: App) -> int:
    """The process id of the engine that the app has started."""
    tasks = Path(f"/proc/{app.pid}/task").iterdir()
    children = {int(pid) for task in tasks for pid in (task / "children").read_text().split()}
    (engine,) = (pid for pid in children if b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes())
    return engine
