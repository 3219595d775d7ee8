"""The player's tools in a real browser: jumps by kind, zoom, two runs at once, exports."""

from __future__ import annotations

import gzip
import io
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image

from bench.large_run import HUGE, large_run
from core.trace.reducer import Reducer, states
from core.trace.run import parse_run, read_run
from tests.browser.conftest import at_rest
from tests.serving import App, running
from ui import catalogue, runs

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
TWO = "run=continuous_batch&compare=static_batch"
MAP = "canvas.density"


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The player alone on a page, behind the fence like the app."""
    folder = tmp_path_factory.mktemp("player")
    with running(folder, block="torch,triton", script="tests/player_page.py") as app:
        yield app


def _open(page: Any, player: App, query: str, width: int = 1440, height: int = 900) -> Any:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(f"{player.url}/?{query}")
    page.get_by_text(re.compile(r"^Step [\d,]+ of ")).first.wait_for()
    return page.locator(".kv-host")


def _step(host: Any) -> int:
    return int(host.evaluate("(h) => h.player.k"))


@cache
def _run(name: str) -> dict[str, Any]:
    if name in catalogue.entries():
        return runs.simulate(catalogue.entries()[name].text).data()
    return read_run(ROOT / "runs" / f"{name}.run.json.gz").to_dict()


def _steps_with(name: str, *types: str) -> list[int]:
    return [s["step"] for s in _run(name)["steps"] if any(e["type"] in types for e in s["events"])]


def test_jumps_to_a_kind_of_event_by_click_and_by_key(page: Any, player: App) -> None:
    host = _open(page, player, "run=two-answers")
    ends = _steps_with("two-answers", "finished")
    assert len(ends) > 2
    kind = page.get_by_label("Kind of event to jump to")
    names = kind.locator("option").all_inner_texts()
    assert f"Finish ({len(ends)})" in names
    assert not [n for n in names if n.startswith(("Node split", "Preemption"))], "none has happened"
    kind.select_option("finish")
    page.get_by_role("button", name="Next finish").click()
    assert _step(host) == ends[0]
    page.keyboard.press("n")
    page.keyboard.press("n")
    assert _step(host) == ends[2]
    page.keyboard.press("p")
    assert _step(host) == ends[1]
    page.get_by_role("button", name="Previous finish").click()
    assert _step(host) == ends[0]
    page.keyboard.press("p")
    assert _step(host) == ends[0], "there is none before"
    marks = page.locator(".track .mk svg")
    assert 0 < marks.count() <= len(ends)
    assert page.locator(".track .mk .m-finished").count() == marks.count()


def test_the_budget_says_who_got_how_many(page: Any, player: App) -> None:
    _open(page, player, "run=long_prompt_in_chunks")
    run = _run("long_prompt_in_chunks")
    budget = run["header"]["scenario"]["engine"]["max_num_batched_tokens"]
    for step in run["steps"][:6]:
        used = sum(s["num_scheduled_tokens"] for s in step["scheduled"].values())
        words = page.locator(".bwords").inner_text()
        assert words.startswith(f"{used:,} of {budget:,} budget tokens"), step["step"]
        assert page.locator(".bbar .bpre, .bbar .bdec").count() == len(step["scheduled"])
        page.keyboard.press("ArrowRight")
    page.locator(".bbar .bpre, .bbar .bdec").first.hover()
    page.get_by_text(re.compile(r"token(s)? of (prefill|decode), position")).wait_for()


def test_two_runs_stand_side_by_side_at_the_same_step(page: Any, player: App) -> None:
    """Each shows what Python's reducer says of that step; the shorter one stays at its end."""
    host = _open(page, player, TWO, height=1000)
    names = ["continuous_batch", "static_batch"]
    known = [list(states(r["header"], r["steps"])) for r in map(_run, names)]
    assert page.locator(".left:visible").count() == 2
    shown = "(h) => h.player.panes.map((p) => [p.k, p.info.name, p.cursor.state.toJSON()])"
    last = max(map(len, known)) - 1
    for k in (0, 7, len(known[0]) - 1, last):
        host.evaluate("(h, k) => h.player.jumpTo(k)", k)
        for (at, name, state), run, expected in zip(
            host.evaluate(shown), map(_run, names), known, strict=True
        ):
            assert at == min(k, len(expected) - 1)
            assert name == run["header"]["scenario"]["name"]
            assert state == expected[at], (name, k)
    moment = page.locator(".moment").first.inner_text()
    assert f"This run ended with step {len(known[0]) - 1}" in moment
    host.evaluate("(h) => h.player.jumpTo(7)")
    said = page.locator(".diff").inner_text()
    a, b = (sum(map(len, s[7]["block_tables"].values())) for s in known)
    assert f"in use {a} and {b}" in said
    assert page.locator(".panehead .prov b").all_inner_texts() == ["RECORDED", "RECORDED"]


def test_the_list_of_jumps_knows_both_runs_from_the_start(page: Any, player: App) -> None:
    host = _open(page, player, "run=one-request&compare=contiguous")
    kinds = "(h) => [...h.player.kinds.keys()]"
    shown = host.evaluate(kinds)
    host.evaluate("(h) => h.player.choose(0)")
    assert set(host.evaluate(kinds)) < set(shown), "the second run has kinds of its own"
    host.evaluate("(h) => h.player.choose(-1)")
    assert host.evaluate(kinds) == shown


def test_a_narrow_card_cuts_no_word(page: Any, player: App) -> None:
    """Beside the count stands a whole word or none."""
    host = _open(page, player, "run=two-answers&compare=contiguous&step=4")
    words = host.evaluate(
        """(h) => [...h.player.root.querySelectorAll(".left .cell .bot")].map((foot) => {
          const word = foot.firstElementChild;
          const [f, w] = [foot, word].map((e) => e.getBoundingClientRect());
          const whole = word.scrollWidth <= word.clientWidth && w.left >= f.left;
          return [foot.textContent, whole, w.top >= f.bottom];
        })"""
    )
    assert any("reserved" in text for text, _, _ in words)
    assert all(whole or gone for _, whole, gone in words), words
    assert any(not gone for text, _, gone in words if "reserved" in text), words


def test_one_of_two_runs_can_be_looked_at_alone(page: Any, player: App) -> None:
    host = _open(page, player, TWO)
    title = _run("static_batch")["header"]["scenario"]["name"]
    page.locator(".seg").get_by_role("button", name=title).click()
    assert page.locator(".left:visible").count() == 1
    page.locator(".seg").get_by_role("button", name="Both").click()
    assert page.locator(".left:visible").count() == 2
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator(".left:visible").first.wait_for()
    page.wait_for_function("() => true")
    host.evaluate("() => new Promise((r) => setTimeout(r, 300))")
    assert page.locator(".left:visible").count() == 1, "a phone has no room for two"
    assert page.locator(".diff").is_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_the_map_zooms_by_wheel_buttons_and_keys(page: Any, player: App) -> None:
    host = _open(page, player, "run=pool-4096&step=100")
    box = at_rest(page.locator(MAP))
    x, y = box["width"] * 0.4, box["height"] * 0.5
    page.mouse.move(box["x"] + x, box["y"] + y)
    under = "(h, [x, y]) => h.player.pool.view.blockAt(x, y)"
    before = host.evaluate(under, [x, y])
    size = "(h) => h.player.pool.view.size"
    whole = host.evaluate(size)
    page.wait_for_timeout(500)  # the page has not just been scrolled
    for _ in range(12):
        page.mouse.wheel(0, -120)
    page.wait_for_function("() => true")
    columns = host.evaluate("(h) => h.player.pool.view.columns")
    after = host.evaluate(under, [x, y])
    assert host.evaluate(size) >= 40 > whole
    assert abs(after % columns - before % columns) <= 1
    assert host.evaluate("(h) => h.player.pool.paint.constructor.name") == "Cells"
    page.get_by_text(re.compile(r"from block [\d,]+ to [\d,]+ of 4,096")).wait_for()
    # A single block can be chosen: the one that was clicked.
    page.mouse.click(box["x"] + x, box["y"] + y)
    page.get_by_role("heading", name=f"Block {after:,}").wait_for()
    page.get_by_role("button", name="The whole pool").click()
    assert host.evaluate(size) == whole
    page.get_by_role("button", name="Nearer").click()
    assert host.evaluate(size) > whole
    page.locator(MAP).focus()
    page.keyboard.press("-")
    assert host.evaluate(size) == whole
    page.keyboard.press("+")
    page.keyboard.press("+")
    chosen = host.evaluate("(h) => h.player.pool.at0")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=f"Block {min(chosen + columns, 4095):,}").wait_for()
    page.keyboard.press("0")
    assert host.evaluate(size) == whole


PIXEL = """(h, b) => {
  const { canvas, view } = h.player.pool;
  const [x, y] = view.xy(b).map((v) => (v + view.size * 0.25) * devicePixelRatio);
  return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3);
}"""


def test_a_large_pool_shows_the_state_at_every_zoom(page: Any, player: App) -> None:
    """What is free looks free and what is held does not, whole and near."""
    host = _open(page, player, "run=pool-65536&step=60")
    run = large_run(HUGE).to_dict()
    reducer = Reducer(run["header"])
    for step in run["steps"][:61]:
        reducer.apply_step(step)
    state = reducer.state()
    assert host.evaluate("(h) => h.player.cursor.state.toJSON().ref_counts") == state["ref_counts"]
    held = int(next(iter(state["block_tables"].values()))[3])
    free = max(set(range(HUGE)) - {int(b) for b in (*state["ref_counts"], *state["cached"])})
    for zoom in (1, 3, 60):
        host.evaluate(
            "(h, zoom) => { h.player.pool.whole(); h.player.pool.zoom(zoom, 0, 0); }", zoom
        )
        seen = []
        for b in (held, free):
            host.evaluate("(h, b) => { h.player.pool.view.reveal(b); h.player.pool.again(); }", b)
            seen.append(host.evaluate(PIXEL, b))
        assert seen[0] != seen[1], zoom


def test_a_million_blocks_open(page: Any, player: App) -> None:
    host = _open(page, player, "run=pool-1048576&step=3")
    assert host.evaluate("(h) => h.player.pool.view.size") < 1
    assert page.locator(MAP).bounding_box()["height"] < 500
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert _step(host) == 6
    page.locator(MAP).focus()
    for _ in range(12):
        page.keyboard.press("+")
    assert host.evaluate("(h) => h.player.pool.view.size") == 44


def _export(page: Any, item: str) -> tuple[str, bytes]:
    page.get_by_role("button", name="Export", exact=True).click()
    with page.expect_download() as got:
        page.get_by_role("menuitem", name=item).click()
    return got.value.suggested_filename, Path(got.value.path()).read_bytes()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_is_a_png_of_this_step(page: Any, player: App, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    _open(page, player, "run=two-answers&step=2")
    name, data = _export(page, "This picture, PNG")
    assert name == "two-answers-one-prefix-a-full-pool-step-2.png"
    image = Image.open(io.BytesIO(data)).convert("RGB")
    assert image.width == 2400 and image.height > 600
    colors = image.getcolors(maxcolors=1 << 24)
    ground = max(colors)[1]
    assert (sum(ground) > 600) == (scheme == "light")
    assert len(colors) > 50, "nothing is drawn"
    label = image.crop((56, 128, 260, 180))  # the word SIMULATED in its box
    assert len(label.getcolors(maxcolors=1 << 24)) > 5
    page.keyboard.press("ArrowRight")
    _, later = _export(page, "This picture, PNG")
    assert later != data


def test_the_pngs_of_two_runs_and_of_a_large_pool(page: Any, player: App) -> None:
    host = _open(page, player, TWO)
    _, data = _export(page, "This picture, PNG")
    assert Image.open(io.BytesIO(data)).width == 2 * 1640
    host = _open(page, player, "run=pool-4096&step=100")
    name, data = _export(page, "This picture, PNG")
    assert name == "48-requests-on-4-096-blocks-step-100.png"
    assert len(Image.open(io.BytesIO(data)).convert("RGB").getcolors(maxcolors=1 << 24)) > 50
    assert _step(host) == 100


def test_the_table_is_a_csv_of_all_steps(page: Any, player: App) -> None:
    _open(page, player, "run=preempted_and_resumed")
    run = _run("preempted_and_resumed")
    name, data = _export(page, "All steps, CSV")
    assert re.fullmatch(r"[a-z0-9-]+-steps\.csv", name)
    table = pd.read_csv(io.BytesIO(data))
    columns = ["step", "running", "waiting", "in_use", "cached", "free", "tokens", "ms"]
    assert list(table.columns) == columns
    assert table["step"].tolist() == list(range(len(run["steps"])))
    for column in ("in_use", "cached", "free"):
        assert table[column].tolist() == [s["usage"][column] for s in run["steps"]]
    known = list(states(run["header"], run["steps"]))
    assert table["running"].tolist() == [len(s["running"]) for s in known]
    assert table["waiting"].tolist() == [len(s["waiting"]) for s in known]
    assert table["tokens"].tolist() == [
        sum(x["num_scheduled_tokens"] for x in s["scheduled"].values()) for s in run["steps"]
    ]
    first = run["steps"][0]["timing"]
    took = (first["schedule_us"] + first["forward_us"] + first["sample_us"]) / 1000
    assert table["ms"][0] == pytest.approx(took, abs=0.001)


@pytest.mark.parametrize("name", ["two-answers", "static_batch"])
def test_the_run_file_is_one_that_the_command_line_replays(
    page: Any, player: App, name: str, tmp_path: Path
) -> None:
    _open(page, player, f"run={name}")
    file_name, data = _export(page, "Run file, JSON")
    assert file_name.endswith(".run.json.gz")
    assert gzip.decompress(data)
    run = _run(name)
    measured = ("state", "timing")  # a simulation's scheduler takes another time each time
    known, came = (
        [{k: v for k, v in step.items() if k not in measured} for step in steps]
        for steps in (run["steps"], parse_run(data).to_dict()["steps"])
    )
    assert came == known
    file = tmp_path / file_name
    file.write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-m", "core", "replay", str(file), "--verify"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_export_menu_works_by_keyboard(page: Any, player: App) -> None:
    host = _open(page, player, "run=two-answers")
    page.get_by_role("button", name="Export", exact=True).focus()
    page.keyboard.press("Enter")
    focused = "(h) => h.getRootNode().activeElement.textContent"
    assert host.evaluate(focused) == "This picture, PNG"
    page.keyboard.press("ArrowUp")
    assert host.evaluate(focused) == "Run file, JSON"
    page.keyboard.press("Escape")
    assert not page.get_by_role("menu").is_visible()
    assert host.evaluate(focused) == "Export"


def test_a_node_of_the_tree_tells_of_itself(page: Any, player: App) -> None:
    host = _open(page, player, "run=one_system_prompt&step=20")
    run = _run("one_system_prompt")
    state = list(states(run["header"], run["steps"][:21]))[20]
    node = max(state["tree"], key=lambda n: n["lock_ref"])
    page.locator(f'.treebox .nh[data-node="{node["id"]}"]').click()
    told = page.locator(".insp").inner_text()
    assert re.search(rf"Node\s+{node['id']}\b", told)
    assert re.search(rf"Tokens\s+{len(node['tokens'])}:", told)
    assert re.search(
        rf"Blocks\s+{len(node['blocks'])}: {', '.join(map(str, node['blocks']))}", told
    )
    assert re.search(rf"Lock\s+{node['lock_ref']}", told)
    assert f"in step {node['last_used']}" in told
    host.evaluate("(h) => h.player.jumpTo(0)")
    page.get_by_text("I am not in the tree after this step.").wait_for()


def _played(page: Any, host: Any, until: Callable[[], bool]) -> bool:
    for _ in range(100):
        if until():
            return True
        page.wait_for_timeout(50)
    return False


def test_plays_as_fast_as_the_screen(page: Any, player: App) -> None:
    host = _open(page, player, "run=pool-4096")
    page.get_by_label("Speed", exact=True).select_option("Infinity")
    page.get_by_role("button", name="Play", exact=True).click()
    assert _played(page, host, lambda: _step(host) > 20)
    page.get_by_role("button", name="Pause", exact=True).click()
    stopped = _step(host)
    page.wait_for_timeout(200)
    assert _step(host) == stopped
    page.get_by_text(f"Python heard of step {stopped}").wait_for()


@pytest.mark.parametrize(("width", "height"), [(360, 780), (1920, 1080)])
def test_nothing_is_wider_than_the_screen(page: Any, player: App, width: int, height: int) -> None:
    for query in ("run=two-answers&step=2", "run=pool-4096&step=50", TWO):
        _open(page, player, query, width, height)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
