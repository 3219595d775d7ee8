"""Between the engine's thread and one reader.

The engine puts and never waits. A reader that is too far behind is given up: what it has not read
is dropped, and the last thing that it gets is why.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

Item = tuple[str, Any]
"""("header" | "step" | "queue" | "end", value)."""


class Outbox:
    """Items for one reader, at most `limit` of them unread; the last is ("end", …).

    put, end: from any thread. get: from the reader's event loop. on_close: called once, when the
    reader has gone or is given up before the end.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: deque[Item] = deque()
        self._lock = threading.Lock()
        self._ended = False
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready: asyncio.Event | None = None
        self.on_close: Callable[[], None] = lambda: None

    @property
    def closed(self) -> bool:
        """Nobody reads any more: what is put is dropped."""
        return self._closed

    @property
    def ended(self) -> bool:
        return self._ended

    def put(self, kind: str, value: Any) -> None:
        """One item more; dropped after the end. The first one too many is the reader's end."""
        given_up = False
        with self._lock:
            if self._ended or self._closed:
                return
            if kind == "queue":  # only the newest place is of interest
                self._items = deque(item for item in self._items if item[0] != "queue")
            if len(self._items) >= self._limit:
                behind = len(self._items)
                self._items.clear()
                self._finish(
                    "timeout", f"given up: the reader was {behind:,} steps behind the engine"
                )
                given_up = self._closed = True
            else:
                self._items.append((kind, value))
        self._wake()
        if given_up:
            self.on_close()

    def end(self, reason: str, message: str = "", **more: Any) -> None:
        """The last item; only the first call counts."""
        with self._lock:
            if self._ended:
                return
            self._finish(reason, message, more)
        self._wake()

    def _finish(self, reason: str, message: str, more: dict[str, Any] | None = None) -> None:
        self._ended = True
        self._items.append(("end", {"end": reason, "message": message, **(more or {})}))

    def close(self) -> None:
        """The reader has gone."""
        with self._lock:
            gone = self._closed or self._ended
            self._closed = True
            self._items.clear()
        if not gone:
            self.on_close()

    async def get(self, timeout_s: float) -> Item | None:
        """The next item; None if none comes in time."""
        if self._ready is None:
            self._ready, self._loop = asyncio.Event(), asyncio.get_running_loop()
        ready = self._ready
        while True:
            with self._lock:
                if self._items:
                    return self._items.popleft()
                ready.clear()
            try:
                await asyncio.wait_for(ready.wait(), timeout_s)
            except TimeoutError:
                return None

    def _wake(self) -> None:
        loop, ready = self._loop, self._ready
        if loop is not None and ready is not None and not loop.is_closed():
            loop.call_soon_threadsafe(ready.set)
