"""A step's way from the scheduler to the runner and back: computed at once, or launched and taken
in later, when the next one is already decided (`core.sched.ahead`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from core.request import Sequence
from core.runner import Runner, StepBatch, StepOutput
from core.sched.scheduler import Scheduler


@dataclass(slots=True)
class TakenIn:
    """What was waited for and taken in during one step of the engine.

    grown: the sequences that got a token, in the order of sampling. waited: seconds spent in the
    runner. timing, work: of the steps taken in; more than one only where all tokens of the second
    were late. candidates: of beams, by sequence.
    """

    grown: list[Sequence] = field(default_factory=list)
    waited: float = 0.0
    timing: dict[str, float] = field(default_factory=dict)
    work: dict[str, int] = field(default_factory=dict)
    candidates: dict[str, list[list[Any]]] = field(default_factory=dict)

    def note(self, batch: StepBatch, output: StepOutput, runner: Runner) -> None:
        """What a step took and gave, before it is taken in."""
        for part, us in runner.step_timing.items():
            self.timing[part] = self.timing.get(part, 0.0) + us
        for part, amount in (runner.step_work or {}).items():
            self.work[part] = self.work.get(part, 0) + amount
        for item, candidates in zip(batch.scheduled, output.candidates, strict=False):
            if candidates and not item.seq.finished:
                self.candidates[item.seq.id] = [list(candidate) for candidate in candidates]


class Steps:
    """The steps of one engine. in_flight: the one that was launched and not taken in. taken: what
    the engine's present step has taken in."""

    def __init__(self, scheduler: Scheduler, runner: Runner) -> None:
        self._scheduler, self._runner = scheduler, runner
        self.in_flight: StepBatch | None = None
        self._launched: Any = None  # what the runner calls it
        self.taken = TakenIn()

    def compute(self, batch: StepBatch) -> None:
        """Compute a step and take it in; also an empty one, which may end a static batch."""
        started = perf_counter()
        output = self._runner.execute(batch) if batch.scheduled else StepOutput([])
        self._take_in(batch, output, started)

    def go_ahead(self, batch: StepBatch) -> None:
        """Launch a step, and only then wait for the one before it."""
        before, launched = self.in_flight, self._launched
        started = perf_counter()
        self.in_flight = batch if batch.scheduled else None
        self._launched = self._runner.launch(batch) if batch.scheduled else None
        self.taken.waited += perf_counter() - started
        if before is not None:
            self._wait_for(before, launched)
        else:
            self.compute(StepBatch(batch.step, [], []))
        scheduler = self._scheduler
        if not (scheduler.num_running_seqs or len(scheduler.waiting)):
            self.drain()  # all its tokens are late: there is nothing to be decided meanwhile

    def drain(self) -> None:
        """Wait for the step in flight, if there is one, and take it in."""
        if self.in_flight is not None:
            batch, launched = self.in_flight, self._launched
            self.in_flight = self._launched = None
            self._wait_for(batch, launched)

    def _wait_for(self, batch: StepBatch, launched: Any) -> None:
        started = perf_counter()
        self._take_in(batch, self._runner.collect(launched), started)

    def _take_in(self, batch: StepBatch, output: StepOutput, started: float) -> None:
        taken = self.taken
        taken.waited += perf_counter() - started
        if batch.scheduled:
            taken.note(batch, output, self._runner)
        taken.grown += self._scheduler.update(batch, output, self._runner)
