"""The engine as browsers reach it: the app's own routes, in a really running app."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import TOKEN, Served, wait_for
from tests.serving import App, running

LONG = {"prompt_tokens": [5, 6, 7, 8, 9], "max_tokens": 240, "ignore_eos": True}
SHORT = {**LONG, "max_tokens": 3}


@dataclass
class Event:
    id: int
    kind: str
    data: Any


class Browser:
    """Keeps its cookie, as a browser does."""

    def __init__(self, app: App) -> None:
        self._host = app.url.removeprefix("http://")
        self.cookie: str | None = None

    def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self._host, timeout=30)
        sent = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            sent["Cookie"] = self.cookie
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        given = answer.headers.get("Set-Cookie")
        if given:
            assert "HttpOnly" in given and "SameSite=strict" in given
            self.cookie = given.split(";")[0]
        return answer

    def json(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = self.ask(method, path, body, **headers)
        return {"status": answer.status, **json.loads(answer.read() or b"{}")}

    def status(self) -> Any:
        return self.json("GET", "/engine/status")

    def submit(self, body: Any, kind: str = "live") -> str:
        said = self.json("POST", f"/engine/{kind}", body)
        assert said["status"] == 202, said
        name: str = said["id"]
        return name

    def events(self, name: str, after: int | None = None) -> Iterator[Event]:
        headers = {} if after is None else {"Last_Event_ID": str(after)}
        answer = self.ask("GET", f"/engine/runs/{name}/events", **headers)
        assert answer.status == 200 and answer.headers["Cache-Control"] == "no-store"
        yield from read_events(answer)


def read_events(answer: http.client.HTTPResponse) -> Iterator[Event]:
    fields: dict[str, str] = {}
    while line := answer.readline():
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name in ("id", "event", "data"):
            fields[name] = value
        elif not name and fields:
            yield Event(int(fields["id"]), fields["event"], json.loads(fields["data"]))
            fields = {}
    answer.close()


@pytest.fixture(scope="module")
def slow_app(
    slow: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[App, Served]]:
    served = slow
    named = {"KV_SCOPE_ENGINE_URL": served.url, "KV_SCOPE_ENGINE_TOKEN": TOKEN}
    with running(tmp_path_factory.mktemp("app"), engine=named) as app:
        wait_for(Browser(app).status, lambda status: status["state"] == "ready")
        yield app, served


@pytest.fixture
def app(slow_app: tuple[App, Served]) -> App:
    return slow_app[0]


def test_status_tells_what_a_label_needs_and_no_address(
    slow_app: tuple[App, Served],
) -> None:
    app, served = slow_app
    status = Browser(app).status()
    assert status["label_source"] == {
        key: served.client().health()["source"][key]
        for key in ("device", "processor", "dtype", "model", "kernels")
    }
    assert status["model"]["num_key_value_heads"] == 2 and status["queue"] == 0
    assert served.url not in json.dumps(status) and TOKEN not in json.dumps(status)


def test_a_run_is_followed_to_its_end(app: App) -> None:
    browser = Browser(app)
    events = list(browser.events(browser.submit(SHORT)))
    assert [event.id for event in events] == list(range(len(events)))
    assert events[0].kind == "header" and events[0].data["label"] == "LIVE"
    assert [e.kind for e in events].count("step") == 3
    assert events[-1].kind == "end" and events[-1].data["reason"] == "finished"
    assert events[-1].data["results"]["A"]["finish_reason"] == "max_tokens"


def test_a_scenario_is_followed_like_a_live_run(app: App) -> None:
    browser = Browser(app)
    request = {"id": "A", "prompt_tokens": [1, 2, 3], "max_tokens": 3, "ignore_eos": True}
    model = browser.status()["label_source"]["model"]
    asked = {"schema": "scenario/1", "model": model, "requests": [request, {**request, "id": "B"}]}
    events = list(browser.events(browser.submit(asked, "scenario")))
    assert set(events[-1].data["results"]) == {"A", "B"}
    refused = browser.json("POST", "/engine/scenario", {**asked, "model": "another"})
    assert refused["status"] == 400 and "is not loaded here" in refused["error"]


def test_whoever_comes_back_finds_the_rest(app: App) -> None:
    browser = Browser(app)
    name = browser.submit({**LONG, "max_tokens": 20})
    first = browser.ask("GET", f"/engine/runs/{name}/events")
    seen = [event for event, _ in zip(read_events(first), range(5), strict=False)]
    first.close()
    rest = list(browser.events(name, after=seen[-1].id))
    assert [e.id for e in (*seen, *rest)] == list(range(len(seen) + len(rest)))
    assert rest[-1].data["reason"] == "finished"
    again = list(browser.events(name))
    assert [e.data for e in again] == [e.data for e in (*seen, *rest)]
    assert browser.ask("GET", f"/engine/runs/{name}/events", Last_Event_ID="99").status == 204


def test_a_run_is_its_browsers_own(app: App) -> None:
    one, other = Browser(app), Browser(app)
    name = one.submit(LONG)
    other.status()
    assert other.json("GET", f"/engine/runs/{name}/events")["status"] == 404
    assert other.json("DELETE", f"/engine/runs/{name}")["status"] == 404
    assert one.ask("DELETE", f"/engine/runs/{name}").status == 204
    assert list(one.events(name))[-1].data["reason"] == "cancelled"


def test_two_browsers_share_a_batch_and_no_prefix(app: App) -> None:
    prompt = [70 + i for i in range(12)]
    one, other = Browser(app), Browser(app)
    first = one.submit({**LONG, "prompt_tokens": prompt, "max_tokens": 30})
    followed = one.events(first)
    assert next(followed).kind == "header"
    hits, together = {}, False
    for who, browser in (("other", other), ("one", one)):
        events = list(browser.events(browser.submit({**SHORT, "prompt_tokens": prompt})))
        hits[who] = events[-1].data["results"]["A"]["num_cached_tokens"]
        steps = [e.data["scheduled"].keys() for e in events if e.kind == "step"]
        together = together or {"A", "other-1"} in [set(names) for names in steps]
    assert hits == {"other": 0, "one": 8} and together
    shared = {**SHORT, "prompt_tokens": prompt, "share_prefixes": True}
    for who in (one, other):
        events = list(who.events(who.submit(shared)))
        hits[str(who)] = events[-1].data["results"]["A"]["num_cached_tokens"]
    assert list(hits.values())[2:] == [0, 8], "those who share find each other's"
    assert list(followed)[-1].data["reason"] == "finished"


def test_a_browser_has_so_many_runs_at_once(app: App) -> None:
    browser = Browser(app)
    names = [browser.submit(LONG) for _ in range(4)]
    answer = browser.ask("POST", "/engine/live", LONG)
    assert answer.status == 429 and int(answer.headers["Retry-After"]) > 0
    for name in names:
        browser.ask("DELETE", f"/engine/runs/{name}")
        assert list(browser.events(name))[-1].data["reason"] == "cancelled"
    browser.ask("DELETE", f"/engine/runs/{browser.submit(LONG)}")


REFUSED: list[tuple[int, dict[str, Any]]] = [
    (403, {"Sec_Fetch_Site": "cross-site"}),
    (403, {"Sec_Fetch_Site": "same-site"}),
    (415, {"Content_Type": "text/plain"}),
    (413, {"body": b'"' + b"x" * (1 << 21) + b'"'}),
    (400, {"body": b"{"}),
    (400, {"body": [1]}),
    (400, {"body": {**SHORT, "cache_salt": "of somebody"}}),
    (400, {"body": {"prompt_tokens": [1] * 300}}),
    (400, {"body": {**SHORT, "share_prefixes": "yes"}}),
]


@pytest.mark.parametrize(("status", "sent"), REFUSED)
def test_what_is_refused_is_told_in_words(app: App, status: int, sent: dict[str, Any]) -> None:
    headers = {name: value for name, value in sent.items() if name != "body"}
    said = Browser(app).json("POST", "/engine/live", sent.get("body", SHORT), **headers)
    assert said["status"] == status and said["error"]


def test_a_browser_without_fetch_metadata_is_judged_by_its_origin(app: App) -> None:
    connection = http.client.HTTPConnection(app.url.removeprefix("http://"), timeout=20)
    headers = {"Content-Type": "application/json", "Origin": "https://elsewhere.example"}
    connection.request("POST", "/engine/live", json.dumps(SHORT), headers)
    assert connection.getresponse().status == 403
    connection.close()


def test_twenty_readers_of_one_run_get_the_same(app: App) -> None:
    browser = Browser(app)
    name = browser.submit({**LONG, "max_tokens": 15})
    got: list[list[Any]] = []

    def follow() -> None:
        got.append([event.data for event in browser.events(name)])

    threads = [threading.Thread(target=follow) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(got) == 20 and all(events == got[0] for events in got)


def test_an_engine_lost_in_the_middle_ends_the_run_with_its_steps_kept(
    serve: Any, tmp_path: Path
) -> None:
    served: Served = serve(step_s=0.02)
    named = {"KV_SCOPE_ENGINE_URL": served.url, "KV_SCOPE_ENGINE_TOKEN": TOKEN}
    with running(tmp_path, engine=named) as app:
        browser = Browser(app)
        wait_for(browser.status, lambda status: status["state"] == "ready")
        name = browser.submit(LONG)
        events = []
        for event in browser.events(name):
            events.append(event)
            if len(events) == 10:
                served.process.kill()
        assert events[-1].kind == "end" and events[-1].data["reason"] == "engine_lost"
        assert len(list(browser.events(name))) == len(events), "what was seen can be seen again"
        status = wait_for(browser.status, lambda status: status["state"] == "restarting")
        assert "does not answer" in status["message"]
        answer = browser.ask("POST", "/engine/live", SHORT)
        assert answer.status == 503 and int(answer.headers["Retry-After"]) > 0


def test_an_app_without_an_engine_says_so(tmp_path: Path) -> None:
    with running(tmp_path) as app:
        browser = Browser(app)
        assert browser.status()["state"] == "absent"
        said = browser.json("POST", "/engine/live", SHORT)
        assert said["status"] == 503 and "No engine here" in said["error"]
        started = time.monotonic()
    assert time.monotonic() - started < 10
