"""A really running app for tests: `streamlit run app.py` on a free port, stopped by its pid."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FENCE = ROOT / "tests" / "fence"
START_S = 60


@dataclass(frozen=True)
class App:
    """url: without a slash at the end. notes: where the fence writes. log: what the app printed."""

    url: str
    pid: int
    notes: Path
    log: Path

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any, bytes]:
        request = urllib.request.Request(self.url + path, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def health(self) -> dict[str, Any]:
        return json.loads(self.get("/api/health")[2])

    def loaded(self, module: str) -> bool:
        """Whether the process has a module's compiled library open (Linux only)."""
        return f"/{module}/" in Path(f"/proc/{self.pid}/maps").read_text()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def running(
    folder: Path,
    *,
    block: str = "",
    runs: Path | None = None,
    script: str = "app.py",
    engine: dict[str, str] | None = None,
) -> Iterator[App]:
    """Start the app behind the fence. block: modules that are not installed for it.

    engine: what the environment says of an engine (see ui/engine_process.py); by default, that
    there is none. `{}`: it starts its own.
    """
    port = _free_port()
    notes, log = folder / "network.txt", folder / "app.log"
    env = {
        **os.environ,
        "PYTHONPATH": str(FENCE),
        "KV_SCOPE_NETWORK": str(notes),
        "KV_SCOPE_BLOCK": block,
        **({"KV_SCOPE_ENGINE": "off"} if engine is None else engine),
    }
    if runs is not None:
        env["KV_SCOPE_RUNS"] = str(runs)
    command = [sys.executable, "-m", "streamlit", "run", script]
    command += ["--server.port", str(port), "--server.headless", "true"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=out, stderr=out, stdin=subprocess.DEVNULL
        )
    app = App(f"http://localhost:{port}", process.pid, notes, log)
    try:
        _wait(app, process)
        yield app
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(app: App, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            if app.get("/_stcore/health")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"the app did not start:\n{app.log.read_text()[-3000:]}")
