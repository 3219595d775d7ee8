"""A run as it happens, one JSON object a line.

The lines are the run's header, then its steps, then {"end": reason, …}: the first two as a run file
has them. A reader that asks for `events=all` also gets {"queue": …}, {"text": …} and, while nothing
happens, {"alive": …}, which tells a silent engine from a dead connection.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response

from core.model.tokenizer import Tokenizer
from core.server.limits import Limits
from core.server.outbox import Outbox
from core.server.view import StepView

_log = logging.getLogger("kv_scope.engine")


class RunResponse(Response):
    """Streams one reader's outbox. A reader that takes nothing for `send_s` is given up."""

    media_type = "application/x-ndjson"

    def __init__(
        self,
        outbox: Outbox,
        tokenizer: Tokenizer,
        vocab_size: int,
        limits: Limits,
        *,
        everything: bool,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._outbox, self._limits = outbox, limits
        self._tokenizer, self._vocab_size = tokenizer, vocab_size
        self._everything = everything

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        reader = asyncio.ensure_future(_disconnected(receive))
        writer = asyncio.ensure_future(self._write(send))
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._outbox.close()
            reader.cancel()
            writer.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)
        if writer.done() and not writer.cancelled() and writer.exception() is not None:
            _log.info("a reader was given up: %s", writer.exception())

    async def _write(self, send: Any) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async for line in self._lines():
            body = json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n"
            message = {
                "type": "http.response.body",
                "body": body.encode("utf-8", "backslashreplace"),
                "more_body": True,
            }
            await asyncio.wait_for(send(message), self._limits.send_s)
        await asyncio.wait_for(
            send({"type": "http.response.body", "body": b"", "more_body": False}),
            self._limits.send_s,
        )

    async def _lines(self) -> AsyncIterator[Any]:
        view: StepView | None = None
        while True:
            item = await self._outbox.get(self._limits.keepalive_s)
            if item is None:
                if self._everything:
                    yield {"alive": True}
                continue
            kind, value = item
            if kind == "header":
                view = StepView(
                    self._tokenizer, value["own"], value["first_step"], self._vocab_size
                )
                yield view.header(value["raw"])
            elif kind == "step":
                assert view is not None, "the header comes first"
                for line in view.step(value):
                    if self._everything or "text" not in line:
                        yield line
            elif kind == "end":
                if view is not None and "results" in value:
                    value = {**value, "results": view.results(value["results"])}
                yield value
                return
            elif self._everything:
                yield {kind: value}


async def _disconnected(receive: Any) -> None:
    """Return when the reader has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
