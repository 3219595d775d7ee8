"""The engine: one step after another, until nothing is to come, waits or runs.

    engine = Engine(scenario, runner)
    while not engine.done:
        engine.step()
    run = engine.run()

The scheduler decides, the runner computes, the recorder writes down. A live engine, a recorded file
and the block sandbox all give the same `Run`. With `async_scheduling` the runner computes a step
while the next one is decided (`core.sched.ahead`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence as Listing
from itertools import takewhile
from time import perf_counter
from typing import Any

from core.config import EngineConfig
from core.errors import KVScopeError, RequestError, ScenarioError
from core.intake import make_requests
from core.kv.choose import make_kv_manager
from core.report import result_of, snapshot, unfinished_sequences
from core.request import Request, Sequence
from core.runner import Runner
from core.scenario import RequestSpec, Scenario
from core.sched.admission import reject
from core.sched.ahead import must_drain
from core.sched.scheduler import Scheduler
from core.steps import Steps, TakenIn
from core.trace.recorder import Recorder
from core.trace.reducer import Reducer
from core.trace.run import Run, make_header

MAX_STEPS = 2_000_000
"""A run that goes on for longer, counted from the last request that was added, is given up: nothing
within the limits of a scenario needs as many."""


class EngineFailedError(KVScopeError):
    """A step did not come to its end, or nobody can run although somebody waits."""


class StateMismatchError(AssertionError):
    """The events of a step do not lead to the engine's own state: an error of the engine."""


class Engine:
    """A scenario being run.

    runner: computes tokens; it has this engine's pool. trace: record events (else only results).
    debug: after every step compare `reduce(events)` with the engine's state, and check all
    bookkeeping; slow. keep_state: store the state in each step's record.
    """

    def __init__(
        self,
        scenario: Scenario,
        runner: Runner,
        *,
        trace: bool = True,
        debug: bool = False,
        keep_state: bool = False,
        label: str = "SIMULATED",
    ) -> None:
        self._settings = dataclasses.replace(scenario, requests=())
        self.config: EngineConfig = scenario.engine
        self.runner = runner
        self.recorder = Recorder() if trace else None
        emit = self.recorder.emit if self.recorder else None
        self.kv = make_kv_manager(self.config, emit, runner.sliding_window)
        self.scheduler = Scheduler(self.config, self.kv, emit)
        self.requests: list[Request] = []
        self.num_steps = 0
        self._ids: set[str] = set()
        self._num_requests = 0
        self._failed: str | None = None
        self._label = label
        self._keep_state = keep_state
        self._idle_steps = 0
        self._to_arrive: list[Request] = []  # the next one last
        self._to_cancel: dict[int, list[Request]] = {}
        self._steps = Steps(self.scheduler, runner)
        # Of the pool that is there now: another one may be lent when a header is asked for.
        self._source, self._kv_format = runner.source, runner.kv_format
        self._kv_bytes = (runner.kv_bytes_per_token, runner.kv_cache_bytes)
        self._shadow = Reducer(self._header()) if trace and debug else None
        self._expect(make_requests(scenario.requests, 0, self.config, runner))

    @property
    def scenario(self) -> Scenario:
        """What the engine has been given so far."""
        specs = tuple(request.spec for request in self.requests)
        return dataclasses.replace(self._settings, requests=specs)

    def add(self, specs: Listing[RequestSpec]) -> list[Request]:
        """More requests for an engine that lives on; all of them are taken, or none.

        None may arrive before the next step. The run then covers all of the engine's life: its
        scenario grows by these requests. Raises ScenarioError, and RequestError at once for what
        would be rejected on arrival.
        """
        # Limits on steps are for waiting, not for how long the engine has lived: counted from now.
        now = self.num_steps
        new = dataclasses.replace(
            self._settings, requests=tuple(_shifted(spec, -now) for spec in specs)
        )
        for spec in specs:
            if spec.id in self._ids:
                raise ScenarioError("requests", f"the id {spec.id!r} is in use")
            if spec.arrive_step < now:
                raise ScenarioError(
                    "requests", f"{spec.id!r} would arrive in a step that has passed"
                )
        checked = Scenario.from_dict(new.to_dict())
        specs = [_shifted(spec, now) for spec in checked.requests]
        requests = make_requests(specs, self._num_requests, self.config, self.runner)
        for request in requests:
            rejection = reject(self.config, request)
            if rejection is not None:
                raise RequestError(str(rejection))
        self._expect(requests)
        return requests

    def _expect(self, requests: list[Request]) -> None:
        for request in requests:
            self._ids.add(request.id)
            if request.spec.cancel_step is not None:
                self._to_cancel.setdefault(request.spec.cancel_step, []).append(request)
            if self._shadow is not None:
                self._shadow.prompts[request.id] = request.prompt_tokens.tolist()
        self.requests += requests
        self._num_requests += len(requests)
        self._give_up_at = self.num_steps + MAX_STEPS
        self._to_arrive += requests
        self._to_arrive.sort(key=lambda r: (r.spec.arrive_step, r.order), reverse=True)

    def cancel(self, request: Request) -> None:
        """End a request in the next step, or in the one after its arrival; nothing if it has ended.

        The scenario then says so, so that the run can be verified.
        """
        arrived = request not in self._to_arrive
        if request.spec.cancel_step is not None or (
            arrived and all(seq.finished for seq in request.sequences)
        ):
            return
        step = max(self.num_steps, request.spec.arrive_step + 1)
        request.spec = dataclasses.replace(request.spec, cancel_step=step)
        due = self._to_cancel.setdefault(step, [])
        due.append(request)
        due.sort(key=lambda r: r.order)

    @property
    def failed(self) -> bool:
        """A step went wrong half-way: the engine cannot go on."""
        return self._failed is not None

    @property
    def num_to_arrive(self) -> int:
        """Requests that have not arrived yet."""
        return len(self._to_arrive)

    @property
    def done(self) -> bool:
        """Nothing is to come, waits or runs."""
        return not (
            self._to_arrive
            or self.scheduler.running
            or len(self.scheduler.waiting)
            or self._steps.in_flight
        )

    def step(self) -> list[Sequence]:
        """One step. Returns the sequences that got a token, in the order of sampling.

        If anything goes wrong half-way (the runner raises, the user interrupts), tables and KV
        contents may disagree: the engine is failed for good and says so. Raises EngineFailedError.
        """
        if self._failed is not None:
            raise EngineFailedError(f"the engine failed in step {self.num_steps}: {self._failed}")
        try:
            return self._step()
        except BaseException as exc:
            self._failed = f"{type(exc).__name__}: {exc}"
            raise

    def _step(self) -> list[Sequence]:
        k = self.num_steps
        started = perf_counter()
        self.kv.step = k
        steps = self._steps
        steps.taken = taken = TakenIn()
        if self.config.async_scheduling:
            arriving = takewhile(lambda r: r.spec.arrive_step == k, reversed(self._to_arrive))
            if must_drain(arriving, self.scheduler.ran_short, self.config):
                steps.drain()
        self._cancels_and_arrivals(k)
        batch = self.scheduler.schedule(k, steps.in_flight)
        if self.config.async_scheduling:
            steps.go_ahead(batch)
        else:
            steps.compute(batch)
        self.num_steps = k + 1
        if self.recorder is not None:
            overhead = perf_counter() - started - taken.waited
            self._record(self.recorder, taken, 1e6 * overhead)
        if self._shadow is not None:
            self._compare(self._shadow)
        self._guard(bool(batch.scheduled or taken.timing))
        return taken.grown

    def _record(self, recorder: Recorder, taken: TakenIn, schedule_us: float) -> None:
        """Close the step's record: what was measured and counted, and the state if it is kept."""
        timing = {"schedule_us": schedule_us}
        timing |= taken.timing or {"forward_us": 0.0, "sample_us": 0.0}
        extras: dict[str, Any] = {}
        if taken.work:
            extras["work"] = taken.work
        if taken.candidates:
            extras["candidates"] = taken.candidates
        kv_error = self.runner.take_kv_error() if taken.timing else None
        if kv_error:
            extras["kv_error"] = kv_error
        if self._keep_state:
            extras["state"] = self.snapshot()
        recorder.end_step(timing, self.kv.usage(), extras)

    def finish(self) -> None:
        """Step until done. Raises EngineFailedError."""
        while not self.done:
            self.step()

    def run_to_end(self) -> Run:
        """Step until done, and give the run."""
        self.finish()
        return self.run()

    def run(self) -> Run:
        """The steps so far as a Run."""
        assert self.recorder is not None, "an untraced engine has no run"
        return Run(self._header(), self.recorder.steps(), self.results())

    def sequences(self) -> dict[str, Sequence]:
        """Every accepted sequence that exists, by id."""
        return {seq.id: seq for request in self.requests for seq in request.sequences}

    def results(self) -> dict[str, dict[str, Any]]:
        """For each accepted sequence: finish_reason (None while it lives), num_cached_tokens,
        num_preemptions; where asked for, logprobs and (with a request's first) prompt_logprobs;
        of a beam also cumulative_logprob, score and rank (0: the best; None for those that are no
        answer)."""
        return {
            name: result_of(request, name, seq)
            for request in self.requests
            for name, seq in request.named_sequences()
        }

    def snapshot(self) -> dict[str, Any]:
        """The engine's own state, as `--state` shows it."""
        return snapshot(self.requests, self.scheduler, self.kv.state(self.num_steps - 1))

    def header(self) -> dict[str, Any]:
        """The header of a run that goes on from here: with `initial_state`, unless nothing has
        happened yet."""
        header = self._header()
        if self.num_steps:
            header["initial_state"] = {
                **self.snapshot(),
                "sequences": unfinished_sequences(self.requests),
            }
        return header

    def take_steps(self) -> list[dict[str, Any]]:
        """The records of the steps since the last call; the engine keeps them no longer.

        Requests that have ended are forgotten with them, and their ids may be used again: so an
        engine that lives for days holds no more than what waits and runs. `run` then has the rest.
        """
        assert self.recorder is not None, "an untraced engine has no records"
        records = self.recorder.take_steps()
        held = {
            seq.request.id for seq in self.scheduler.running
        }  # a static batch's, ended ones too
        if self._steps.in_flight is not None:  # and those whose blocks it still uses
            held |= {item.seq.request.id for item in self._steps.in_flight.scheduled}
        ended = [
            r for r in self.requests if r.id not in held and (r.ended or self._was_rejected(r))
        ]
        if ended:
            self._ids.difference_update(r.id for r in ended)
            self.requests = [r for r in self.requests if r.id in self._ids]
            if self._shadow is not None:
                for request in ended:
                    self._shadow.forget(request.id, [name for name, _ in request.named_sequences()])
        return records

    def _was_rejected(self, request: Request) -> bool:
        return not request.sequences and request not in self._to_arrive

    def check(self) -> None:
        """Raise AssertionError where the engine's bookkeeping contradicts itself."""
        self.scheduler.check()
        self.kv.check()

    def _cancels_and_arrivals(self, k: int) -> None:
        if self._to_cancel:
            for request in self._to_cancel.pop(k, ()):
                self.scheduler.cancel(request)
        while self._to_arrive and self._to_arrive[-1].spec.arrive_step == k:
            self.scheduler.arrive(self._to_arrive.pop())

    def _guard(self, progressed: bool) -> None:
        if self.num_steps > self._give_up_at:
            raise EngineFailedError(f"given up after {MAX_STEPS:,} steps")
        # A static batch whose last member preempted itself may pass one step without work.
        idle = not (progressed or self._to_arrive or self.done)
        self._idle_steps = self._idle_steps + 1 if idle else 0
        if self._idle_steps > 2:
            waiting = self.scheduler.waiting.entries()
            raise EngineFailedError(
                f"nothing can run: {len(self.scheduler.running)} are admitted, {len(waiting)} wait"
                + (f", {waiting[0].id} first; " if waiting else "; ")
                + f"{self.kv.num_free} of {self.config.num_blocks} blocks are free"
            )

    def _compare(self, shadow: Reducer) -> None:
        assert self.recorder is not None
        self.check()
        shadow.apply_step(self.recorder.step(self.num_steps - 1))
        reduced, own = shadow.state(), self.snapshot()
        for part in own:
            if reduced[part] != own[part]:
                raise StateMismatchError(
                    f"step {self.num_steps - 1}, {part}: "
                    f"events give {reduced[part]}, the engine has {own[part]}"
                )
        for seq in (*self.scheduler.running, *self.scheduler.waiting.entries()):
            computed = seq.num_computed_tokens + seq.num_in_flight_tokens
            assert shadow.num_computed_tokens[seq.id] == computed, seq.id

    def _header(self) -> dict[str, Any]:
        prompts = {r.id: r.prompt_tokens.tolist() for r in self.requests}
        used = {token for prompt in prompts.values() for token in prompt}
        if self.recorder is not None:
            used |= self.recorder.token_ids()
        for request in self.requests:
            for entries in (request.prompt_logprobs, *(s.logprobs for s in request.sequences)):
                used.update(token for entry in entries for token, _ in entry.top)
        return make_header(
            scenario=self.scenario.to_dict(),
            label=self._label,
            source=self._source,
            prompts=prompts,
            token_text=self.runner.token_text(sorted(used)),
            eos_token_ids=sorted(self.runner.eos_token_ids),
            kv_bytes_per_token=self._kv_bytes[0],
            kv_cache_bytes=self._kv_bytes[1],
            kv_format=self._kv_format,
            sliding_window=self.runner.sliding_window,
        )


def _shifted(spec: RequestSpec, steps: int) -> RequestSpec:
    """The request so many steps later."""
    cancel = None if spec.cancel_step is None else spec.cancel_step + steps
    return dataclasses.replace(spec, arrive_step=spec.arrive_step + steps, cancel_step=cancel)
