"""The live engine: one for all, so that everybody shares its batch. Used by the host's thread only.

It lives for days. After each step its record goes to the readers of the requests that live, and the
engine forgets it.
"""

from __future__ import annotations

import dataclasses
from time import monotonic, perf_counter
from typing import Any

from core.engine import Engine
from core.kv.hashing import block_keys, short
from core.model.model_runner import ModelRunner
from core.model.stop_strings import completion_text
from core.report import result_of
from core.request import Request, Sequence
from core.scenario import RequestSpec, Scenario
from core.server.load import NOTICEABLE, OtherWork
from core.server.metrics import LiveMetrics
from core.server.outbox import Outbox
from core.server.tokens import TokenReader

Json = dict[str, Any]


@dataclasses.dataclass(slots=True)
class Reader:
    """A live request and who waits for it. tokens: who gets its tokens alone; None for a reader of
    the run."""

    request: Request
    outbox: Outbox
    tokens: TokenReader | None = None


class LiveEngine:
    """runner: with a pool of the settings' shape. settings: a scenario without requests."""

    def __init__(
        self, runner: ModelRunner, settings: Scenario, metrics: LiveMetrics, *, debug: bool = False
    ) -> None:
        self._runner, self._settings, self._debug = runner, settings, debug
        self._metrics = metrics
        self._readers: dict[str, Reader] = {}
        self._num_submitted = 0
        self._other_work = OtherWork()
        self._away_s = 0.0
        self.num_steps = 0
        self._engine = self._new_engine()

    def _new_engine(self) -> Engine:
        return Engine(self._settings, self._runner, label="LIVE", debug=self._debug)

    @property
    def idle(self) -> bool:
        """Nothing waits or runs."""
        return self._engine.done

    @property
    def num_readers(self) -> int:
        """Requests that have not ended."""
        return len(self._readers)

    @property
    def num_run_readers(self) -> int:
        """Those of them whose readers get the run."""
        return sum(reader.tokens is None for reader in list(self._readers.values()))

    def counts(self) -> dict[str, int]:
        """Sequences that run, and entries that wait."""
        scheduler = self._engine.scheduler
        waiting = len(scheduler.waiting) + self._engine.num_to_arrive
        return {"running": len(scheduler.running), "waiting": waiting}

    def usage(self) -> dict[str, int]:
        return self._engine.kv.usage()

    def submit(self, spec: RequestSpec, outbox: Outbox) -> str:
        """Take a request in; its reader gets the header at once. Returns the engine's id for it.

        Raises ScenarioError, and RequestError for what can never be served.
        """
        engine = self._engine
        request = self._add(spec, monotonic())
        name = request.id
        header = engine.header()
        size = engine.config.block_size
        # The keys of its own prompt tell which cached blocks hold tokens that it may see.
        probe = Sequence(request, 0, 1)
        keys = block_keys(probe, len(probe.tokens) // size, size)
        header["own_keys"] = {short(key): place for place, key in enumerate(keys)}
        self._readers[name] = Reader(request, outbox)
        outbox.put("header", {"raw": header, "own": name, "first_step": engine.num_steps})
        return name

    def submit_tokens(self, spec: RequestSpec, outbox: Outbox, asked_at: float) -> str:
        """The same for a reader that gets the tokens alone (see `core.server.tokens`).

        asked_at: when the request came to this process, monotonic seconds.
        """
        request = self._add(spec, asked_at)
        self._readers[request.id] = Reader(request, outbox, TokenReader(request, outbox))
        return request.id

    def _add(self, spec: RequestSpec, asked_at: float) -> Request:
        engine = self._engine
        name = f"r{self._num_submitted}"
        (request,) = engine.add([dataclasses.replace(spec, id=name, arrive_step=engine.num_steps)])
        self._num_submitted += 1
        self._metrics.arrived(request, asked_at)
        return request

    def cancel(self, name: str) -> None:
        """End a request in the next step; nothing if it has ended."""
        reader = self._readers.get(name)
        if reader is not None:
            self._engine.cancel(reader.request)

    def was_away(self, seconds: float) -> None:
        """The device was somebody else's for so long, while requests were here."""
        self._away_s += seconds

    def step(self) -> None:
        """One step, and its record to all readers. Raises what the engine raises."""
        engine = self._engine
        started, began = perf_counter(), monotonic()
        came = {
            r.id: r.prompt_tokens.tolist()
            for r in engine.requests
            if r.spec.arrive_step == engine.num_steps
        }
        grown = engine.step()
        ended = monotonic()
        self.num_steps += 1
        for record in engine.take_steps():
            if came:
                record["prompts"] = came
            if self._away_s:
                record["timing"]["away_us"] = round(1e6 * self._away_s, 1)
            note_other_work(record, self._other_work)
            record["timing"]["step_us"] = round(1e6 * (perf_counter() - started), 1)
            self._metrics.step(record, engine.scheduler, engine.kv.usage(), began, ended)
            for reader in self._readers.values():
                if reader.tokens is None:
                    reader.outbox.put("step", record)
        for name, sequences in _by_request(grown).items():
            tokens = self._readers[name].tokens
            if tokens is not None:
                tokens.take(sequences)
        self._away_s = 0.0
        for reader in self._readers.values():
            if reader.outbox.ended or reader.outbox.closed:  # given up: nobody waits for the rest
                engine.cancel(reader.request)
        for name in [n for n, reader in self._readers.items() if _is_over(reader)]:
            reader = self._readers.pop(name)
            self._metrics.ended(name)
            reason = _end_reason(reader.request)
            if reader.tokens is None:
                results = results_of(self._runner, reader.request)
                reader.outbox.end(reason, results=results)
            else:
                reader.outbox.end(reason)

    def end_all(self, reason: str, message: str) -> None:
        """Every reader gets this end. From any thread: only their boxes are touched."""
        for reader in list(self._readers.values()):
            reader.outbox.end(reason, message)

    def start_again(self, message: str) -> None:
        """After a failed step: a fresh engine on an empty pool. Raises what the device raises."""
        self.end_all("error", message)
        self._readers.clear()
        self._metrics.forget()
        config = self._settings.engine
        self._runner.bind(**config.kv_pool, seed=self._settings.seed)
        self._engine = self._new_engine()


def results_of(runner: ModelRunner, request: Request) -> Json:
    """A request's results by sequence, with their texts."""
    out = {}
    for name, seq in request.named_sequences():
        out[name] = {
            **result_of(request, name, seq),
            "text": completion_text(
                runner.tokenizer, seq.output_tokens, request.stop_strings, seq.finish_reason
            ),
        }
    return out


def note_other_work(record: Json, other: OtherWork) -> None:
    """`beside`: the share of the processor that other processes took while this was timed."""
    share = other.share()
    if share is not None and share >= NOTICEABLE:
        record["beside"] = round(share, 2)


def _by_request(grown: list[Sequence]) -> dict[str, list[Sequence]]:
    out: dict[str, list[Sequence]] = {}
    for seq in grown:
        out.setdefault(seq.request.id, []).append(seq)
    return out


def _is_over(reader: Reader) -> bool:
    """Its request has ended. A reader of the run also sees the blocks come free that a step in
    flight still uses (`core.sched.ahead`)."""
    in_flight = any(seq.num_in_flight_tokens for seq in reader.request.sequences)
    return reader.request.ended and (reader.tokens is not None or not in_flight)


def _end_reason(request: Request) -> str:
    cancelled = all(seq.finish_reason == "cancelled" for seq in request.sequences)
    return "cancelled" if cancelled else "finished"
