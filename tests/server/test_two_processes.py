"""App and engine as two real processes, as on two machines, and the network between them cut."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import TOKEN, Serve, Served, wait_for
from tests.server.test_engine_faults import cable
from tests.serving import App, running

pytest.importorskip("streamlit")

LONG = {"prompt_tokens": [5, 6, 7, 8, 9], "max_tokens": 240, "ignore_eos": True}


@pytest.fixture(scope="module")
def remote(serve: Serve) -> Served:
    """An engine on its own, with steps long enough to be cut."""
    return serve(step_s=0.03)


def status(app: App) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(app.get("/engine/status")[2])
    return said


def submit(app: App, body: dict[str, Any]) -> tuple[str, str]:
    """A live request of a browser's: the run's id, and the cookie that tells whose it is."""
    request = urllib.request.Request(
        app.url + "/engine/live", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        cookie = answer.headers["Set-Cookie"].split(";")[0]
        return json.loads(answer.read())["id"], cookie


def follow(app: App, run: str, cookie: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The run's events, to the end."""
    request = urllib.request.Request(f"{app.url}/engine/runs/{run}/events")
    request.add_header("Cookie", cookie)
    with urllib.request.urlopen(request, timeout=40) as answer:
        kind = ""
        for raw in answer:
            name, _, value = raw.decode().rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)
                if kind == "end":
                    return


def test_a_cut_network_ends_the_run_and_a_mended_one_brings_the_engine_back(
    remote: Served, tmp_path: Path
) -> None:
    with cable(remote.port) as (port, cut):
        engine = {
            "KV_SCOPE_ENGINE_URL": f"http://127.0.0.1:{port}",
            "KV_SCOPE_ENGINE_TOKEN": TOKEN,
        }
        with running(tmp_path, engine=engine) as app:
            wait_for(lambda: status(app), lambda said: said["state"] == "ready")
            assert not app.loaded("torch"), "the engine is elsewhere"
            run, cookie = submit(app, LONG)
            events = follow(app, run, cookie)
            seen = [next(events) for _ in range(4)]
            assert seen[0][0] == "header" and {kind for kind, _ in seen[1:]} <= {"step", "text"}
            cut.set()
            started = time.monotonic()
            seen += events
            assert seen[-1][0] == "end" and seen[-1][1]["reason"] == "engine_lost"
            assert time.monotonic() - started < 25
            wait_for(lambda: status(app), lambda said: said["state"] == "restarting")
            # A browser that comes back has all that had come, and the same end.
            assert list(follow(app, run, cookie)) == seen
            cut.clear()
            wait_for(lambda: status(app), lambda said: said["state"] == "ready")
            again = list(follow(app, *submit(app, {**LONG, "max_tokens": 5})))
            assert again[-1][1]["reason"] == "finished"
            assert sum(kind == "step" for kind, _ in again) == 5
    remote.until(lambda health: health["usage"]["in_use"] == 0)
