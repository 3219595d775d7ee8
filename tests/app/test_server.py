"""The server: our own routes, compressed files, and what its process leaves alone."""

from __future__ import annotations

import gzip
import json
import re
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from core.scenario import Scenario
from core.simulate import simulate
from tests.serving import App, running
from ui import catalogue


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("server")
    runs = folder / "runs"
    runs.mkdir()
    simulate(Scenario.from_json(catalogue.entries()["fork"].text)).write(runs / "fork.run.json.gz")
    (folder / "secret.run.json.gz").write_bytes(b"secret")
    with running(folder, runs=runs) as app:
        yield app


def test_health(app: App) -> None:
    status, headers, _ = app.get("/api/health")
    assert status == 200
    assert headers["Cache-Control"] == "no-store"
    assert app.health()["recorded_runs"] == 1
    end = time.monotonic() + 60
    while not app.health()["warm"]:
        assert time.monotonic() < end, "the slow imports never end"
        time.sleep(0.1)


def test_a_recorded_run_can_be_downloaded(app: App) -> None:
    for name in ("fork", "fork.run.json.gz"):
        status, headers, body = app.get(f"/runs/{name}")
        assert status == 200
        assert "fork.run.json.gz" in headers["Content-Disposition"]
        assert b'"schema":"run/1"' in gzip.decompress(body)


def test_the_words_of_the_course_come_compressed_and_once(app: App) -> None:
    status, headers, body = app.get("/api/words")
    assert status == 200 and headers["Content-Encoding"] == "gzip"
    entries = json.loads(gzip.decompress(body))
    assert len(entries) > 400 and len(body) < 150_000
    assert {"kind", "title", "head", "to", "text"} == set(entries[0])
    again, _, nothing = app.get("/api/words", {"If-None-Match": headers["ETag"]})
    assert again == 304 and not nothing


@pytest.mark.parametrize(
    "name",
    ["nothing", "..%2fsecret", "../secret", "%2e%2e/secret", "secret", ".hidden", "a" * 300, "%00"],
)
def test_other_names_are_not_there(app: App, name: str) -> None:
    status, _, body = app.get(f"/runs/{name}")
    # A name that is a path leads out of /runs/, to the page itself.
    assert status in (400, 404) or b"<!doctype html>" in body.lower()
    assert b"secret" not in body


def test_scripts_come_compressed(app: App) -> None:
    _, _, page = app.get("/")
    script = re.search(rb'src="\.?(/static/js/[^"]+\.js)"', page)
    assert script
    path = script.group(1).decode()
    plain = app.get(path)
    packed = app.get(path, {"Accept-Encoding": "gzip"})
    assert plain[1].get("Content-Encoding") is None
    assert packed[1]["Content-Encoding"] == "gzip"
    assert "immutable" in packed[1]["Cache-Control"]
    assert gzip.decompress(packed[2]) == plain[2]
    assert len(packed[2]) < len(plain[2]) / 2


def test_static_names_cannot_leave_the_folder(app: App) -> None:
    status, _, body = app.get("/static/..%2f..%2f__init__.py", {"Accept-Encoding": "gzip"})
    assert status in (400, 404) or b"<!doctype" in body.lower()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("path", "home"), [("/a/b", "../"), ("/serving/x/", "../../"), ("/x/y/z?q=1", "../../")]
)
def test_a_nested_address_leads_home(app: App, path: str, home: str) -> None:
    """Below it none of Streamlit's own scripts would be found, and the page would stay blank."""
    assert _led(app, path) == (302, home)


@pytest.mark.parametrize("path", ["/", "/serving", "/api/health", "/_stcore/health"])
def test_what_is_there_stays_where_it_is(app: App, path: str) -> None:
    assert _led(app, path) == (200, None)


def _led(app: App, path: str) -> tuple[int, str | None]:
    """What a browser that goes there is answered, and where it is sent."""
    connection = HTTPConnection(app.url.removeprefix("http://"), timeout=20)
    connection.request("GET", path, headers={"Accept": "text/html"})
    answer = connection.getresponse()
    connection.close()
    return answer.status, answer.getheader("location")


def test_torch_is_installed_and_not_loaded(app: App) -> None:
    time.sleep(2)  # the warm imports are done by then
    assert app.health()["torch_installed"]
    assert not app.loaded("torch")


def test_the_server_reaches_nothing_outside(app: App) -> None:
    assert not Path(app.notes).exists()
