"""Real engine processes with a tiny model, on real sockets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.client import EngineClient

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent.parent / "model"))
import tiny_llama

ROOT = Path(__file__).resolve().parent.parent.parent
TOKEN = "a token for tests"


@dataclass
class Served:
    """An engine process. folder: where files slow it down (see slow_serve.py)."""

    process: subprocess.Popen[str]
    url: str
    folder: Path

    def client(self, **patience: float) -> EngineClient:
        return EngineClient(self.url, TOKEN, **patience)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def until(self, holds: Callable[[dict[str, Any]], bool], seconds: float = 30) -> dict[str, Any]:
        """Wait until its health is as wanted."""
        return wait_for(lambda: self.client().health(), holds, seconds)


def wait_for(
    ask: Callable[[], dict[str, Any]], holds: Callable[[dict[str, Any]], bool], seconds: float = 30
) -> dict[str, Any]:
    """Ask until it holds."""
    end = time.monotonic() + seconds
    while not holds(answer := ask()):
        assert time.monotonic() < end, answer
        time.sleep(0.05)
    return answer


def environment(folder: Path, step_s: float = 0.0) -> dict[str, str]:
    return {
        **os.environ,
        "KV_TEST_FOLDER": str(folder),
        "KV_TEST_STEP_S": str(step_s),
        "KV_SCOPE_ENGINE_TOKEN": TOKEN,
        "PYTHONPATH": str(ROOT),
    }


def command(model: Path, *more: str) -> list[str]:
    """How the tiny model is served."""
    settings = ["--dtype", "float32", "--device", "cpu", "--threads", "1", "--block-size", "4"]
    settings += ["--num-blocks", "128", "--max-model-len", "256", "--max-num-seqs", "8"]
    script = [sys.executable, "-m", "tests.server.slow_serve", "serve", "--model", str(model)]
    return [*script, "--port", "0", "--until-stdin-closes", *settings, *more]


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama.write_checkpoint(tmp_path_factory.mktemp("models") / "tiny")


Serve = Callable[..., Served]


@pytest.fixture(scope="session")
def serve(tiny_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Start engine processes; they end with the session."""
    started: list[subprocess.Popen[str]] = []

    def start(*more: str, step_s: float = 0.0, wait: bool = True) -> Served:
        folder = tmp_path_factory.mktemp("engine")
        process = subprocess.Popen(
            command(tiny_dir, *more),
            cwd=ROOT,
            env=environment(folder, step_s),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        served = Served(process, json.loads(process.stdout.readline())["url"], folder)
        if wait:
            served.until(lambda health: health["status"] == "ready")
        return served

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture(scope="session")
def engine(serve: Serve) -> Served:
    """One engine at full speed."""
    return serve()


@pytest.fixture(scope="session")
def slow(serve: Serve) -> Served:
    """One whose steps take 30 ms more."""
    return serve("--max-live", "16", "--max-queued", "3", step_s=0.03)
