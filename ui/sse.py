"""A run's events as server-sent events, at the reader's pace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from ui.live_runs import LiveRun

ALIVE_S = 5.0
"""A comment this often, so that the reader can tell a quiet run from a dead connection."""

SEND_S = 20.0
"""A reader that takes nothing for so long is left; it may come back with Last-Event-ID."""


class EventResponse(Response):
    """Sends the events after number `last`, to the end. at_close: called once, however it ends."""

    media_type = "text/event-stream"

    def __init__(self, run: LiveRun, last: int, at_close: Callable[[], None]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._run, self._last, self._at_close = run, last, at_close

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        gone = asyncio.ensure_future(_disconnected(receive))
        writing = asyncio.ensure_future(self._write(send))
        try:
            await asyncio.wait({gone, writing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._at_close()
            gone.cancel()
            writing.cancel()
            await asyncio.gather(gone, writing, return_exceptions=True)

    async def _write(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await self._send(send, b"retry: 1000\n\n")
        last = self._last
        while not self._run.is_last(last):
            if await self._run.more(last, ALIVE_S):
                data, last = self._run.events_after(last)
                await self._send(send, data)
            else:
                await self._send(send, b": alive\n\n")
        await self._send(send, b"", more=False)

    async def _send(self, send: Any, data: bytes, *, more: bool = True) -> None:
        message = {"type": "http.response.body", "body": data, "more_body": more}
        await asyncio.wait_for(send(message), SEND_S)


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
