"""The app and an engine as processes of their own, as `make run` starts them, on free ports."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core.errors import KVScopeError

ROOT = Path(__file__).resolve().parent.parent
START_S = 120


@dataclass(frozen=True, slots=True)
class Served:
    """url: without a slash at the end. token: the bearer token; empty for the app."""

    url: str
    pid: int
    token: str = ""

    def resident_mib(self) -> float:
        """Memory that the process holds, in MiB (Linux; 0 elsewhere)."""
        try:
            text = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii")
        except OSError:
            return 0.0
        return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def processor_s(self) -> float:
        """Processor time that the process has taken, in seconds (Linux; 0 elsewhere)."""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return 0.0
        fields = text.rpartition(")")[2].split()  # the name before it may hold anything
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class NotStartedError(KVScopeError):
    """A process that a benchmark needs did not start."""


@contextmanager
def app(
    environment: dict[str, str], script: str = "app.py", *, warm: bool = False
) -> Iterator[Served]:
    """`streamlit run app.py`. environment: added to this process's. script: another one. warm:
    wait until its slow imports are over, as a load balancer would."""
    port = _free_port()
    command = [sys.executable, "-m", "streamlit", "run", script]
    command += ["--server.port", str(port), "--server.headless", "true"]
    with _child(command, environment) as process:
        served = Served(f"http://localhost:{port}", process.pid)
        _wait(process, f"{served.url}/{'api/health' if warm else '_stcore/health'}", {})
        yield served


@contextmanager
def engine(model: str, threads: int) -> Iterator[Served]:
    """`python -m core serve`, ready to answer."""
    command = [sys.executable, "-m", "core", "serve", "--port", "0", "--model", model]
    command += ["--threads", str(threads), "--until-stdin-closes"]
    with _child(command, {}) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise NotStartedError("the engine process ended before it listened")
        where = json.loads(line)
        served = Served(where["url"], process.pid, where["token"])
        _wait(process, f"{served.url}/health", {"Authorization": f"Bearer {served.token}"})
        yield served


@contextmanager
def _child(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if "serve" in command else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(process: subprocess.Popen[bytes], url: str, headers: dict[str, str]) -> None:
    """Until a health address answers that all is well."""
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, headers=headers), timeout=5
            ) as a:
                body = a.read()
            said = json.loads(body) if body.startswith(b"{") else {}
            if said.get("status") != "starting" and said.get("warm", True):
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise NotStartedError(f"{' '.join(process.args[1:5])} did not start")  # type: ignore[index]
