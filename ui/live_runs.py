"""Runs on the engine that browsers follow: kept while they go on, and for a while after.

A thread for each run reads what the engine sends, at the engine's pace, and keeps it as events; a
browser reads them at its own. So a browser that is slow, or away for a moment, holds up nobody, and
finds everything again by the number of the last event that it has.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

from core.client import EngineRefusedError, RunStream

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Keep:
    """Counts, bytes and seconds. away_s: how long a run goes on without anybody following it."""

    max_running: int = 64
    max_running_each: int = 4
    max_ended: int = 64
    max_ended_bytes: int = 96 * 1024 * 1024
    max_run_bytes: int = 32 * 1024 * 1024
    max_followers: int = 512
    away_s: float = 30.0


class LiveRun:
    """One run and its events. owner: the browser that asked for it, and alone may follow it."""

    def __init__(self, name: str, owner: str, stream: RunStream, max_bytes: int) -> None:
        self.id, self.owner = name, owner
        self._stream, self._max_bytes = stream, max_bytes
        self._lock = threading.Lock()
        self._events: list[bytes] = []
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._followers = 0
        self._left_at = monotonic()
        self.num_bytes = 0
        self.ended = False

    # ---- the run's thread -----------------------------------------------------------------------

    def pump(self, at_end: Callable[[LiveRun], None]) -> None:
        """Take in all that the engine sends, to the end."""
        reason, message, more = "error", "the run broke off in this server", {}
        try:
            with self._stream:
                for kind, value in self._stream:
                    if kind == "end":
                        more = {k: v for k, v in value.items() if k not in ("end", "message")}
                        reason, message = value["end"], value.get("message", "")
                        break
                    self._append(kind, value)
                    if self.num_bytes > self._max_bytes:
                        reason = "error"
                        message = f"the run is longer than the {self._max_bytes:,} bytes kept of it"
                        break
        finally:
            self._append("end", {"reason": reason, "message": message, **more}, last=True)
            at_end(self)

    def _append(self, kind: str, value: Json, *, last: bool = False) -> None:
        data = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        with self._lock:
            number = len(self._events)
            event = f"id: {number}\nevent: {kind}\ndata: {data}\n\n"
            self._events.append(event.encode("utf-8", "backslashreplace"))
            self.num_bytes += len(self._events[-1])
            self.ended = self.ended or last
            for loop, ready in self._waiting:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(ready.set)

    # ---- who follows it -------------------------------------------------------------------------

    def cancel(self) -> None:
        """End it; its followers are told. Nothing if it has ended."""
        self._stream.close()

    def follow(self) -> None:
        with self._lock:
            self._followers += 1

    def leave(self) -> None:
        with self._lock:
            self._followers -= 1
            self._left_at = monotonic()

    def alone_s(self) -> float:
        """For how long nobody has followed it."""
        return 0.0 if self._followers else monotonic() - self._left_at

    def events_after(self, number: int, most_bytes: int = 256 * 1024) -> tuple[bytes, int]:
        """The events after one number, as many as a piece takes, and the number of the last."""
        out: list[bytes] = []
        size = 0
        with self._lock:
            for event in self._events[number + 1 :]:
                out.append(event)
                size += len(event)
                if size >= most_bytes:
                    break
        return b"".join(out), number + len(out)

    async def more(self, number: int, timeout_s: float) -> bool:
        """Wait for an event after that number; False if none came in time."""
        ready = asyncio.Event()
        here = (asyncio.get_running_loop(), ready)
        with self._lock:
            if len(self._events) > number + 1:
                return True
            self._waiting.add(here)
        try:
            await asyncio.wait_for(ready.wait(), timeout_s)
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiting.discard(here)
        return True

    def is_last(self, number: int) -> bool:
        """That event is the end."""
        with self._lock:
            return self.ended and number >= len(self._events) - 1


class LiveRuns:
    """All runs of this process."""

    def __init__(self, keep: Keep | None = None) -> None:
        self.keep = keep or Keep()
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, LiveRun] = OrderedDict()
        self._coming: list[str] = []  # owners of runs that the engine has not taken yet
        self._followers = 0

    def submit(self, owner: str, ask: Callable[[], RunStream]) -> LiveRun:
        """Ask the engine and keep what it sends. Raises what `ask` raises, and EngineRefusedError
        with 429 when too much runs already."""
        with self._lock:
            running = [r.owner for r in self._runs.values() if not r.ended] + self._coming
            if len(running) >= self.keep.max_running:
                raise EngineRefusedError(429, f"{len(running)} runs are going on here", 5)
            if running.count(owner) >= self.keep.max_running_each:
                raise EngineRefusedError(
                    429, f"{running.count(owner)} runs of this browser are going on", 2
                )
            self._coming.append(owner)
        try:
            run = LiveRun(secrets.token_urlsafe(12), owner, ask(), self.keep.max_run_bytes)
            with self._lock:
                self._runs[run.id] = run
        finally:
            with self._lock:
                self._coming.remove(owner)
        threading.Thread(
            target=run.pump, args=(self._ended,), name=f"run-{run.id}", daemon=True
        ).start()
        return run

    def get(self, name: str, owner: str) -> LiveRun | None:
        """A browser's own run; None for any other."""
        run = self._runs.get(name)
        return run if run is not None and run.owner == owner else None

    def follow(self, run: LiveRun) -> None:
        """One follower more. Raises EngineRefusedError with 429 when there are too many."""
        with self._lock:
            if self._followers >= self.keep.max_followers:
                raise EngineRefusedError(429, f"{self._followers} are following runs here", 5)
            self._followers += 1
        run.follow()

    def leave(self, run: LiveRun) -> None:
        with self._lock:
            self._followers -= 1
        run.leave()

    def cancel_abandoned(self) -> None:
        """End the runs that nobody has followed for a while."""
        for run in list(self._runs.values()):
            if not run.ended and run.alone_s() > self.keep.away_s:
                run.cancel()

    def cancel_all(self) -> None:
        """The app ends."""
        for run in list(self._runs.values()):
            run.cancel()

    def _ended(self, run: LiveRun) -> None:
        """Keep the newest ended runs, within the limits; the one that has just ended stays."""
        with self._lock:
            if run.id in self._runs:
                self._runs.move_to_end(run.id)
            ended = [r for r in self._runs.values() if r.ended]
            size = sum(r.num_bytes for r in ended)
            while len(ended) > 1 and (
                len(ended) > self.keep.max_ended or size > self.keep.max_ended_bytes
            ):
                oldest = ended.pop(0)
                size -= oldest.num_bytes
                del self._runs[oldest.id]
