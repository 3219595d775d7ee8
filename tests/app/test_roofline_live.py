"""The chosen run measured on the engine that is here: LIVE points, refused in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from core.client import EngineRefusedError
from ui import engine_process, runs
from ui.engine_process import Seen
from ui.roofline import bench, files, live, measured
from ui.roofline.place import DEFAULT

Json = dict[str, Any]
RUN = DEFAULT.run


class Stream:
    """What an engine sends that runs the recorded scenario again, twice as fast."""

    def __init__(self, end: Json, *, timed: bool = True) -> None:
        run = runs.recorded(RUN).data()
        run["header"]["label"] = "LIVE"
        for step in run["steps"]:
            step["timing"] = {k: v / 2 for k, v in step["timing"].items()} if timed else {}
        self._messages = [("header", run["header"]), *(("step", step) for step in run["steps"])]
        self._messages.append(("end", {"results": run["results"], **end}))

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self._messages)

    def close(self) -> None: ...


class Client:
    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, None

    def scenario(self, body: Json) -> Any:
        self.asked = body
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put an engine there that gives this answer."""
    state: Json = {}
    for module in (live, bench, live.awaited):
        monkeypatch.setattr(module.st, "session_state", state)

    def put(answer: Any) -> Client:
        client = Client(answer)
        monkeypatch.setattr(engine_process, "client", lambda: client)
        monkeypatch.setattr(engine_process, "seen", lambda: Seen("ready"))
        return client

    return put


def _data() -> Json:
    return bench.data(present=False)


def test_the_chosen_run_is_measured_now_and_shown_as_live(engine: Any) -> None:
    client = engine(Stream({"end": "finished"}))
    assert _data()["live"] == {"can": True, "has": False, "shown": False, "said": ""}
    assert live.asked({"do": "run"}, RUN)
    assert client.asked == runs.recorded(RUN).header["scenario"]
    shown, recorded = _data(), measured.part(RUN)
    assert recorded is not None
    assert shown["live"] == {"can": True, "has": True, "shown": True, "said": ""}
    part = shown["measured"]
    assert part["header"]["label"] == "LIVE" and part["name"] != recorded["name"]
    assert [row[:4] for row in part["rows"]] == [row[:4] for row in recorded["rows"]]
    rate = part["columns"].index("rate")
    assert part["rows"][0][5][rate] == pytest.approx(2 * recorded["rows"][0][5][rate], rel=1e-4)
    assert json.loads(files.as_json(DEFAULT))["measured"]["header"]["label"] == "LIVE"


def test_both_can_be_shown_and_another_run_is_its_own(engine: Any) -> None:
    engine(Stream({"end": "finished"}))
    live.asked({"do": "run"}, RUN)
    assert live.asked({"do": "recorded"}, RUN)
    assert _data()["measured"] == measured.part(RUN) and _data()["live"]["has"]
    assert live.asked({"do": "live"}, RUN) and _data()["measured"]["of"] == RUN
    assert live.part("kv_cache_on") is None and not live.controls("kv_cache_on")["has"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (EngineRefusedError(429, "too much runs", 2), "too much runs"),
        (Stream({"end": "error", "message": "it fell over"}), "it fell over"),
        (Stream({"end": "finished"}, timed=False), "times no steps"),
    ],
)
def test_what_goes_wrong_is_a_sentence_and_the_recorded_run_stays(
    engine: Any, answer: Any, said: str
) -> None:
    engine(answer)
    assert live.asked({"do": "run"}, RUN)
    assert said in _data()["live"]["said"] and _data()["measured"] == measured.part(RUN)
    assert live.controls("kv_cache_on")["said"] == "", "it was another run"


@pytest.mark.parametrize(("state", "can"), [("restarting", True), ("absent", False)])
def test_an_engine_that_is_started_again_may_be_asked(
    engine: Any, monkeypatch: pytest.MonkeyPatch, state: Any, can: bool
) -> None:
    engine(Stream({"end": "finished"}))
    monkeypatch.setattr(engine_process, "seen", lambda: Seen(state))
    assert live.controls(RUN)["can"] is can


@pytest.mark.parametrize("wish", [None, "run", {"do": "rm"}, {"do": ["run"]}, {"do": None}, 3])
def test_a_made_up_wish_asks_for_nothing(engine: Any, wish: object) -> None:
    client = engine(Stream({"end": "finished"}))
    assert not live.asked(wish, RUN) and client.asked is None
    assert live.asked({"do": "live"}, RUN) and not _data()["live"]["shown"], "nothing was measured"
