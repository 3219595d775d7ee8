"""The benchmarks of pages run and say what they measured; how fast it was is not judged here."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bench import load, ui
from bench.figures import Figure, flat, measured, percentile
from bench.large_run import large_run
from bench.timing import Timing


def _run(main: Callable[[list[str]], int], arguments: list[str]) -> int:
    """In a thread of its own: the browser of other tests keeps an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(main, arguments).result()


def _figures(report: Path) -> dict[str, Any]:
    content = json.loads(report.read_text(encoding="utf-8"))
    assert content["settings"]["machine"]
    return {figure["name"]: figure for figure in content["figures"]}


@pytest.mark.browser
def test_ui(chromium: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = ui.Sizes(repeats=1, steps=20, presses=5, slides=2, playing=2, rate=1)
    monkeypatch.setattr(ui, "QUICK", few)
    monkeypatch.setattr(ui, "look_around", lambda: None)
    large = "block pool, 4,096 blocks"
    monkeypatch.setattr(ui, "PICTURES", {large: ui.PICTURES[large]})
    report = tmp_path / "out.json"
    assert _run(ui.main, ["--quick", "--minutes", "0", "--json", str(report)]) == 0
    figures = _figures(report)
    for name in (ui.BARE, large):
        assert figures[f"first paint, {name}"]["value"]["median"] > 100
    step = figures["reduce and draw a step, 4,096 blocks"]
    reduce = figures["    of it reducing, 4,096 blocks"]
    assert step["samples"] == reduce["samples"] == 20
    assert 0 <= reduce["value"]["median"] < step["value"]["median"]
    assert step["met"] == (step["value"]["median"] <= 4)
    assert figures["reduce and draw a step, 65,536 blocks"]["samples"] == 20
    shown, own = (
        figures[name]["value"]["median"]
        for name in (
            "frames a second, playing 4,096 blocks",
            "    the browser's own, with nothing to draw",
        )
    )
    assert 0 < shown <= 1.1 * own, "more steps than frames"
    assert figures["key press to paint"]["samples"] == 5
    for slider in ui.SLIDERS:
        moved = figures[f"slider to paint, {slider}"]
        assert moved["samples"] == 2 and moved["value"]["low"] > 0
    (played,) = [figure for name, figure in figures.items() if name.startswith("messages")]
    assert played["value"]["median"] == 0, "the player talks to the server while it plays"


def test_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "SETTLE_S", 0.2)
    monkeypatch.setattr(load, "look_around", lambda: None)
    report = tmp_path / "out.json"
    arguments = ["--sessions", "3", "--seconds", "1.5", "--minutes", "0.02", "--no-engine"]
    assert _run(load.main, [*arguments, "--json", str(report)]) == 0
    figures = _figures(report)
    for kind in load.KINDS:
        figure = figures[f"{kind.name}, no engine"]
        assert figure["samples"] >= 3
        assert 0 < figure["value"]["low"] <= figure["value"]["median"] <= figure["p95"]
        assert figure["met"] == (figure["p95"] <= kind.most)
    assert any(name.startswith("memory over 0.02 min") for name in figures)


def test_a_missing_browser_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(ui, "find_chromium", lambda: None)
    monkeypatch.setattr(ui, "look_around", lambda: None)
    monkeypatch.setattr(ui, "_runs", lambda folder: None)
    assert ui.main(["--quick"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_figures_are_judged() -> None:
    assert percentile([float(i) for i in range(1, 101)], 95) == 95
    assert percentile([3.0], 95) == 3
    samples = [10.0] * 90 + [200.0] * 10
    assert measured("x", "ms", samples, 100).met
    assert not measured("x", "ms", samples, 100, judge="p95").met
    assert "missed p95 ≤ 100 ms" in measured("x", "ms", samples, 100, judge="p95").show()
    assert "met" not in Figure("x", "ms", Timing(1, 1, 1)).show()


def test_growth_is_seen_and_the_start_is_not() -> None:
    start = [20.0, 60.0]
    assert flat("memory", start + [100.0] * 8).met
    assert not flat("memory", start + [100.0 + 2 * i for i in range(8)]).met


def test_the_large_run_fills_its_pool_and_evicts() -> None:
    run = large_run(blocks=256, requests=32).to_dict()
    assert min(step["usage"]["free"] for step in run["steps"]) < 26
    assert any(e["type"] == "block_evicted" for step in run["steps"] for e in step["events"])
