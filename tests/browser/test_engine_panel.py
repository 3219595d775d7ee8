"""The engine's panel in the sidebar, in a real browser, with and without an engine."""

from __future__ import annotations

import json
from typing import Any

from tests.serving import App


def status(**fields: Any) -> dict[str, Any]:
    return {
        "state": "ready",
        "message": "",
        "label_source": {"device": "CPU", "model": "<b>tiny</b>", "dtype": "float32"},
        "live": {"running": 1, "waiting": 0},
        "queue": 0,
        "load": {"cores": 2, "load_1m": 0.5, "other_work": 0.0},
        **fields,
    }


def test_without_an_engine_it_says_what_plays_all_the_same(app: App, page: Any) -> None:
    page.goto(f"{app.url}/block_pool")
    panel = page.get_by_label("The engine")
    panel.get_by_text("No engine here").wait_for()
    assert "Recorded and simulated runs play" in panel.inner_text()


def test_it_follows_the_engine_without_a_rerun(app: App, page: Any) -> None:
    told = status(state="starting", message="The engine is loading its model.")

    def answer(route: Any) -> None:
        route.fulfill(content_type="application/json", body=json.dumps(told))

    page.route("**/engine/status", answer)
    page.goto(f"{app.url}/block_pool")
    panel = page.get_by_label("The engine")
    panel.get_by_text("Engine starting").wait_for()
    told = status()
    panel.get_by_text("Engine ready").wait_for()
    assert "<b>tiny</b>" in panel.inner_text(), "a name is text, never markup"
    told = status(state="restarting", message="The engine ended.")
    panel.get_by_text("Engine restarting").wait_for()
