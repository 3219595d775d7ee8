"""The engine process that an app keeps: started, watched, started again, ended."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.client import EngineClient
from tests.server.conftest import TOKEN, Served, command, environment
from ui import engine_process
from ui.engine_process import EngineSupervisor, Patience

QUICK = Patience(poll_s=0.1, answer_s=0.7, misses=2, look_again_s=0.1, longest_wait_s=0.5)


@contextmanager
def supervised(*args: Any, **fields: Any) -> Iterator[EngineSupervisor]:
    supervisor = EngineSupervisor(*args, **{"patience": QUICK, **fields})
    supervisor.start()
    try:
        yield supervisor
    finally:
        supervisor.stop()


def until(holds: Callable[[], Any], seconds: float = 40) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def alive(pid: int | None) -> bool:
    assert pid is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def ask(supervisor: EngineSupervisor) -> str:
    client = supervisor.client()
    assert client is not None
    with client.live({"prompt_tokens": [1, 2], "max_tokens": 2, "ignore_eos": True}) as stream:
        *_, (_, end) = stream
    reason: str = end["end"]
    return reason


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


def test_it_is_started_again_after_whatever_ends_it(folder: Path, tiny_dir: Path) -> None:
    patience = Patience(poll_s=0.1, answer_s=0.7, misses=2, longest_wait_s=0.5)
    with supervised(command(tiny_dir, "--step-timeout", "1"), patience=patience) as supervisor:
        assert supervisor.seen.state == "starting" and supervisor.client() is None
        until(lambda: supervisor.seen.state == "ready")
        assert supervisor.seen.models[0]["num_attention_heads"] == 6
        assert ask(supervisor) == "finished"

        def ends(how: Callable[[int], object]) -> None:
            pid = supervisor.pid
            assert pid is not None
            how(pid)
            until(lambda: supervisor.seen.state == "restarting")
            assert supervisor.client() is None
            assert "started again" in supervisor.seen.message
            until(lambda: supervisor.seen.state == "ready")
            assert supervisor.pid != pid and not alive(pid)
            assert ask(supervisor) == "finished"

        ends(lambda pid: os.kill(pid, signal.SIGKILL))
        ends(lambda pid: os.kill(pid, signal.SIGSTOP))  # it hangs: it is ended, then started again
        pid = supervisor.pid
    assert not alive(pid)
    assert supervisor.client() is None


@pytest.mark.slow
def test_a_step_that_hangs_ends_the_process(folder: Path, tiny_dir: Path) -> None:
    with supervised(command(tiny_dir, "--step-timeout", "1")) as supervisor:
        until(lambda: supervisor.seen.state == "ready")
        client, pid = supervisor.client(), supervisor.pid
        assert client is not None
        (folder / "hang").touch()
        with client.live({"prompt_tokens": [1], "max_tokens": 5}) as stream:
            *_, (_, end) = stream
        assert end["end"] in ("timeout", "engine_lost")
        until(lambda: supervisor.seen.state in ("restarting", "starting"))
        (folder / "hang").unlink()
        until(lambda: supervisor.seen.state == "ready" and supervisor.pid != pid)


def test_one_that_cannot_start_says_why_and_waits_longer_each_time() -> None:
    script = "import sys, time; print('error: the disk is full', file=sys.stderr); sys.exit(3)"
    with supervised([sys.executable, "-c", script]) as supervisor:
        until(lambda: supervisor.seen.state == "restarting")
        until(lambda: "the disk is full" in supervisor.seen.message)
    with supervised([os.path.join("nothing", "here")]) as supervisor:
        until(lambda: "cannot be started" in supervisor.seen.message)
    with supervised([sys.executable, "-c", "print('hello')"]) as supervisor:
        until(lambda: supervisor.seen.state == "restarting")


def test_without_a_model_there_is_none_until_there_is_one(folder: Path, tiny_dir: Path) -> None:
    lacking: list[str | None] = ["No engine here: no model."]
    with supervised(command(tiny_dir), can_start=lambda: lacking[0]) as supervisor:
        until(lambda: supervisor.seen.state == "absent")
        assert supervisor.seen.message == "No engine here: no model." and supervisor.pid is None
        lacking[0] = None
        until(lambda: supervisor.seen.state == "ready")


def test_a_named_engine_is_only_looked_at(engine: Served) -> None:
    served = engine
    with supervised([], url=served.url, token=TOKEN) as supervisor:
        until(lambda: supervisor.seen.state == "ready")
        assert ask(supervisor) == "finished" and supervisor.pid is None
        os.kill(served.process.pid, signal.SIGSTOP)
        until(lambda: supervisor.seen.state == "restarting")
        assert served.url not in supervisor.seen.message, "visitors need not know where it is"
        os.kill(served.process.pid, signal.SIGCONT)
        until(lambda: supervisor.seen.state == "ready")
    assert EngineClient(served.url, TOKEN).health()["status"] == "ready"
    with supervised([], url=served.url, token="wrong") as supervisor:
        until(lambda: "token" in supervisor.seen.message)
        assert supervisor.seen.state == "absent" and supervisor.client() is None


def test_the_operator_names_an_engine_in_the_environment_or_the_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("KV_SCOPE_ENGINE_URL", "KV_SCOPE_ENGINE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(engine_process, "ROOT", tmp_path)
    assert engine_process.named_by_operator() is None
    (tmp_path / ".streamlit").mkdir()
    secrets = tmp_path / ".streamlit" / "secrets.toml"
    secrets.write_text("[engine]\nurl = 'http://gpu:8601'\ntoken = 'x'\n")
    assert engine_process.named_by_operator() == ("http://gpu:8601", "x")
    secrets.write_text("not toml [")
    assert engine_process.named_by_operator() is None
    monkeypatch.setenv("KV_SCOPE_ENGINE_URL", "http://gpu:1")
    assert engine_process.named_by_operator() == ("http://gpu:1", None)
