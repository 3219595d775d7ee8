"""The HTTP answer to a completion: one JSON object, or server-sent events.

It ends when the client hangs up, and what it waits for in the engine ends with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Protocol

from starlette.responses import JSONResponse, Response

from core.errors import KVScopeError
from core.server.http import NO_STORE, disconnected
from core.server.limits import Busy, Limits
from core.server.openai.errors import ApiError
from core.server.openai.generation import Generation, submission_error

Json = dict[str, Any]

_log = logging.getLogger("kv_scope.engine")


class Writer(Protocol):
    """An interface's words for what comes."""

    def take(self, prompt: int, kind: str, value: Any) -> list[Json]:
        """Note an event of `Generation.events`; the chunks that a stream gets for it."""
        ...

    def whole(self) -> Json:
        """The answer, once everything has come."""
        ...

    def usage_chunk(self) -> Json | None:
        """The last chunk of a stream, if it was asked for."""
        ...


class Answer(Response):
    """generation: what is asked of the engine. writer: how it is told. stream: as it comes."""

    def __init__(
        self, generation: Generation, writer: Writer, limits: Limits, *, stream: bool
    ) -> None:
        super().__init__()
        self._generation, self._writer, self._limits = generation, writer, limits
        self._stream = stream
        self._begun = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        reader = asyncio.ensure_future(disconnected(receive))
        worker = asyncio.ensure_future(self._work(scope, receive, send))
        try:
            await asyncio.wait({reader, worker}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reader.cancel()
            worker.cancel()
            await asyncio.gather(reader, worker, return_exceptions=True)
        if not worker.cancelled() and worker.exception() is not None:
            _log.info("a client was given up: %s", worker.exception())

    async def _work(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            async with self._generation:
                if self._stream:
                    await self._send_events(send)
                    return
                async for event in self._generation.events(self._limits.keepalive_s):
                    if event is not None:
                        self._writer.take(*event)
            answer: Response = JSONResponse(self._writer.whole(), headers=NO_STORE)
        except Exception as exc:
            if self._begun:
                raise
            answer = _refusal(exc)
        await answer(scope, receive, send)

    async def _send_events(self, send: Any) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),  # a proxy that would collect them first
        ]
        self._begun = True
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            async for event in self._generation.events(self._limits.keepalive_s):
                if event is None:
                    await self._put(send, b": alive\n\n")
                    continue
                chunks = self._writer.take(*event)
                if chunks:
                    await self._put(send, b"".join(map(_data, chunks)))
            last = self._writer.usage_chunk()
            if last is not None:
                await self._put(send, _data(last))
            await self._put(send, b"data: [DONE]\n\n")
        except (ApiError, Busy, KVScopeError) as exc:
            await self._put(send, _data(_error(exc).to_dict()))
        await self._put(send, b"", more=False)

    async def _put(self, send: Any, body: bytes, *, more: bool = True) -> None:
        """Raises TimeoutError if the client takes nothing for `send_s`."""
        message = {"type": "http.response.body", "body": body, "more_body": more}
        await asyncio.wait_for(send(message), self._limits.send_s)


def _data(chunk: Json) -> bytes:
    text = json.dumps(chunk, separators=(",", ":"), ensure_ascii=False)
    return b"data: " + text.encode("utf-8", "backslashreplace") + b"\n\n"


def _error(exc: Exception) -> ApiError:
    if isinstance(exc, ApiError):
        return exc
    if isinstance(exc, Busy):
        return ApiError(exc.status, str(exc))
    if isinstance(exc, KVScopeError):
        return submission_error(exc)
    _log.error("an answer failed", exc_info=exc)
    return ApiError(500, f"the answer failed: {type(exc).__name__}")


def _refusal(exc: Exception) -> Response:
    return _error(exc).response(exc.retry_after_s if isinstance(exc, Busy) else None)
