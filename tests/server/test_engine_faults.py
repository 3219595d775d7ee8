"""What goes wrong with an engine process: every request ends with a reason, and the rest go on."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.client import EngineClient, EngineRefusedError, EngineUnreachableError
from core.simulate import verify_states
from core.trace.run import run_from_dict
from core.trace.streamed import RunBuilder
from tests.server.conftest import TOKEN, Serve, Served, wait_for

LONG = {"prompt_tokens": [5, 6, 7, 8, 9], "max_tokens": 240, "ignore_eos": True}
SHORT = {**LONG, "max_tokens": 3}


def end_of(stream: Any) -> dict[str, Any]:
    """Read to the end; exactly one end comes, and it comes last."""
    kinds = []
    with stream:
        for kind, value in stream:
            kinds.append(kind)
            last: dict[str, Any] = value
    assert kinds.count("end") == 1 and kinds[-1] == "end"
    return last


def idle(health: dict[str, Any]) -> bool:
    nobody = health["live"] == {"running": 0, "waiting": 0}
    return bool(nobody and not health["scenario_running"] and health["usage"]["in_use"] == 0)


def scenario(served: Served, max_tokens: int = 3) -> dict[str, Any]:
    request = {"id": "A", "prompt_tokens": [1, 2, 3], "max_tokens": max_tokens, "ignore_eos": True}
    return {
        "schema": "scenario/1",
        "model": served.client().models()[0]["id"],
        "engine": {"max_model_len": 256, "num_blocks": 64},
        "requests": [request],
    }


def test_fifty_cancels_leave_nothing_behind(slow: Served) -> None:
    chance = random.Random(11)
    waits = [chance.random() * 0.4 for _ in range(50)]

    def one(wait: float) -> str:
        while True:
            try:
                stream = slow.client().live({**LONG, "n": 2})
                break
            except EngineRefusedError as full:
                assert full.status == 429
                time.sleep(0.05)
        threading.Timer(wait, stream.close).start()
        end: str = end_of(stream)["end"]
        return end

    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(one, waits)) == {"cancelled"}
    slow.until(idle)
    assert end_of(slow.client().live(SHORT))["end"] == "finished"


def test_more_than_may_be_here_is_429_with_a_time(slow: Served) -> None:
    streams = [slow.client().live(LONG) for _ in range(16)]
    with pytest.raises(EngineRefusedError) as refused:
        slow.client().live(LONG)
    assert refused.value.status == 429 and refused.value.retry_after_s
    for stream in streams:
        stream.close()
        assert end_of(stream)["end"] == "cancelled"
    slow.until(idle)


def test_two_readers_share_a_batch_and_see_only_lengths_of_each_other(slow: Served) -> None:
    secret = [61, 17, 83, 29, 97, 41]
    first = slow.client().live({**LONG, "prompt_tokens": secret})
    for kind, _ in first:
        if kind == "step":
            break
    second = slow.client().live({**LONG, "max_tokens": 6})
    builder, raw = RunBuilder(), []
    with second:
        for kind, value in second:
            builder.add(kind, value)
            raw.append(value)
    run = builder.run()
    assert run is not None
    verify_states(run_from_dict(json.loads(json.dumps(run.to_dict()))))
    together = [step for step in run.steps if set(step["scheduled"]) == {"A", "other-1"}]
    assert together, "both are computed in the same steps"
    hidden = run.header["hidden_token"]
    assert run.header["prompts"]["other-1"] == [hidden] * len(secret)
    assert str(secret)[1:-1].replace(" ", "") not in json.dumps(raw).replace(" ", "")
    for step in run.steps:
        for event in step["events"]:
            if event["type"] == "token_sampled" and event["request"] != "A":
                assert event["token"] == hidden
    first.close()
    slow.until(idle)


def test_scenarios_wait_in_a_queue_and_the_live_engine_stands_still(slow: Served) -> None:
    live = slow.client().live({**LONG, "max_tokens": 60})
    client, asked = slow.client(), scenario(slow, 20)
    running = client.scenario(asked)
    assert next(iter(running))[0] in ("queue", "header")
    slow.until(lambda health: health["scenario_running"])
    waiting = [client.scenario(asked) for _ in range(3)]
    with pytest.raises(EngineRefusedError) as refused:
        client.scenario(asked)
    assert refused.value.status == 429 and refused.value.retry_after_s
    places = [next(iter(stream)) for stream in waiting]
    assert places == [("queue", {"position": place}) for place in (1, 2, 3)]
    waiting[1].close()
    assert end_of(waiting[1])["end"] == "cancelled"
    assert end_of(running)["end"] == "finished"
    for stream in (waiting[0], waiting[2]):
        assert end_of(stream)["end"] == "finished"
    away = [
        value["timing"]["away_us"]
        for kind, value in live
        if kind == "step" and "away_us" in value["timing"]
    ]
    assert away and min(away) > 100_000, "the steps after a scenario say that the device was away"
    slow.until(idle)


def test_a_scenario_that_is_cancelled_frees_the_device(slow: Served) -> None:
    stream = slow.client().scenario(scenario(slow, 200))
    for kind, _ in stream:
        if kind == "step":
            break
    stream.close()
    assert end_of(stream)["end"] == "cancelled"
    slow.until(idle, 5)


@pytest.fixture(scope="module")
def fragile(serve: Serve) -> Served:
    """One to be broken, hung and frozen. A test that is to end it starts its own."""
    return serve("--step-timeout", "1", "--max-behind", "40", "--send-timeout", "2", step_s=0.003)


def test_a_step_that_fails_ends_those_in_it_and_nobody_else(fragile: Served) -> None:
    served = fragile
    stream = served.client().live(LONG)
    next(stream)
    (served.folder / "break").touch()
    end = end_of(stream)
    assert end["end"] == "error" and "the device is gone" in end["message"]
    assert end_of(served.client().live(SHORT))["end"] == "finished"
    running = served.client().scenario(scenario(served, 200))
    next(running)
    (served.folder / "break").touch()
    assert end_of(running)["end"] == "error"
    assert end_of(served.client().live(SHORT))["end"] == "finished"


def test_a_hung_step_is_told_and_recovered_from(fragile: Served) -> None:
    served = fragile
    stream = served.client().live(LONG)
    waiting = served.client().scenario(scenario(served))
    next(stream)
    (served.folder / "hang").touch()
    end = end_of(stream)
    assert end["end"] == "timeout" and "has not ended a step" in end["message"]
    assert end_of(waiting)["end"] in ("timeout", "finished")
    assert served.client().health()["status"] == "stalled"
    with pytest.raises(EngineRefusedError) as refused:
        served.client().live(SHORT)
    assert refused.value.status == 503
    (served.folder / "hang").unlink()
    served.until(lambda health: health["status"] == "ready" and idle(health))
    assert end_of(served.client().live(SHORT))["end"] == "finished"


def test_a_frozen_engine_is_lost_with_a_word(fragile: Served) -> None:
    served = fragile
    stream = served.client(silence_s=2).live(LONG)
    next(stream)
    os.kill(served.process.pid, signal.SIGSTOP)
    try:
        end = end_of(stream)
        assert end["end"] == "engine_lost" and "silent for 2 s" in end["message"]
        with pytest.raises(EngineUnreachableError, match="in time"):
            served.client(answer_s=0.5).health()
    finally:
        os.kill(served.process.pid, signal.SIGCONT)
    served.until(idle)


def test_an_engine_that_ends_is_lost_at_once(serve: Serve) -> None:
    """Killed, or because its standard input has closed: whoever started it has gone."""
    killed, left = serve(step_s=0.02), serve(step_s=0.02)
    assert left.process.stdin is not None
    for served, end_it in ((killed, killed.process.kill), (left, left.process.stdin.close)):
        stream = served.client().live(LONG)
        next(stream)
        end_it()
        assert end_of(stream)["end"] == "engine_lost"
        with pytest.raises(EngineUnreachableError):
            served.client().live(SHORT)
    assert left.process.wait(10) == 0


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def num_sockets(pid: int) -> int:
    links = (os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir())
    return sum(link.startswith("socket:") for link in links)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_reader_that_stops_reading_holds_up_nobody(fragile: Served) -> None:
    served = fragile
    steps = served.until(idle)["steps"]
    body = json.dumps({**LONG, "n": 8}).encode()
    deaf = []
    sockets = num_sockets(served.process.pid)
    before = resident_bytes(served.process.pid)
    for _ in range(2):
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", served.port))
        head = f"POST /live HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        reader.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        deaf.append(reader)
    started = time.monotonic()
    assert end_of(served.client().live({**LONG, "max_tokens": 20}))["end"] == "finished"
    assert time.monotonic() - started < 20
    health = served.until(idle)
    assert health["steps"] - steps < 2 * 240, "they were given up before they were done"
    assert resident_bytes(served.process.pid) - before < 40_000_000
    wait_for(
        lambda: {"sockets": num_sockets(served.process.pid)}, lambda a: a["sockets"] <= sockets
    )
    for reader in deaf:
        reader.close()
    assert end_of(served.client().live(SHORT))["end"] == "finished"


@contextmanager
def cable(port: int) -> Iterator[tuple[int, threading.Event]]:
    """A relay to a port, and what cuts it: then nothing passes, and nobody is told."""
    cut = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    pairs: list[socket.socket] = []

    def relay(source: socket.socket, target: socket.socket) -> None:
        while True:
            try:
                data = source.recv(65536)
                if not data:
                    return
                if cut.is_set():
                    continue
                target.sendall(data)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", port))
            pairs.extend((near, far))
            for ends in ((near, far), (far, near)):
                threading.Thread(target=relay, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1], cut
    finally:
        listener.close()
        for one in pairs:
            one.close()


def test_a_cut_network_ends_the_run_on_this_side(slow: Served) -> None:
    with cable(slow.port) as (port, cut):
        client = EngineClient(f"http://127.0.0.1:{port}", TOKEN, silence_s=6, answer_s=2)
        stream = client.live({**LONG, "max_tokens": 60})
        next(stream)
        cut.set()
        end = end_of(stream)
        assert end["end"] == "engine_lost" and "silent" in end["message"]
        with pytest.raises(EngineUnreachableError, match="in time"):
            client.health()
    slow.until(idle)


def test_what_is_no_engine_is_told_from_one() -> None:
    def serve_once(answer: bytes) -> int:
        listener = socket.create_server(("127.0.0.1", 0))

        def run() -> None:
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.sendall(answer)
            connection.close()
            listener.close()

        threading.Thread(target=run, daemon=True).start()
        port: int = listener.getsockname()[1]
        return port

    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for answer in (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope",
        b"SSH-2.0-something\r\n",
        b"",
    ):
        with pytest.raises(EngineUnreachableError):
            EngineClient(f"http://127.0.0.1:{serve_once(answer)}").health()
    for part in (b"5\r\nhello\r\n0\r\n\r\n", b"3\r\n{}\n\r\n", b"3\r\n[]\n\r\n", b"zz\r\n", b""):
        stream = EngineClient(f"http://127.0.0.1:{serve_once(head + part)}").live({})
        assert end_of(stream)["end"] == "engine_lost"
