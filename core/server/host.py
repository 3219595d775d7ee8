"""The one thread that owns the model, and decides who gets the device.

    live requests ─▶ LiveEngine ─┐
                                 ├─▶ runner (weights loaded once)
    scenarios ─▶ JobQueue ───────┘   one at a time; the live engine stands still meanwhile

After a scenario the live engine, if anybody waits there, has the device for as long as the scenario
had it, 5 s at most: neither can starve the other.
"""

from __future__ import annotations

import dataclasses
import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any

from core.engine import Engine
from core.errors import KVScopeError
from core.model.memory import device_memory
from core.model.model_runner import ModelRunner
from core.scenario import RequestSpec, Scenario
from core.server.fair import FairQueue
from core.server.jobs import Job, JobQueue, run_job
from core.server.limits import Busy, Limits
from core.server.live import LiveEngine
from core.server.load import OtherWork, machine_load
from core.server.metrics import LiveMetrics
from core.server.outbox import Outbox
from core.server.settings import ServeSettings

Json = dict[str, Any]
MAX_LIVE_TURN_S = 5.0
SPARE_PLACES = 4

_log = logging.getLogger("kv_scope.engine")


class EngineHost:
    """settings: what is loaded and how. `start` returns at once; weights are loaded behind it.

    on_fatal: called from the engine's thread when it cannot go on.
    """

    def __init__(self, settings: ServeSettings, limits: Limits, on_fatal: Callable[[], None]):
        self.settings, self.limits = settings, limits
        self._on_fatal = on_fatal
        self.queue = JobQueue(limits.max_queued)
        # A few more than can run, so that the engine never waits for one to be let in.
        self.turns = FairQueue(
            settings.scenario.engine.max_num_seqs + SPARE_PLACES, limits.max_waiting
        )
        self.metrics: LiveMetrics | None = None
        self._commands: deque[Callable[[], None]] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._draining = False
        self._live: LiveEngine | None = None
        self._job: Job | None = None
        self._num_coming = 0  # live requests that the engine has not looked at
        self._busy_since: float | None = None  # a step, or the loading, that has not ended
        self._other = OtherWork()
        self.life = secrets.token_hex(4)  # tells a restarted engine from the one before
        self.runner: ModelRunner | None = None
        self.problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    # ---- from any thread ----------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End after the present step; whoever still waits is told."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        self._thread.join(timeout_s)

    def drain(self) -> None:
        """Take nothing new; what is here goes on (see `idle`)."""
        self._draining = True

    @property
    def idle(self) -> bool:
        """Nothing that was asked of this process is still to be done."""
        live = self._live
        num_live = self._num_coming + (0 if live is None else live.num_readers)
        return not (num_live or len(self.queue) or self._job) and self.turns.idle

    def submit_live(self, spec: RequestSpec, outbox: Outbox) -> Future[str]:
        """A request for the live engine. Raises Busy; the future: ScenarioError, RequestError."""
        with self._wake:
            here = self._num_coming + (self._live.num_run_readers if self._live else 0)
            if here >= self.limits.max_live:
                raise Busy(f"{here} live requests are here; ask again in 2 s", 2)
            self._num_coming += 1
        done = self._submit(lambda live: live.submit(spec, outbox), outbox)
        done.add_done_callback(self._came)
        return done

    def _came(self, done: Future[str]) -> None:
        with self._wake:
            self._num_coming -= 1

    def submit_tokens(self, spec: RequestSpec, outbox: Outbox, asked_at: float) -> Future[str]:
        """The same for a reader of tokens alone, which has its turn (see `turns`)."""
        return self._submit(lambda live: live.submit_tokens(spec, outbox, asked_at), outbox)

    def _submit(self, submit: Callable[[LiveEngine], str], outbox: Outbox) -> Future[str]:
        done: Future[str] = Future()

        def command() -> None:
            if not done.set_running_or_notify_cancel():
                return  # whoever asked has gone meanwhile
            try:
                if self._live is None:
                    raise KVScopeError(f"the engine failed: {self.problem}")
                name = submit(self._live)
            except Exception as exc:
                done.set_exception(exc)
                return
            outbox.on_close = lambda: self.cancel_live(name)
            done.set_result(name)

        self._command(command)
        return done

    def cancel_live(self, name: str) -> None:
        """End a live request in the next step; nothing if it has ended."""
        self._command(lambda: self._live.cancel(name) if self._live is not None else None)

    def submit_scenario(self, scenario: Scenario, outbox: Outbox) -> None:
        """A scenario for the queue. Raises Busy."""
        job = Job(scenario, outbox)
        outbox.on_close = lambda: self.queue.remove(job)
        self.queue.push(job)
        with self._wake:
            self._wake.notify_all()

    def stalled_s(self) -> float:
        """How long the present step has been going on; 0 between steps."""
        since = self._busy_since
        return 0.0 if since is None or self.runner is None else monotonic() - since

    def give_up(self, message: str) -> None:
        """The engine's thread hangs: tell all that wait for it. It may be anywhere, so from here
        nothing of the engine is touched but its readers' boxes. From the event loop."""
        live, job = self._live, self._job
        if live is not None:
            live.end_all("timeout", message)
        if job is not None:
            job.outbox.end("timeout", message)
        for waiting in self.queue.drain():
            waiting.outbox.end("timeout", message)
        self.turns.refuse(message)

    def state(self) -> str:
        """starting, ready, busy (a scenario has the device), draining, stalled or failed."""
        if self.problem is not None:
            return "failed"
        if self._live is None:
            return "starting"
        if self.stalled_s() > self.limits.stall_s:
            return "stalled"
        if self._draining:
            return "draining"
        return "ready" if self._job is None else "busy"

    def status(self) -> Json:
        """What `/health` says."""
        live, share = self._live, self._other.share()
        return {
            "status": self.state(),
            "message": self.problem or "",
            "life": self.life,
            "source": self.runner.source if self.runner is not None else None,
            "live": live.counts() if live is not None else {"running": 0, "waiting": 0},
            "queue": len(self.queue),
            "scenario_running": self._job is not None,
            "usage": live.usage() if live is not None else None,
            "steps": live.num_steps if live is not None else 0,
            "engine": dataclasses.asdict(self.settings.scenario.engine),
            "load": {
                **machine_load(),
                "other_work": None if share is None else round(share, 3),
            },
        }

    # ---- the engine's thread ------------------------------------------------------------------

    def _command(self, run: Callable[[], None]) -> None:
        with self._wake:
            self._commands.append(run)
            self._wake.notify_all()

    def _run(self) -> None:
        try:
            self._load()
            self._serve()
            self._end_all("engine_lost", "the engine was stopped")
        except BaseException as exc:
            word = str(exc) if isinstance(exc, KVScopeError) else f"{type(exc).__name__}: {exc}"
            self.problem = word or type(exc).__name__
            if not isinstance(exc, KVScopeError):
                _log.exception("the engine failed")
            self._end_all("engine_lost", f"the engine failed: {self.problem}")
            self._on_fatal()

    def _load(self) -> None:
        settings = self.settings
        self._busy_since = monotonic()
        runner = settings.load()
        _warm_up(runner, settings.scenario)
        runner.capture_graphs()
        metrics = LiveMetrics(
            runner.source["model"], settings.scenario.engine, lambda: self.turns.num_waiting
        )
        if runner.device.type == "cuda":
            metrics.add_device_memory(device_memory)
        self._live = LiveEngine(runner, settings.scenario, metrics, debug=settings.debug)
        self.metrics = metrics
        self._busy_since = None
        self.runner = runner

    def _serve(self) -> None:
        live = self._live
        assert live is not None and self.runner is not None
        live_turn_until = 0.0
        while True:
            with self._wake:
                while not (self._stopping or self._commands or len(self.queue) or not live.idle):
                    self._wake.wait()
            if not self._between_steps():
                return
            if len(self.queue) and (live.idle or monotonic() >= live_turn_until):
                took_s = self._run_next(live, self.runner)
                live_turn_until = monotonic() + min(took_s, MAX_LIVE_TURN_S)
            elif not live.idle:
                self._step(live)

    def _step(self, live: LiveEngine) -> None:
        self._busy_since = monotonic()
        failed = ""
        try:
            live.step()
        except Exception as exc:
            _log.exception("a live step failed")
            failed = f"a step failed: {type(exc).__name__}: {exc}"
        try:
            if failed:  # behind the exception, whose traceback holds the old pool
                live.start_again(failed)
        finally:
            self._busy_since = None

    def _run_next(self, live: LiveEngine, runner: ModelRunner) -> float:
        """The next scenario, if its reader is still there; how many seconds it took."""
        job = self.queue.pop()
        if job is None:
            return 0.0
        self._job = job
        started = self._busy_since = monotonic()
        try:
            run_job(
                runner,
                job,
                self.limits.max_scenario_s,
                self._between_steps,
                debug=self.settings.debug,
            )
        except KVScopeError:
            pass  # its reader has been told: the pool does not fit, a token is none
        except Exception:
            _log.exception("a scenario failed")
        finally:
            self._job = self._busy_since = None
        took_s = monotonic() - started
        self.queue.took(took_s)
        if not live.idle:
            live.was_away(took_s)
        return took_s

    def _between_steps(self) -> bool:
        """Do what was asked for meanwhile. False: the engine is to stop."""
        while True:
            with self._wake:
                if not self._commands:
                    break
                command = self._commands.popleft()
            command()
        if self._busy_since is not None:
            self._busy_since = monotonic()
        return not self._stopping

    def _end_all(self, reason: str, message: str) -> None:
        while self._commands:  # those who have just submitted get their answer from it
            self._commands.popleft()()
        if self._live is not None:
            self._live.end_all(reason, message)
        for job in self.queue.drain():
            job.outbox.end(reason, message)


def _warm_up(runner: ModelRunner, settings: Scenario) -> None:
    """Two steps for nothing: first-use costs must not stand in the first request's timing."""
    config = dataclasses.replace(
        settings.engine,
        prefix_cache="off",
        max_model_len=8,
        max_num_batched_tokens=max(8, settings.engine.max_num_batched_tokens),
    )
    request = RequestSpec(id="warm-up", prompt_tokens=(0,), max_tokens=2, ignore_eos=True)
    Engine(Scenario(engine=config, requests=(request,)), runner, trace=False).finish()
    # Nothing of it may stay in the pool: the first request decides the scales of "first_step".
    runner.bind(**settings.engine.kv_pool, seed=settings.seed)
