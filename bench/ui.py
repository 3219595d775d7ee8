"""`python -m bench ui`: what a visitor waits for, in a real Chromium against the running app.

First paint is when a page's own picture has been drawn, in a browser that has visited nothing yet,
on a server that has been visited. The player's figures are of a run on 4,096 blocks: its steps as
the page's own code makes them, and key presses by the browser's own account of when it painted. The
rate at which it plays stands beside the browser's own, which it cannot pass. Steps on 65,536 blocks
follow, and sliders of the pages that calculate.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import streamlit

from bench.figures import Figure, Report, flat, measured
from bench.large_run import BLOCKS, HUGE, large_run
from bench.other_work import look_around
from bench.processes import ROOT, Served, app
from bench.timing import REPEATS, Timing
from core.errors import KVScopeError
from core.trace.run import host
from core.version import VERSION
from scripts.doctor import check_chromium, find_chromium

FIRST_PAINT_MS = 1500
STEP_MS = 4
HUGE_STEP_MS = 12
SLIDE_MS = 150
TWO_FRAMES_MS = 2 * 1000 / 60
EVENT_FLOOR_MS = 16
"""The browser's account of a key press names nothing shorter."""
VIEW = {"width": 1440, "height": 900}
WATCH = Path(__file__).with_name("ui_watch.js")
LARGE, LARGEST = f"pool_of_{BLOCKS}", f"pool_of_{HUGE}"
PLAYER = f"block_pool?run={LARGE}"
MAP = ".kv canvas.density"
BARE = "a page of one line, by Streamlit alone"
PICTURES = {
    "home": ("", ".stage .cell"),
    "prefill and decode": ("prefill_decode", ".kv.bench svg, .kv.bench canvas"),
    "block pool": ("block_pool", ".kv .cell"),
    "block pool, 4,096 blocks": (PLAYER, MAP),
    "batching": ("batching", ".kv.gantt .picture .stay"),
    "kv sizing": ("kv_sizing", ".kv.sizing .mem .barbox"),
    "quantisation": ("quantisation?fmt=int8", ".kv.quant .heat text.cell"),
    "quiz": ("quiz", ".quiz .q"),
}
"""Page → where it is, and what is there once its own picture is."""

SLIDERS = {
    "KV sizing, sequences": ("kv_sizing", "Sequences at once", ".kv.sizing .mem"),
    "roofline, batch": ("roofline", "Decode: sequences at once", ".kv.rooflines .figs"),
    "capacity planner, users": ("capacity_planner", "Users at once", ".kv.planner .answer"),
}
"""Name → page, the slider's label, and the panel whose figures follow it."""

ARGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()


@dataclass(frozen=True, slots=True)
class Sizes:
    """repeats: of each first paint. steps, presses: of the player. slides: of each slider. playing,
    rate: seconds."""

    repeats: int = REPEATS
    steps: int = 300
    presses: int = 60
    slides: int = 24
    playing: float = 10
    rate: float = 4


FULL = Sizes()
QUICK = Sizes(repeats=3, steps=100, presses=20, slides=8, playing=3, rate=2)


def main(arguments: list[str]) -> int:
    """Print all figures; `--json` writes them too."""
    args = _parser().parse_args(arguments)
    sizes = QUICK if args.quick else FULL
    other = look_around()
    try:
        with tempfile.TemporaryDirectory() as folder:
            _runs(Path(folder))
            environment = {"KV_SCOPE_RUNS": folder, "KV_SCOPE_ENGINE": "off"}
            with chromium() as browser:
                report = Report(_settings(sizes, browser))
                with app({}, "bench/bare_page.py") as bare:
                    report.add(_first_paint(bare, browser, sizes, BARE, ("", ".bare")))
                with app(environment) as served:
                    for figure in _figures(served, browser, sizes, args.minutes):
                        report.add(figure)
    except (KVScopeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    report.note(other_work={"before": other, "after": look_around()})
    report.write(args.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench ui")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument(
        "--minutes", type=float, default=0.5, help="that memory is watched for; 0: not at all"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    return parser


def _runs(folder: Path) -> None:
    """The recorded runs of the course, and the large one beside them."""
    for file in (ROOT / "runs").glob("*.run.json.gz"):
        (folder / file.name).symlink_to(file)
    for name, blocks in ((LARGE, BLOCKS), (LARGEST, HUGE)):
        large_run(blocks).write(folder / f"{name}.run.json.gz")


def _settings(sizes: Sizes, browser: Any) -> dict[str, Any]:
    return {
        "app": f"kv-scope {VERSION}, streamlit {streamlit.__version__}",
        "browser": f"Chromium {browser.version}, headless, no GPU, {VIEW['width']} × "
        f"{VIEW['height']}",
        "machine": f"{host()['cpu']}, {host()['cores']} cores; app and browser share it",
        "load_average": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "sizes": asdict(sizes),
    }


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser. Raises KVScopeError where there is none, or no playwright."""
    path = find_chromium()
    if path is None:
        raise KVScopeError(f"Chromium was not found: {check_chromium().fix}")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        raise KVScopeError(
            "playwright is not installed: pip install -r requirements-dev.txt"
        ) from None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGS)
        yield browser
        browser.close()


@contextmanager
def visit(browser: Any, served: Served, path: str, traffic: Traffic | None = None) -> Iterator[Any]:
    """A page in a browser that has kept nothing. traffic: told of all it sends and receives."""
    context = browser.new_context(viewport=VIEW)
    context.add_init_script(path=WATCH)
    page = context.new_page()
    page.set_default_timeout(60_000)
    if traffic is not None:
        traffic.watch(page)
    try:
        page.goto(f"{served.url}/{path}", wait_until="commit")
        yield page
    finally:
        context.close()


def _painted(page: Any, selector: str) -> float:
    """Milliseconds from the navigation to the paint in which it is there."""
    return float(page.evaluate("(selector) => kvBench.painted(selector)", selector))


def _figures(served: Served, browser: Any, sizes: Sizes, minutes: float) -> Iterator[Figure]:
    for name, place in PICTURES.items():
        yield _first_paint(served, browser, sizes, name, place)
    traffic = Traffic()
    with visit(browser, served, PLAYER, traffic) as page:
        yield from _steps(page, BLOCKS, sizes.steps, STEP_MS)
        yield from _rates(page, sizes.rate)
        yield _presses(page, sizes.presses)
        yield from _playing(page, traffic, sizes.playing)
        if minutes:
            yield _memory(page, minutes)
    with visit(browser, served, f"block_pool?run={LARGEST}") as page:
        yield from _steps(page, HUGE, sizes.steps, HUGE_STEP_MS)
    for name, (path, slider, picture) in SLIDERS.items():
        with visit(browser, served, path) as page:
            yield _slides(page, sizes.slides, name, f'.rng[aria-label="{slider}"]', picture)


def _steps(page: Any, blocks: int, most: int, target: float) -> Iterator[Figure]:
    _painted(page, MAP)
    page.wait_for_timeout(1000)
    steps = page.evaluate("(most) => kvBench.steps(most)", most)
    name = f"reduce and draw a step, {blocks:,} blocks"
    yield measured(name, "ms", [both for _, both in steps], target)
    reduce = measured(
        f"    of it reducing, {blocks:,} blocks", "ms", [alone for alone, _ in steps], target
    )
    yield replace(reduce, target=None, met=None)


def _rates(page: Any, seconds: float) -> Iterator[Figure]:
    """At the greatest speed a step is shown in every frame, if that is fast enough."""
    for name, playing in (
        (f"frames a second, playing {BLOCKS:,} blocks", True),
        ("    the browser's own, with nothing to draw", False),
    ):
        rate = page.evaluate(
            "([seconds, playing]) => kvBench.frames(seconds, playing)", [seconds, playing]
        )
        yield Figure(name, "", Timing.of([float(rate)]))


def _first_paint(
    served: Served, browser: Any, sizes: Sizes, name: str, place: tuple[str, str]
) -> Figure:
    path, selector = place
    times = []
    for _ in range(sizes.repeats + 1):  # the first is for the server, and not counted
        with visit(browser, served, path) as page:
            times.append(_painted(page, selector))
    figure = measured(f"first paint, {name}", "ms", times[1:], FIRST_PAINT_MS)
    figure = replace(figure, p95=None)  # of so few it is the greatest
    return replace(figure, target=None, met=None) if name == BARE else figure


def _presses(page: Any, count: int) -> Figure:
    """From a press of an arrow key to the paint that shows the step."""
    page.evaluate("() => kvBench.listen()")
    page.keyboard.press("Home")
    for _ in range(count - 1):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(60)
    page.wait_for_timeout(200)
    seen = page.evaluate("() => kvBench.presses")
    slow = [float(duration) for duration in seen["slow"]]
    fast = [float(EVENT_FLOOR_MS)] * max(0, seen["count"] - len(slow))
    figure = measured("key press to paint", "ms", slow + fast, TWO_FRAMES_MS)
    return replace(figure, target="≤ two frames of 60 Hz")


def _slides(page: Any, count: int, name: str, slider: str, picture: str) -> Figure:
    """From a slider's movement to the paint of what Python has answered."""
    _painted(page, slider)
    page.wait_for_timeout(2000)  # the page has come to rest
    arguments = [slider, picture, count + 1]
    times = page.evaluate("([s, p, count]) => kvBench.slides(s, p, count)", arguments)
    return measured(f"slider to paint, {name}", "ms", times[1:], SLIDE_MS)


STATUS = "/engine/status"


class Traffic:
    """What a page sends and receives: websocket frames and requests. The sidebar's look for an
    engine is not of it: it comes by the clock, whatever is done on the page."""

    def __init__(self) -> None:
        self.seen = 0

    def watch(self, page: Any) -> None:
        """From before its navigation: a websocket is only seen as it opens."""
        page.on("request", lambda asked: asked.url.endswith(STATUS) or self._count(asked))
        page.on("websocket", self._socket)

    def _socket(self, socket: Any) -> None:
        socket.on("framesent", self._count)
        socket.on("framereceived", self._count)

    def _count(self, _: Any) -> None:
        self.seen += 1


def _playing(page: Any, traffic: Traffic, seconds: float) -> Iterator[Figure]:
    """The run plays by itself, from its beginning, at the greatest speed."""
    page.keyboard.press("Home")
    page.wait_for_timeout(1500)  # what the key had committed has been sent
    page.evaluate("() => kvBench.find('.kv-host').player.setSpeed(8)")
    page.evaluate("() => kvBench.find('.kv-host').player.play()")
    began, before = _step(page), traffic.seen
    page.wait_for_timeout(1000 * seconds)
    sent, moved = traffic.seen - before, _step(page) - began
    page.evaluate("() => kvBench.find('.kv-host').player.pause()")
    if not moved:
        raise KVScopeError("the player did not move while it was playing")
    yield Figure(
        f"messages to and from the server, {moved} steps played",
        "",
        Timing.of([float(sent)]),
        target="none",
        met=sent == 0,
    )


def _step(page: Any) -> int:
    return int(page.evaluate("() => kvBench.find('.kv-host').player.k"))


def _memory(page: Any, minutes: float) -> Figure:
    """Of the page's JavaScript, while the run is gone through again and again."""
    client = page.context.new_cdp_session(page)
    used: list[float] = []
    end = monotonic() + 60 * minutes
    while monotonic() < end or len(used) < 5:
        page.evaluate("() => kvBench.steps(60)")
        client.send("HeapProfiler.collectGarbage")
        used.append(client.send("Runtime.getHeapUsage")["usedSize"] / 2**20)
    return flat(f"the page's memory over {minutes:g} min of playing", used)
