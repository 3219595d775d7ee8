"""What the app keeps of runs, and for how long; and the boxes between an engine and its readers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from core.client import EngineRefusedError
from core.server import load
from core.server.live import note_other_work
from core.server.load import OtherWork
from core.server.outbox import Outbox
from core.simulate import simulate
from core.trace.run import Run
from core.trace.streamed import RunBuilder, play
from tests.server import aio
from ui.live_runs import Keep, LiveRun, LiveRuns


class FakeStream:
    """Gives out messages when told to."""

    def __init__(self, num_steps: int = 2, size: int = 10) -> None:
        self.go = threading.Event()
        self.closed = threading.Event()
        self._num_steps, self._size = num_steps, size

    def __enter__(self) -> FakeStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed.set()
        self.go.set()

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "header", {}
        self.go.wait(10)
        if self.closed.is_set():
            yield "end", {"end": "cancelled", "message": ""}
            return
        for step in range(self._num_steps):
            yield "step", {"step": step, "pad": "x" * self._size}
        yield "end", {"end": "finished", "message": ""}


def submitted(runs: LiveRuns, owner: str = "me", **fields: int) -> tuple[LiveRun, FakeStream]:
    stream = FakeStream(**fields)
    return runs.submit(owner, lambda: stream), stream  # type: ignore[arg-type,return-value]


def ended(run: LiveRun) -> bytes:
    end = time.monotonic() + 5
    while not run.ended:
        assert time.monotonic() < end
        time.sleep(0.005)
    time.sleep(0.01)
    return run.events_after(-1, 1 << 30)[0]


def test_only_the_newest_ended_runs_are_kept() -> None:
    runs = LiveRuns(Keep(max_ended=3))
    names = []
    for _ in range(6):
        run, stream = submitted(runs)
        names.append(run.id)
        stream.go.set()
        ended(run)
    assert [runs.get(name, "me") is not None for name in names] == [False] * 3 + [True] * 3
    assert runs.get(names[-1], "another") is None


def test_ended_runs_are_kept_within_their_bytes() -> None:
    runs = LiveRuns(Keep(max_ended_bytes=5000))
    names = []
    for _ in range(5):
        run, stream = submitted(runs, num_steps=1, size=2000)
        names.append(run.id)
        stream.go.set()
        ended(run)
    assert [runs.get(name, "me") is not None for name in names] == [False] * 3 + [True] * 2


def test_a_run_without_end_is_ended() -> None:
    runs = LiveRuns(Keep(max_run_bytes=10_000))
    run, stream = submitted(runs, num_steps=10_000, size=100)
    stream.go.set()
    events = ended(run)
    assert b'"reason":"error"' in events and b"longer than the 10,000 bytes" in events
    assert len(events) < 12_000 and stream.closed.is_set()


def test_a_run_that_nobody_follows_is_cancelled() -> None:
    runs = LiveRuns(Keep(away_s=0.05))
    alone, _ = submitted(runs)
    followed, stream = submitted(runs)
    runs.follow(followed)
    time.sleep(0.1)
    runs.cancel_abandoned()
    assert b'"reason":"cancelled"' in ended(alone)
    assert not stream.closed.is_set()
    runs.leave(followed)
    time.sleep(0.1)
    runs.cancel_abandoned()
    assert b'"reason":"cancelled"' in ended(followed)


def test_so_many_runs_and_followers_at_once() -> None:
    runs = LiveRuns(Keep(max_running=3, max_running_each=2, max_followers=1))
    kept = [submitted(runs, owner)[0] for owner in ("one", "one", "two")]
    for owner in ("one", "three"):
        with pytest.raises(EngineRefusedError) as refused:
            submitted(runs, owner)
        assert refused.value.status == 429
    runs.follow(kept[0])
    with pytest.raises(EngineRefusedError):
        runs.follow(kept[0])
    runs.cancel_all()
    for run in kept:
        ended(run)
    submitted(runs, "three")[1].close()


def test_a_refused_run_leaves_nothing() -> None:
    runs = LiveRuns(Keep(max_running=1))

    def refuse() -> Any:
        raise EngineRefusedError(400, "no")

    for _ in range(3):
        with pytest.raises(EngineRefusedError, match="no"):
            runs.submit("me", refuse)
    submitted(runs)[1].close()


def test_an_outbox_gives_up_a_reader_that_is_too_far_behind() -> None:
    box = Outbox(3)
    closed = []
    box.on_close = lambda: closed.append(True)
    for step in range(10):
        box.put("step", step)
    box.end("finished")
    assert closed == [True] and box.closed and box.ended

    async def read() -> list[Any]:
        return [await box.get(0.01) for _ in range(2)]

    last, nothing = aio.run(read())
    assert (
        last is not None and last[1]["end"] == "timeout" and "3 steps behind" in last[1]["message"]
    )
    assert nothing is None


def test_an_outbox_tells_the_newest_place_and_one_end() -> None:
    box = Outbox(10)
    for place in (3, 2, 1):
        box.put("queue", {"position": place})
    box.end("cancelled", "first")
    box.end("error", "second")
    box.put("step", {})

    async def read() -> list[Any]:
        return [await box.get(0.01) for _ in range(3)]

    assert aio.run(read()) == [
        ("queue", {"position": 1}),
        ("end", {"end": "cancelled", "message": "first"}),
        None,
    ]


def test_an_outbox_wakes_its_reader_from_another_thread() -> None:
    box = Outbox(10)

    async def read() -> Any:
        threading.Timer(0.05, box.put, ("step", 7)).start()
        return await box.get(5)

    started = time.monotonic()
    assert aio.run(read()) == ("step", 7)
    assert time.monotonic() - started < 2


def test_other_work_is_what_the_machine_did_and_this_process_did_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = sum(os.times()[:2])
    readings = iter([(100.0, 200.0), (101.0 + own, 202.0), None])
    monkeypatch.setattr(load, "_machine_s", lambda: next(readings))
    monkeypatch.setattr(load, "_EVERY_S", 0.0)
    monkeypatch.setattr(load.os, "times", lambda: SimpleNamespace(user=own, system=0.0))
    other = OtherWork()
    own *= 2  # of the 1 + own seconds that were busy, own were this process's
    share = other.share()
    assert share == pytest.approx(0.5)
    record: dict[str, Any] = {}
    note_other_work(record, other)
    assert record == {"beside": 0.5}, "the last one known, where the machine no longer says"


def test_a_recorded_run_comes_in_the_same_messages() -> None:
    from core.scenario import Scenario

    request = {"id": "A", "prompt_tokens": [1, 2], "max_tokens": 3}
    run = simulate(Scenario.from_dict({"schema": "scenario/1", "requests": [request]}))
    builder = RunBuilder()
    assert builder.run() is None
    for kind, value in play(run):
        builder.add(kind, value)
    again = builder.run()
    assert isinstance(again, Run) and again.to_dict() == run.to_dict()
    assert builder.end is not None and builder.end["end"] == "finished"
