"""The engine process of this app: started, watched, and started again.

One per app process. It listens on this machine only, on a port that it chooses and reports over a
pipe, behind a token that is made up here; it ends when its standard input closes, so it cannot
outlive the app. Or the operator names an engine that runs already, on a GPU host perhaps: its
address comes from the environment or `.streamlit/secrets.toml`, never from a visitor.

    KV_SCOPE_ENGINE=off                            no engine; recorded and simulated runs only
    KV_SCOPE_ENGINE_URL, KV_SCOPE_ENGINE_TOKEN     an engine that is there, or in the secrets:
                                                   [engine] url = "…" token = "…"
    KV_SCOPE_ENGINE_ARGS                           more options of `python -m core serve`
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shlex
import subprocess
import sys
import threading
import tomllib
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from core.client import EngineClient, EngineUnreachableError
from core.errors import KVScopeError
from ui import status
from ui.paths import ROOT

Json = dict[str, Any]
_log = logging.getLogger("kv_scope")


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds, and counts. start: until the port is reported; load: until the weights are in."""

    poll_s: float = 1.0
    answer_s: float = 5.0
    misses: int = 3
    start_s: float = 90.0
    load_s: float = 600.0
    look_again_s: float = 10.0
    longest_wait_s: float = 60.0
    healthy_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What was last known. state: starting, ready, busy, restarting or absent."""

    state: str = "absent"
    message: str = ""
    health: Json = field(default_factory=dict)
    models: list[Json] = field(default_factory=list)


def named_by_operator() -> tuple[str, str | None] | None:
    """Address and token of an engine that somebody else runs; None if none is named."""
    url = os.environ.get("KV_SCOPE_ENGINE_URL")
    if url:
        return url, os.environ.get("KV_SCOPE_ENGINE_TOKEN") or None
    try:
        with open(ROOT / ".streamlit" / "secrets.toml", "rb") as file:
            engine = tomllib.load(file).get("engine", {})
    except (OSError, tomllib.TOMLDecodeError):
        return None
    if not isinstance(engine, dict) or not engine.get("url"):
        return None
    return str(engine["url"]), str(engine["token"]) if engine.get("token") else None


class EngineSupervisor:
    """Keeps one engine within reach. `client` and `seen` may be asked from any thread.

    command: how an engine is started; none is if `url` names one. can_start: whether there is a
    model to start it with, and else why not.
    """

    def __init__(
        self,
        command: list[str],
        *,
        url: str | None = None,
        token: str | None = None,
        can_start: Callable[[], str | None] = lambda: None,
        patience: Patience | None = None,
    ) -> None:
        self._command = command
        self._url, self._token = url, token
        self._can_start = can_start
        self._patience = patience or Patience()
        self._stopping = threading.Event()
        self._client: EngineClient | None = None
        self._process: subprocess.Popen[str] | None = None
        self._said: deque[str] = deque(maxlen=20)
        self._ended_once = False
        self._seen = Seen("starting", "The engine is being started.")
        self._thread = threading.Thread(target=self._run, name="engine-supervisor", daemon=True)

    @property
    def seen(self) -> Seen:
        """What was last known; that its process has ended is known at once."""
        seen, process = self._seen, self._process
        if seen.state in ("ready", "busy") and process is not None and process.poll() is not None:
            return Seen("restarting", "The engine ended. It is being started again.", seen.health)
        return seen

    @property
    def pid(self) -> int | None:
        """Of the process that was started here."""
        return self._process.pid if self._process is not None else None

    def client(self) -> EngineClient | None:
        """The engine, if it can be asked now."""
        return self._client if self.seen.state in ("ready", "busy") else None

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """End the watch, and the process that was started here."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self._end_process()

    # ---- the supervisor's thread ----------------------------------------------------------------

    def _run(self) -> None:
        try:
            if self._url is not None:
                self._watch_named(self._url)
            else:
                self._keep_running()
        except Exception:
            _log.exception("the engine's supervisor failed")
            self._seen = Seen(
                "absent", "The engine's supervisor failed; the server's log says why."
            )
        finally:
            self._end_process()

    def _keep_running(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            lacking = self._can_start()
            if lacking is not None:
                self._seen = Seen("absent", lacking)
                self._stopping.wait(self._patience.look_again_s)
                continue
            if self._seen.state == "absent":
                self._seen = Seen("starting", "The engine is being started.")
            healthy_s, why = self._one_life()
            if self._stopping.is_set():
                return
            self._ended_once = True
            failures = 0 if healthy_s >= self._patience.healthy_s else failures + 1
            wait_s = min(self._patience.longest_wait_s, float(2**failures) / 2)
            _log.warning("the engine ended (%s); starting it again in %g s", why, wait_s)
            self._seen = Seen("restarting", f"The engine ended: {why}. It is being started again.")
            self._stopping.wait(wait_s)

    def _one_life(self) -> tuple[float, str]:
        """From its start to its end: how long it was healthy, and why it ended."""
        token = secrets.token_urlsafe(24)
        self._said.clear()
        environment = {
            **os.environ,
            "KV_SCOPE_ENGINE_TOKEN": token,
            "PYTHONUNBUFFERED": "1",
        }
        try:
            process = self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                bufsize=1,
            )
        except OSError as exc:
            return 0.0, f"it cannot be started: {exc.strerror or exc}"
        listening: deque[str] = deque(maxlen=1)
        for stream, take in ((process.stdout, listening.append), (process.stderr, self._note)):
            threading.Thread(target=_read, args=(stream, take), daemon=True).start()
        try:
            return self._watch(process, listening, token)
        finally:
            self._client = None
            self._end_process()

    def _note(self, line: str) -> None:
        line = line.strip()
        if line:
            self._said.append(line)
            _log.info("engine: %s", line)

    def _watch(
        self, process: subprocess.Popen[str], listening: deque[str], token: str
    ) -> tuple[float, str]:
        started = monotonic()
        while not listening:
            if process.poll() is not None:
                return 0.0, self._last_words(process)
            if monotonic() - started > self._patience.start_s:
                return 0.0, f"it reported no port within {self._patience.start_s:g} s"
            if self._stopping.wait(0.05):
                return 0.0, "the app is stopping"
        try:
            url = json.loads(listening[0])["url"]
        except (ValueError, KeyError, TypeError):
            return 0.0, "it reported no port"
        client = EngineClient(url, token)
        healthy_since: float | None = None
        misses = 0
        while process.poll() is None:
            why = self._look(client)
            state = self._seen.state
            if why is None:
                misses = 0
                if state in ("ready", "busy") and healthy_since is None:
                    healthy_since = monotonic()
                    self._client = client
                if healthy_since is None and monotonic() - started > self._patience.load_s:
                    why, misses = "its model took too long to load", self._patience.misses
            else:
                misses += 1
            if misses >= self._patience.misses:
                return _since(healthy_since), why or ""
            pause_s = 0.1 if healthy_since is None else self._patience.poll_s
            if self._stopping.wait(pause_s):
                return _since(healthy_since), "the app is stopping"
        return _since(healthy_since), self._last_words(process)

    def _look(self, client: EngineClient) -> str | None:
        """Ask for its health; what is wrong, or None."""
        try:
            health = client.health(self._patience.answer_s)
            state = str(health.get("status", ""))
            if state in ("ready", "busy") and not self._seen.models:
                self._seen = Seen(state, "", health, client.models())
        except KVScopeError as exc:
            return str(exc)
        if state == "stalled":
            return "a step did not come to its end"
        if state == "failed":
            return str(health.get("message", "")) or "it failed"
        if state == "starting":
            word = "restarting" if self._ended_once else "starting"
            again = " again" if self._ended_once else ""
            self._seen = Seen(word, f"The engine is loading its model{again}.", health)
        else:
            self._seen = Seen(state, "", health, self._seen.models)
        return None

    def _watch_named(self, url: str) -> None:
        """An engine that somebody else runs: only looked at."""
        try:
            client = EngineClient(url, self._token)
        except EngineUnreachableError as exc:
            self._seen = Seen("absent", str(exc))
            return
        self._client = client
        ever = False
        while not self._stopping.is_set():
            before = self._seen
            why = self._look(client)
            if why is None:
                ever = True
            else:
                # Its address is the operator's business, not the visitors'.
                _log.warning("the named engine: %s", why)
                message = "The engine that the operator named does not answer."
                if "token" in why:
                    message = "The engine that the operator named refuses this app's token."
                self._seen = Seen("restarting" if ever else "absent", message, before.health)
            self._stopping.wait(self._patience.poll_s if why is None else 2 * self._patience.poll_s)

    def _last_words(self, process: subprocess.Popen[str]) -> str:
        errors = [line for line in self._said if line.startswith("error: ")]
        if errors:
            return errors[-1].removeprefix("error: ")
        return f"exit code {process.returncode}"

    def _end_process(self) -> None:
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()  # it hangs, or it is stopped: nothing gentler reaches it
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError, ValueError):
                    stream.close()


def _read(stream: Any, take: Callable[[str], None]) -> None:
    with suppress(OSError, ValueError):
        for line in stream:
            take(line)


def _since(moment: float | None) -> float:
    return 0.0 if moment is None else monotonic() - moment


def _lacking() -> str | None:
    """What an engine needs and this machine has not; None if it has all."""
    state = status.engine_state()
    if state.torch_version is None:
        return "No engine here: torch is not installed. Recorded and simulated runs play."
    if not state.model_fetched:
        return (
            "No engine here: the model is not fetched (python -m core models fetch). "
            "Recorded and simulated runs play."
        )
    return None


def _make() -> EngineSupervisor | None:
    """As the environment says; None where no engine is wanted."""
    named = named_by_operator()
    if named is not None:
        return EngineSupervisor([], url=named[0], token=named[1])
    if status.engine_is_off():
        return None
    command = [sys.executable, "-m", "core", "serve", "--port", "0", "--until-stdin-closes"]
    command += ["--nice", "5"]  # visitors' clicks go before tokens
    command += shlex.split(os.environ.get("KV_SCOPE_ENGINE_ARGS", ""))
    return EngineSupervisor(command, can_start=_lacking)


_lock = threading.Lock()
_supervisor: EngineSupervisor | None = None
_made = False


def start() -> None:
    """Make and start this process's supervisor, once."""
    global _made, _supervisor
    with _lock:
        if _made:
            return
        _made = True
        _supervisor = _make()
        if _supervisor is not None:
            _supervisor.start()


def stop() -> None:
    """End it, with its engine."""
    with _lock:
        if _supervisor is not None:
            _supervisor.stop()


def client() -> EngineClient | None:
    """The engine, if it can be asked now."""
    return _supervisor.client() if _supervisor is not None else None


def seen() -> Seen:
    """What was last known of the engine."""
    if _supervisor is None:
        return Seen("absent", "No engine here. Recorded and simulated runs play.")
    return _supervisor.seen
