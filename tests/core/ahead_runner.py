"""Runners for asynchronous scheduling: they compute a step when it is launched, and notice what is
done to it before it is collected.
"""

from __future__ import annotations

import dataclasses
import queue
import threading
from array import array
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

from core.request import GIVEN_BACK
from core.runner import ScheduledSequence, ScriptedRunner, StepBatch, StepOutput
from core.scenario import Scenario
from tests.core.memory_runner import MemoryRunner

TIMEOUT = 20.0


@dataclasses.dataclass
class Launched:
    """A step on the device. reads, writes: slots, each with the sequences that do it."""

    output: StepOutput
    reads: dict[tuple[int, int], set[str]]
    writes: dict[tuple[int, int], set[str]]


class AheadRunner(MemoryRunner):
    """Samples from a memory that is read back, like its base; a device of several streams.

    A step sees tokens and tables as they are when it is launched; an unknown token it takes from
    its own outputs, as a device does. Steps in flight may be computed in any order, so a step that
    writes a slot which another sequence's step in flight reads or writes, or that reads one which
    such a step writes, is an error.
    """

    def __init__(self, block_size: int, window: int | None = None) -> None:
        super().__init__(block_size, window, gives_back=False)
        self.in_flight: list[Launched] = []
        self.num_unknown = 0
        self._newest: dict[str, int] = {}

    def launch(self, batch: StepBatch) -> Any:
        shares = [self._frozen(item) for item in batch.scheduled]
        launched = Launched(StepOutput([]), defaultdict(set), defaultdict(set))
        for item in shares:
            for position in range(self._first_seen(item), item.stop):
                launched.reads[self._slot(item.seq, position)].add(item.seq.id)
            for position in range(item.start, item.stop):
                launched.writes[self._slot(item.seq, position)].add(item.seq.id)
        owner = {item.seq.block_table[item.start // self.block_size]: item for item in shares}
        for src, dst in batch.copies:
            for offset in range(owner[dst].start % self.block_size):
                launched.reads[src, offset].add(owner[dst].seq.id)
                launched.writes[dst, offset].add(owner[dst].seq.id)
        self._refuse_races(launched)
        launched.output = self.execute(StepBatch(batch.step, shares, batch.copies))
        for item, tokens in zip(shares, launched.output.token_ids, strict=True):
            if item.num_samples == 1:
                self._newest[item.seq.id] = tokens[0]
        self.in_flight.append(launched)
        assert len(self.in_flight) <= 2
        return launched

    def collect(self, step: Any) -> StepOutput:
        assert self.in_flight.pop(0) is step, "steps are collected in the order of launching"
        output: StepOutput = step.output
        return output

    def _frozen(self, item: ScheduledSequence) -> ScheduledSequence:
        """The share with its sequence as it is now, the unknown token put in."""
        seq, tokens = item.seq, array("q", item.seq.tokens)
        assert item.start == seq.num_computed_tokens + seq.num_in_flight_tokens - (
            item.num_scheduled_tokens
        )
        assert len(tokens) <= item.stop <= len(tokens) + 1 or item.num_samples == 0
        if item.stop > len(tokens):
            tokens.append(self._newest[seq.id])
            self.num_unknown += 1
        frozen: Any = SimpleNamespace(
            id=seq.id,
            index=seq.index,
            request=seq.request,
            tokens=tokens,
            num_prompt_tokens=seq.num_prompt_tokens,
            num_computed_tokens=item.start,
            block_table=list(seq.block_table),
        )
        return dataclasses.replace(item, seq=frozen)

    def _first_seen(self, item: ScheduledSequence) -> int:
        """Blocks before the window may still be there: the step before is not taken in."""
        window = self.sliding_window
        first = 0 if window is None else max(0, item.start - window + 1)
        assert GIVEN_BACK not in item.seq.block_table[first // self.block_size :]
        return first

    def _refuse_races(self, new: Launched) -> None:
        for old in self.in_flight:
            for written, used in (
                (new.writes, old.reads),
                (new.writes, old.writes),
                (old.writes, new.reads),
            ):
                for slot in written.keys() & used.keys():
                    assert written[slot] == used[slot], (
                        f"slot {slot}: {written[slot]} writes what {used[slot]} use"
                    )


def ahead_for(scenario: dict[str, Any], window: int | None = None) -> AheadRunner:
    return AheadRunner(Scenario.from_dict(scenario).engine.block_size, window)


class DeviceThread(ScriptedRunner):
    """A device of its own: a thread that computes launched steps, each no sooner than it is let.

    log: ("launched" | "begun" | "computed" | "collected", step), in the order in which they were.
    waits_for_next: the device does not finish step k before step k + 1 has been launched, for these
    k; who collects first waits in vain.
    """

    def __init__(self, waits_for_next: set[int]) -> None:
        super().__init__()
        self.log: list[tuple[str, int]] = []
        self._waits_for_next = waits_for_next
        self._launches: dict[int, threading.Event] = {
            k: threading.Event() for k in {*waits_for_next, *(k + 1 for k in waits_for_next)}
        }
        self._jobs: queue.Queue[tuple[StepBatch, threading.Event] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def launch(self, batch: StepBatch) -> Any:
        self.log.append(("launched", batch.step))
        computed = threading.Event()
        self._jobs.put((batch, computed))
        if batch.step in self._launches:
            self._launches[batch.step].set()
        return batch, computed

    def collect(self, step: Any) -> StepOutput:
        batch, computed = step
        if not computed.wait(TIMEOUT):
            raise TimeoutError(f"step {batch.step} was waited for before the next was launched")
        self.log.append(("collected", batch.step))
        return self.execute(batch)

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join(TIMEOUT)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            batch, computed = job
            self.log.append(("begun", batch.step))
            if batch.step in self._waits_for_next:
                self._launches[batch.step + 1].wait(TIMEOUT)
            self.log.append(("computed", batch.step))
            computed.set()
