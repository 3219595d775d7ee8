"""Scenario runs: each with a pool and settings of its own, on the weights that are loaded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from core.engine import Engine
from core.model.model_runner import ModelRunner
from core.scenario import Scenario
from core.server.limits import Busy
from core.server.live import note_other_work, results_of
from core.server.load import OtherWork
from core.server.outbox import Outbox


class Job:
    """A scenario that waits or runs."""

    def __init__(self, scenario: Scenario, outbox: Outbox) -> None:
        self.scenario = scenario
        self.outbox = outbox


class JobQueue:
    """First come, first served. From any thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: list[Job] = []
        self._lock = threading.Lock()
        self._typical_s = 5.0

    def __len__(self) -> int:
        return len(self._jobs)

    def push(self, job: Job) -> None:
        """Raises Busy, with a guess at when there is room."""
        with self._lock:
            if len(self._jobs) >= self._limit:
                wait_s = min(60, max(1, round(self._typical_s)))
                raise Busy(f"{self._limit} scenarios are waiting; ask again in {wait_s} s", wait_s)
            self._jobs.append(job)
        self.tell_places()

    def pop(self) -> Job | None:
        """The next one whose reader is still there."""
        job = None
        with self._lock:
            while self._jobs and job is None:
                job = self._jobs.pop(0)
                if job.outbox.closed:
                    job = None
        self.tell_places()
        return job

    def remove(self, job: Job) -> None:
        """Its reader has gone; nothing if it does not wait."""
        with self._lock:
            if job in self._jobs:
                self._jobs.remove(job)
        self.tell_places()

    def drain(self) -> list[Job]:
        """Take all out."""
        with self._lock:
            jobs, self._jobs = self._jobs, []
        return jobs

    def took(self, seconds: float) -> None:
        """How long a scenario ran: what the next guess is made from."""
        self._typical_s = 0.7 * self._typical_s + 0.3 * seconds

    def tell_places(self) -> None:
        """Tell each waiting reader how many are before it."""
        with self._lock:
            for place, job in enumerate(self._jobs):
                job.outbox.put("queue", {"position": place + 1})


def run_job(
    runner: ModelRunner,
    job: Job,
    max_s: float,
    between_steps: Callable[[], bool],
    *,
    debug: bool = False,
) -> None:
    """Run a scenario to its end, or until its reader has gone, its time is over, or
    `between_steps` says no more.

    Every way out is an end that its reader is told. Raises what a failed step raises, after that.
    """
    config, outbox = job.scenario.engine, job.outbox
    deadline = monotonic() + max_s
    other = OtherWork()
    try:
        with runner.lent(**config.kv_pool, seed=job.scenario.seed):
            engine = Engine(job.scenario, runner, label="LIVE", debug=debug)
            outbox.put("header", {"raw": engine.header(), "own": None, "first_step": 0})
            requests = list(engine.requests)
            while not engine.done:
                if outbox.closed:
                    return
                if monotonic() > deadline:
                    outbox.end("timeout", f"given up after {max_s:g} s, with steps still to come")
                    return
                if not between_steps():
                    outbox.end("engine_lost", "the engine is shutting down")
                    return
                engine.step()
                for record in engine.take_steps():
                    note_other_work(record, other)
                    outbox.put("step", record)
        results: dict[str, Any] = {}
        for request in requests:
            results |= results_of(runner, request)
        rejected = bool(requests) and not results
        outbox.end("rejected" if rejected else "finished", results=results)
    except Exception as exc:
        outbox.end("error", f"{type(exc).__name__}: {exc}")
        raise
