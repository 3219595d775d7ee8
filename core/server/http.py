"""What all routes need: a body within limits, an engine that can serve, a reader that is there."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request

from core.errors import InputFileError, KVScopeError
from core.model.model_runner import ModelRunner
from core.server.host import EngineHost
from core.server.limits import Busy, Limits

NO_STORE = {"Cache-Control": "no-store"}


class TooLargeError(KVScopeError):
    """A body is larger than the limit."""


def ready_runner(host: EngineHost) -> ModelRunner:
    """The runner. Raises Busy while the engine cannot take anything."""
    state = host.state()
    if state in ("ready", "busy") and host.runner is not None:
        return host.runner
    raise Busy(f"the engine is {state}", 2 if state == "starting" else 10, 503)


async def read_body(request: Request, limits: Limits) -> bytes:
    """The body, within limits of size and time. Raises TooLargeError, InputFileError."""

    async def read() -> bytes:
        out = bytearray()
        async for part in request.stream():
            out += part
            if len(out) > limits.max_body_bytes:
                raise TooLargeError(f"the body is larger than {limits.max_body_bytes:,} bytes")
        return bytes(out)

    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limits.max_body_bytes:
        raise TooLargeError(
            f"the body has {int(length):,} bytes; the limit is {limits.max_body_bytes:,}"
        )
    try:
        return await asyncio.wait_for(read(), limits.body_s)
    except TimeoutError:
        raise InputFileError(f"the body did not come within {limits.body_s:g} s") from None


async def disconnected(receive: Any) -> None:
    """Return when the reader has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
