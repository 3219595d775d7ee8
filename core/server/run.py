"""Listening: the socket, the line that says where, and the end."""

from __future__ import annotations

import json
import secrets
import signal
import socket
import sys
from contextlib import suppress
from time import monotonic
from types import FrameType

import uvicorn

from core.errors import KVScopeError
from core.server.app import make_app
from core.server.host import EngineHost
from core.server.limits import Limits
from core.server.settings import ServeSettings

SEND_BUFFER_BYTES = 128 * 1024
FAILED = 3
"""Exit code when the engine could not start, or could not go on."""


def serve(settings: ServeSettings, limits: Limits, host: str, port: int, token: str | None) -> int:
    """Serve until told to stop. Returns the exit code. Raises KVScopeError if nothing listens.

    The first line on standard output: {"url": …}, with the token if it was made up here.
    """
    listener = listen(host, port, limits)
    made_up = token is None
    token = token or secrets.token_urlsafe(24)
    failed: list[bool] = []

    def on_fatal() -> None:
        failed.append(True)
        server.should_exit = True

    engine = EngineHost(settings, limits, on_fatal)
    config = uvicorn.Config(
        make_app(engine, token),
        log_level="warning",
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=2,
        timeout_keep_alive=30,
        server_header=False,
    )
    server = DrainingServer(config, engine)
    name, bound = listener.getsockname()[:2]
    where = {"url": f"http://{f'[{name}]' if ':' in name else name}:{bound}"}
    print(json.dumps({**where, "token": token} if made_up else where), flush=True)
    server.run(sockets=[listener])
    if failed:
        print(f"error: {engine.problem}", file=sys.stderr, flush=True)
        return FAILED
    return 0


class DrainingServer(uvicorn.Server):
    """SIGTERM: take nothing new, finish what is here within `drain_s`, then end with exit code 0.

    A second SIGTERM, and SIGINT, end it at once.
    """

    def __init__(self, config: uvicorn.Config, engine: EngineHost) -> None:
        super().__init__(config)
        self._engine = engine
        self._until: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM and self._until is None:
            self._until = monotonic() + self._engine.limits.drain_s
            self._engine.drain()
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if self._until is not None and not self.should_exit:
            late = monotonic() > self._until
            if late:
                allowed_s = self._engine.limits.drain_s
                self._engine.give_up(f"the server is stopping; {allowed_s:g} s were not enough")
            self.should_exit = late or self._engine.idle
        return await super().on_tick(counter)


def listen(host: str, port: int, limits: Limits) -> socket.socket:
    """A listening socket whose connections notice when the other side has silently gone.

    Raises KVScopeError if the address or the port cannot be had.
    """
    if not 0 <= port <= 65535:
        raise KVScopeError(f"--port {port} is none: 0 … 65535")
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, proto)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as exc:
        raise KVScopeError(
            f"cannot listen on {host}, port {port}: {exc.strerror or exc}; "
            "--port 0 takes one that is free"
        ) from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Accepted connections inherit these. What a reader does not take may fill no more than this.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    # Linux ends a connection whose sent bytes nobody takes:
    # a cut network, or a reader that has stopped reading.
    with suppress(OSError, AttributeError):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * limits.send_s))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    listener.listen(128)
    listener.set_inheritable(True)
    return listener
