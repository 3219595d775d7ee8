"""Anything may happen between two steps: requests, n > 1, beams, forks, cancels, too few blocks.

A state machine drives one engine with the pseudo-model of `test_beams`: whoever is computed reads
its whole context back, the events must lead to the engine's state after every step (`debug=True`),
blocks are conserved, and the finished run verifies.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from core.engine import Engine
from core.errors import RequestError
from core.request import GIVEN_BACK, Request, Sequence
from core.scenario import RequestSpec
from core.simulate import verify
from core.trace.run import parse_run
from tests.core.test_beams import VOCABULARY, BeamRunner, build

STEM = [5, 9, 5, 9, 9, 5, 7, 5]
gaps = st.integers(0, 3)
"""Steps before the next thing happens."""

ends = st.sampled_from([(), (), (7,), (0, 1)])


class Serving(RuleBasedStateMachine):
    """One engine; sequences, queue and blocks are looked at after every step."""

    asynchronous = False

    @initialize(
        cache=st.sampled_from(["radix", "hash", "off"]),
        eviction=st.sampled_from(["lru", "fifo", "lfu"]),
        policy=st.sampled_from(["fcfs", "priority"]),
        kind=st.sampled_from(["paged", "paged", "paged", "paged", "static", "contiguous"]),
        block_size=st.integers(1, 4),
        num_blocks=st.integers(7, 16),
        max_num_seqs=st.integers(3, 8),
        chunk=st.sampled_from([0, 0, 1, 3]),
        watermark=st.sampled_from([0.0, 0.0, 0.2]),
        window=st.sampled_from([None, None, None, 2, 5]),
    )
    def start(self, cache: str, kind: str, window: int | None, chunk: int, **engine: Any) -> None:
        engine["prefix_cache"] = "off" if kind == "contiguous" else cache
        engine["allocator"] = "contiguous" if kind == "contiguous" else "paged"
        engine["batching"] = "static" if kind == "static" else "continuous"
        engine["reserve"] = "request"
        engine["long_prefill_token_threshold"] = chunk
        engine["max_num_batched_tokens"] = 12
        engine["max_model_len"] = 24
        engine["async_scheduling"] = self.asynchronous
        scenario = build(engine, [])
        whole = engine["prefix_cache"] == "radix" or kind == "contiguous"
        runner = BeamRunner(engine["block_size"], window, gives_back=not whole)
        self.engine = Engine(scenario, runner, debug=True, label="LIVE")
        self.kind = kind
        self.num_requests = 0

    def _spec(self, **fields: Any) -> RequestSpec:
        self.num_requests += 1
        return RequestSpec(id=f"R{self.num_requests}", arrive_step=self.engine.num_steps, **fields)

    def _add(self, **fields: Any) -> None:
        try:
            self.engine.add([self._spec(**fields)])
        except RequestError:  # it could never be served
            self.num_requests -= 1

    @rule(
        stem=st.integers(0, len(STEM)),
        last=st.integers(0, VOCABULARY - 1),
        n=st.sampled_from([1, 1, 2, 3]),
        max_tokens=st.integers(4, 14),
        priority=st.integers(0, 2),
        salt=st.sampled_from([None, None, "x"]),
        gap=gaps,
    )
    def arrive(
        self,
        stem: int,
        last: int,
        n: int,
        max_tokens: int,
        priority: int,
        salt: str | None,
        gap: int,
    ) -> None:
        self._add(
            prompt_tokens=(*STEM[:stem], last),
            n=1 if self.kind == "contiguous" else n,
            max_tokens=max_tokens,
            priority=priority,
            cache_salt=salt,
        )
        self._steps(gap)

    @rule(
        stem=st.integers(0, 5),
        width=st.integers(2, 4),
        max_tokens=st.integers(2, 9),
        stops=ends,
        gap=gaps,
    )
    def search(
        self, stem: int, width: int, max_tokens: int, stops: tuple[int, ...], gap: int
    ) -> None:
        if self.kind == "paged":
            self._add(
                prompt_tokens=(*STEM[:stem], 11),
                beam_width=width,
                max_tokens=max_tokens,
                stop_token_ids=stops,
            )
        self._steps(gap)

    @rule(
        which=st.integers(0, 99),
        max_tokens=st.integers(6, 14),
        priority=st.integers(0, 2),
        gap=gaps,
    )
    def fork(self, which: int, max_tokens: int, priority: int, gap: int) -> None:
        """Off any sequence that has begun; one that waits, or has too much, is no origin now."""
        origins = self._origins()
        if origins and self.kind == "paged":
            origin = origins[which % len(origins)]
            spec = self._spec(fork_of=origin.id, max_tokens=max_tokens, priority=priority)
            tokens = array("q", origin.request.prompt_tokens)
            request = Request(spec, tokens, self.engine._num_requests, origin.request)
            self.engine._expect([request])
        self._steps(gap)

    @rule(which=st.integers(0, 99), gap=gaps)
    def cancel(self, which: int, gap: int) -> None:
        if self.engine.requests:
            self.engine.cancel(self.engine.requests[which % len(self.engine.requests)])
        self._steps(gap)

    def _steps(self, count: int) -> None:
        for _ in range(count):
            if not self.engine.done:
                self.engine.step()

    def _origins(self) -> list[Sequence]:
        scheduler = self.engine.scheduler
        entries = [*scheduler.running, *scheduler.waiting.entries()]
        return [seq for seq in entries if not seq.request.beams and seq.num_output_tokens]

    @invariant()
    def blocks_are_conserved(self) -> None:
        if not hasattr(self, "engine"):
            return
        engine = self.engine
        engine.check()
        state, usage = engine.snapshot(), engine.kv.usage()
        assert sum(usage.values()) == engine.config.num_blocks
        held = Counter(b for table in state["block_tables"].values() for b in table)
        held.pop(GIVEN_BACK, None)
        assert {str(block): n for block, n in held.items()} == state["ref_counts"]
        free = state["free_order"]
        assert len(set(free)) == len(free) == usage["free"] + usage["cached"]
        assert not set(free) & set(held)

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        engine = self.engine
        engine.finish()
        self.blocks_are_conserved()
        assert engine.snapshot()["block_tables"] == {}, "nothing is held at the end"
        run = engine.run()
        ended = Counter(
            e["sequence"] for r in run.steps for e in r["events"] if e["type"] == "finished"
        )
        assert set(ended.values()) <= {1}, "nothing ends twice"
        for request in engine.requests:
            assert engine._was_rejected(request) or request.ended
        verify(parse_run(run.to_bytes()))
        for record in run.steps:
            for happened in record["events"]:
                fork = "fork_of" if "position" in happened else "n or beams"
                event(f"forked: {fork}" if happened["type"] == "forked" else happened["type"])


TestServing = Serving.TestCase
TestServing.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
