"""The engine: one step after another, until nothing is to come, waits or runs.

    engine = Engine(scenario, runner)
    while not engine.done:
        engine.step()
    run = engine.run()

The scheduler decides, the runner computes, the recorder writes down. A live engine, a recorded file
and the block sandbox all give the same `Run`.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Sequence as Listing
from time import perf_counter
from typing import Any

from core.config import EngineConfig
from core.errors import KVScopeError
from core.kv.contiguous import ContiguousKVManager
from core.kv.manager import KVCacheManager
from core.request import Request, Sequence
from core.runner import Runner
from core.scenario import RequestSpec, Scenario
from core.sched.scheduler import Scheduler
from core.trace.recorder import Recorder
from core.trace.reducer import Reducer
from core.trace.run import Run, make_header

MAX_STEPS = 2_000_000
"""A run that goes on longer is given up: no scenario within the limits needs as many."""


class EngineStuckError(KVScopeError):
    """Nothing runs, nothing is to come, and yet somebody waits: an error of the engine."""


class StateMismatchError(AssertionError):
    """The events of a step do not lead to the engine's own state: an error of the engine."""


class Engine:
    """A scenario being run.

    runner: computes tokens. trace: record events (else only results). debug: after every step
    compare `reduce(events)` with the engine's state, and check all bookkeeping; slow.
    keep_state: store the state in each step's record.
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
        self.scenario = scenario
        self.config: EngineConfig = scenario.engine
        self.runner = runner
        self.recorder = Recorder() if trace else None
        emit = self.recorder.emit if self.recorder else None
        paged = self.config.allocator == "paged"
        self.kv = (KVCacheManager if paged else ContiguousKVManager)(self.config, emit)
        self.scheduler = Scheduler(self.config, self.kv, emit)
        self.requests: list[Request] = []
        self.num_steps = 0
        self._label = label
        self._keep_state = keep_state
        self._idle_steps = 0
        self._to_arrive: list[Request] = []  # the next one last
        self._to_cancel: dict[int, list[Request]] = {}
        self._shadow = Reducer(self._header()) if trace and debug else None
        self._expect(scenario.requests)

    def add(self, specs: Listing[RequestSpec]) -> None:
        """More requests for an engine that lives on; none may arrive before the next step.

        The run then covers all of the engine's life: its scenario grows by these requests.
        """
        late = next((spec.id for spec in specs if spec.arrive_step < self.num_steps), None)
        if late is not None:
            raise ValueError(f"request {late!r} would arrive in a step that has passed")
        scenario = dataclasses.replace(self.scenario, requests=(*self.scenario.requests, *specs))
        self.scenario = Scenario.from_dict(scenario.to_dict())
        self._expect(specs)

    def _expect(self, specs: Listing[RequestSpec]) -> None:
        for spec in specs:
            request = self.make_request(spec, len(self.requests))
            self.requests.append(request)
            self._to_arrive.append(request)
            if spec.cancel_step is not None:
                self._to_cancel.setdefault(spec.cancel_step, []).append(request)
            if self._shadow is not None:
                self._shadow.prompts[request.id] = request.prompt_tokens.tolist()
        self._to_arrive.sort(key=lambda r: (r.spec.arrive_step, r.order), reverse=True)

    def make_request(self, spec: RequestSpec, order: int) -> Request:
        """A request with its prompt as token ids."""
        tokens = spec.prompt_tokens
        if tokens is None:
            assert spec.prompt is not None, "a scenario gives one or the other"
            return Request(spec, array("q", self.runner.tokenize(spec.prompt)), order)
        return Request(spec, array("q", tokens), order)

    def cancel(self, request: Request) -> None:
        """End a request in the next step, or in the one after its arrival; nothing if it has ended.

        The scenario then says so, so that the run can be verified.
        """
        if request not in self._to_arrive and all(seq.finished for seq in request.sequences):
            return
        step = max(self.num_steps, request.spec.arrive_step + 1)
        specs = list(self.scenario.requests)
        specs[request.order] = dataclasses.replace(request.spec, cancel_step=step)
        self.scenario = dataclasses.replace(self.scenario, requests=tuple(specs))
        due = self._to_cancel.setdefault(step, [])
        due.append(request)
        due.sort(key=lambda r: r.order)

    @property
    def done(self) -> bool:
        """Nothing is to come, waits or runs."""
        return not (self._to_arrive or self.scheduler.running or len(self.scheduler.waiting))

    def step(self) -> list[Sequence]:
        """One step. Returns the sequences that got a token, in the order of sampling."""
        k = self.num_steps
        started = perf_counter()
        self.kv.step = k
        self._cancels_and_arrivals(k)
        batch = self.scheduler.schedule(k)
        scheduled = perf_counter()
        sampled = self.runner.execute(batch) if batch.scheduled else []
        executed = perf_counter()
        grown = self.scheduler.update(batch, sampled, self.runner.eos_token_ids)
        self.num_steps = k + 1
        self._guard(bool(batch.scheduled))
        if self.recorder is not None:
            overhead = scheduled - started + perf_counter() - executed
            forward_us, sample_us = self.runner.timing_us or (1e6 * (executed - scheduled), 0.0)
            self.recorder.end_step(
                1e6 * overhead,
                forward_us if batch.scheduled else 0.0,
                sample_us if batch.scheduled else 0.0,
                self.kv.usage(),
                self.snapshot() if self._keep_state else None,
            )
        if self._shadow is not None:
            self._compare(self._shadow)
        return grown

    def run_to_end(self) -> Run:
        """Step until done. Raises EngineStuckError."""
        self.run_untraced()
        return self.run()

    def run_untraced(self) -> None:
        """Step until done, for the results alone. Raises EngineStuckError."""
        while not self.done:
            self.step()

    def run(self) -> Run:
        """The steps so far as a Run."""
        assert self.recorder is not None, "an untraced engine has no run"
        return Run(self._header(), self.recorder.steps(), self.results())

    def sequences(self) -> dict[str, Sequence]:
        """Every accepted sequence that exists, by id."""
        return {seq.id: seq for request in self.requests for seq in request.sequences}

    def results(self) -> dict[str, dict[str, Any]]:
        """For each accepted sequence: finish_reason (None while it lives), num_cached_tokens."""
        return {
            seq.id: {
                "finish_reason": seq.finish_reason,
                "num_cached_tokens": seq.request.num_cached_tokens or 0,
            }
            for seq in self.sequences().values()
        }

    def snapshot(self) -> dict[str, Any]:
        """The engine's own state, as `--state` shows it."""
        tables: dict[str, list[int]] = {}
        outputs: dict[str, list[int]] = {}
        for request in self.requests:
            for seq in request.sequences:
                for index in range(seq.index, seq.index + seq.num_places):
                    outputs[request.sequence_id(index)] = seq.output_tokens
                if seq.block_table:
                    tables[seq.id] = list(seq.block_table)
        return {
            "block_tables": tables,
            **self.kv.state(self.num_steps - 1),
            "waiting": _names(self.scheduler.waiting.entries()),
            "running": _names(self.scheduler.running),
            "outputs": outputs,
        }

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
        # A static batch whose last member preempted itself may pass one step without work.
        idle = not (progressed or self._to_arrive or self.done)
        self._idle_steps = self._idle_steps + 1 if idle else 0
        if self._idle_steps > 2 or self.num_steps > MAX_STEPS:
            waiting = self.scheduler.waiting.entries()
            head = waiting[0].id if waiting else "nobody"
            raise EngineStuckError(
                f"step {self.num_steps - 1}: nothing can run; {len(waiting)} wait, {head} first; "
                f"{self.kv.num_free} of {self.config.num_blocks} blocks are free"
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
            assert shadow.num_computed_tokens[seq.id] == seq.num_computed_tokens, seq.id

    def _header(self) -> dict[str, Any]:
        prompts = {r.id: r.prompt_tokens.tolist() for r in self.requests}
        used = {token for prompt in prompts.values() for token in prompt}
        used.update(token for seq in self.sequences().values() for token in seq.output_tokens)
        return make_header(
            scenario=self.scenario.to_dict(),
            label=self._label,
            source=self.runner.source,
            prompts=prompts,
            token_text=self.runner.token_text(sorted(used)),
            eos_token_ids=sorted(self.runner.eos_token_ids),
            kv_bytes_per_token=self.runner.kv_bytes_per_token,
        )


def _names(sequences: list[Sequence]) -> list[str]:
    return [
        seq.request.sequence_id(index)
        for seq in sequences
        for index in range(seq.index, seq.index + seq.num_places)
    ]
