"""What pages use to talk to an engine process. No torch, no web framework.

    with EngineClient(url, token).live({"prompt": "Once", "max_tokens": 8}) as stream:
        for kind, value in stream:
            …                       # header, step, text, queue, and always one end

A recorded run gives the same messages: `core.trace.streamed.play`.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from core import jsonio
from core.errors import InputFileError, KVScopeError
from core.trace.streamed import Message

Json = dict[str, Any]
MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_ANSWER_BYTES = 4 * 1024 * 1024

REASONS = ("finished", "cancelled", "rejected", "engine_lost", "timeout", "error")
"""Why a run ends."""


class EngineUnreachableError(KVScopeError):
    """Nobody answers, or what answers is no engine."""


class EngineRefusedError(KVScopeError):
    """The engine said no. status: of HTTP. retry_after_s: when to ask again, where it says so."""

    def __init__(self, status: int, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


class EngineClient:
    """One engine process. Every call opens a connection of its own; use it from any thread.

    connect_s: until the connection stands. answer_s: until the answer begins. silence_s: the
    longest silence within a run; the engine says that it is alive every 5 s.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        connect_s: float = 3.0,
        answer_s: float = 35.0,
        silence_s: float = 15.0,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise EngineUnreachableError(f"{url[:80]!r} is not an address: http://host:port")
        self.url = url.rstrip("/")
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port or (443 if self._secure else 80)
        self._path = parts.path.rstrip("/")
        self._token = token
        self.connect_s, self.answer_s, self.silence_s = connect_s, answer_s, silence_s

    def health(self, timeout_s: float | None = None) -> Json:
        """The engine's state, also where that is a bad one. Raises EngineUnreachableError,
        EngineRefusedError (a wrong token)."""
        return self._get("/health", timeout_s or self.answer_s, accept=(200, 503))

    def models(self) -> list[Json]:
        """The model that is loaded, in a list; empty until it is. Raises as `health`."""
        models: list[Json] = self._get("/models", self.answer_s)["models"]
        return models

    def live(self, body: Json) -> RunStream:
        """Submit to the shared engine (see `core.server.body`). Raises as `health`."""
        return self._post("/live?events=all", body)

    def scenario(self, scenario: Json) -> RunStream:
        """Run a scenario on its own; it may have to wait. Raises as `health`."""
        return self._post("/scenario?events=all", scenario)

    def _get(self, path: str, timeout_s: float, accept: tuple[int, ...] = (200,)) -> Json:
        connection, answer = self._ask("GET", path, None, timeout_s)
        try:
            data = answer.read(MAX_ANSWER_BYTES + 1)
            content = jsonio.loads(data)
        except (OSError, http.client.HTTPException, InputFileError) as exc:
            raise EngineUnreachableError(f"{self.url} gave no answer: {exc}") from None
        finally:
            connection.close()
        if answer.status not in accept or not isinstance(content, dict):
            raise _refusal(answer, data)
        return content

    def _post(self, path: str, body: Json) -> RunStream:
        connection, answer = self._ask("POST", path, body, self.answer_s)
        if answer.status != 200:
            try:
                data = answer.read(MAX_ANSWER_BYTES)
            except (OSError, http.client.HTTPException):
                data = b""
            finally:
                connection.close()
            raise _refusal(answer, data)
        return RunStream(connection, answer, self.silence_s)

    def _ask(
        self, method: str, path: str, body: Json | None, timeout_s: float
    ) -> tuple[_Connection, http.client.HTTPResponse]:
        connection = _Connection(self._host, self._port, self._secure, self.connect_s)
        headers = {"Accept": "application/json", "Connection": "close"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            answer = connection.ask(method, self._path + path, data, headers, timeout_s)
        except (OSError, http.client.HTTPException) as exc:
            connection.close()
            word = "did not answer in time" if isinstance(exc, TimeoutError) else str(exc)
            raise EngineUnreachableError(f"the engine at {self.url}: {word}") from None
        return connection, answer


class _Connection:
    """One request and its answer. `abort` may be called from another thread."""

    def __init__(self, host: str, port: int, secure: bool, connect_s: float) -> None:
        if secure:
            context = ssl.create_default_context()
            self._http: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=connect_s, context=context
            )
        else:
            self._http = http.client.HTTPConnection(host, port, timeout=connect_s)
        self._socket: socket.socket | None = None

    def ask(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str], timeout_s: float
    ) -> http.client.HTTPResponse:
        self._http.connect()
        self._socket = self._http.sock
        self.set_timeout(timeout_s)
        self._http.request(method, path, body=data, headers=headers)
        return self._http.getresponse()

    def set_timeout(self, seconds: float) -> None:
        if self._socket is not None:
            self._socket.settimeout(seconds)

    def abort(self) -> None:
        """Whoever reads stops reading at once."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._http.close()


class RunStream(Iterator[Message]):
    """A run as it happens: messages, of which the last is always ("end", {"end": reason, …}).

    The engine ends it; or the connection does, and then the reason is ``engine_lost``; or `close`,
    from any thread, and then it is ``cancelled`` and the engine forgets the request.
    """

    def __init__(
        self, connection: _Connection, answer: http.client.HTTPResponse, silence_s: float
    ) -> None:
        self._connection, self._answer = connection, answer
        self._silence_s = silence_s
        connection.set_timeout(silence_s)
        self._closed = threading.Event()
        self._ended = False

    def __enter__(self) -> RunStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
        self._finish()

    def __iter__(self) -> RunStream:
        return self

    def __next__(self) -> Message:
        if self._ended:
            raise StopIteration
        while True:
            kind, value = self._message()
            if kind == "alive":
                continue
            if kind == "end":
                self._finish()
            return kind, value

    def close(self) -> None:
        """Cancel what has not ended. What was read is kept; the reader gets its end."""
        self._closed.set()
        self._connection.abort()

    def _finish(self) -> None:
        self._ended = True
        with suppress(OSError):
            self._answer.close()
        self._connection.close()

    def _message(self) -> Message:
        try:
            line = self._answer.readline(MAX_LINE_BYTES)
        except TimeoutError:
            return self._lost(f"the engine has been silent for {self._silence_s:g} s")
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            line = b""  # also what a socket says that was closed meanwhile
        if self._closed.is_set():
            return "end", {"end": "cancelled", "message": ""}
        if not line.endswith(b"\n"):
            return self._lost("the connection to the engine broke off")
        try:
            return _kind_of(json.loads(line))
        except (ValueError, KeyError, RecursionError):
            return self._lost("the engine sent something that is no run")

    def _lost(self, message: str) -> Message:
        return "end", {"end": "engine_lost", "message": message}


def _kind_of(line: Any) -> Message:
    """Which kind of message a line is. Raises KeyError for none."""
    if "end" in line:
        reason = line["end"] if line["end"] in REASONS else "error"
        return "end", {**line, "end": reason}
    for kind in ("text", "queue"):
        if kind in line:
            return kind, line[kind]
    if "alive" in line:
        return "alive", line
    if "scheduled" in line:
        return "step", line
    if "scenario" in line:
        return "header", line
    raise KeyError("kind")


def _refusal(answer: http.client.HTTPResponse, data: bytes) -> KVScopeError:
    try:
        message = str(jsonio.loads(data)["error"])[:500]
    except (InputFileError, KeyError, TypeError):
        return EngineUnreachableError(f"what answers is no engine (HTTP {answer.status})")
    after = answer.headers.get("Retry-After", "")
    return EngineRefusedError(answer.status, message, int(after) if after.isdigit() else None)
