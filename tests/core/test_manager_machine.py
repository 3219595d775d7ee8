"""The block manager under any order of operations, against slots that can be read back."""

from __future__ import annotations

from array import array

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from core.config import EngineConfig
from core.kv.manager import KVCacheManager
from core.prefix.base import CacheInUseError
from core.request import GIVEN_BACK, Request, Sequence
from core.runner import ScheduledSequence, StepBatch
from core.scenario import RequestSpec
from core.trace.events import Event, to_dict
from core.trace.reducer import Reducer
from tests.core.memory_runner import MemoryRunner

NUM_BLOCKS = 12


class Manager(RuleBasedStateMachine):
    """Sequences are admitted, grow, fork, cache, end; whoever computes reads its whole context."""

    sequences = Bundle("sequences")

    @initialize(
        cache=st.sampled_from(["radix", "hash", "off"]),
        eviction=st.sampled_from(["lru", "fifo", "lfu"]),
        block_size=st.integers(1, 3),
        window=st.sampled_from([None, None, 1, 2, 3, 4, 6]),
    )
    def start(self, cache: str, eviction: str, block_size: int, window: int | None) -> None:
        config = EngineConfig(
            num_blocks=NUM_BLOCKS, block_size=block_size, prefix_cache=cache, eviction=eviction
        )
        self.block_size = block_size
        self.events: list[Event] = []
        self.manager = KVCacheManager(config, self.events.append, window)
        self.memory = MemoryRunner(block_size, window, gives_back=cache != "radix")
        self.live: dict[str, Sequence] = {}
        self.hits: dict[str, int] = {}  # blocks of hits whose sequence has not computed yet
        self.prompts: dict[str, list[int]] = {}
        engine = {"block_size": block_size, "num_blocks": NUM_BLOCKS, "prefix_cache": cache}
        header = {"scenario": {"engine": engine}, "prompts": self.prompts}
        self.shadow = Reducer(header)
        self.step = 0

    @rule(
        target=sequences,
        tokens=st.lists(st.integers(0, 1), min_size=1, max_size=9),
        salt=st.sampled_from([None, None, None, "x"]),
    )
    def admit(self, tokens: list[int], salt: str | None) -> Sequence:
        name = f"S{len(self.prompts)}"
        spec = RequestSpec(id=name, prompt_tokens=tuple(tokens), cache_salt=salt)
        seq = Sequence(Request(spec, array("q", tokens), 0), 0, 1)
        self.prompts[name] = tokens
        self.shadow.outputs[name] = []
        hit = self.manager.find_prefix(seq)
        assert len(hit) * self.block_size < len(tokens)
        needed = -(-len(tokens) // self.block_size) - len(hit)
        if needed <= self.manager.num_free - self.manager.num_idle(hit):
            self.manager.admit(seq, hit)
            self.hits[name] = len(hit)
            self.live[name] = seq
        return seq

    @rule(seq=sequences, n=st.integers(1, 5))
    def compute(self, seq: Sequence, n: int) -> None:
        """Up to n more tokens, if the blocks are free; a caught-up sequence samples one first."""
        if seq.id not in self.live:
            return
        if seq.num_computed_tokens == len(seq.tokens):
            seq.tokens.append(0)
            self.shadow.outputs[seq.id].append(0)
        n = min(n, len(seq.tokens) - seq.num_computed_tokens)
        if self.manager.blocks_wanted(seq, n) > self.manager.num_free:
            return
        start = seq.num_computed_tokens
        self.manager.copies = []
        self.manager.allocate_slots(seq, n)
        item = ScheduledSequence(seq, n, 0, self.hits.pop(seq.id, 0) * self.block_size)
        self.memory.execute(StepBatch(0, [item], self.manager.copies))
        seq.num_computed_tokens += n
        first, last = start // self.block_size, seq.num_computed_tokens // self.block_size
        if last > first:
            self.manager.cache_blocks(seq, first, last)
        if self.manager.sliding_window is not None:
            self.manager.release_before_window(seq)

    @rule(target=sequences, seq=sequences, n=st.integers(1, 3))
    def fork(self, seq: Sequence, n: int) -> object:
        if seq.id not in self.live or not seq.block_table:
            return multiple()
        twins = []
        for _ in range(n):
            name = f"S{len(self.prompts)}"
            spec = RequestSpec(
                id=name,
                prompt_tokens=tuple(seq.tokens),
                cache_salt=seq.request.spec.cache_salt,
            )
            twin = Sequence(Request(spec, seq.tokens[:], 0), 0, 1)
            twin.num_computed_tokens = seq.num_computed_tokens
            self.prompts[name] = seq.tokens.tolist()
            self.shadow.outputs[name] = []
            twins.append(twin)
        self.manager.fork(seq, twins)
        for twin in twins:
            # `forked` belongs to the scheduler: the shadow is told of the shared table by hand.
            held = [block for block in seq.block_table if block != GIVEN_BACK]
            index = len(seq.block_table) - len(held)
            self.events.append(("block_shared", twin.id, twin.id, "canonical", held, index))
            self.hits[twin.id] = self.hits.get(seq.id, 0)
            self.live[twin.id] = twin
        return multiple(*twins)

    @rule(seq=consumes(sequences), reason=st.sampled_from(["finished", "preempted", "cancelled"]))
    def release(self, seq: Sequence, reason: str) -> None:
        if self.live.pop(seq.id, None) is not None:
            self.manager.release(seq, reason)

    @rule()
    def reset(self) -> None:
        try:
            self.manager.reset_prefix_cache()
        except CacheInUseError:
            assert any(seq.block_table for seq in self.live.values())

    @precondition(lambda self: hasattr(self, "manager"))
    @invariant()
    def everything_agrees(self) -> None:
        self.manager.check()
        refs = [0] * NUM_BLOCKS
        for seq in self.live.values():
            assert len(seq.block_table) == -(-seq.num_computed_tokens // self.block_size)
            for block in seq.block_table:
                if block != GIVEN_BACK:
                    refs[block] += 1
        assert refs == self.manager.pool.ref_counts
        record = {
            "step": self.step,
            "events": [to_dict(event) for event in self.events],
            "scheduled": {},
        }
        self.events.clear()
        self.shadow.apply_step(record)
        own, reduced = self.manager.state(self.step), self.shadow.state()
        for part, value in own.items():
            assert reduced[part] == value, part
        self.step += 1
        self.manager.step = self.step

    @precondition(lambda self: hasattr(self, "manager"))
    @invariant()
    def sizes_add_up(self) -> None:
        cache = self.manager.cache
        total = cache.num_cached_blocks * self.block_size
        assert cache.evictable_size + cache.protected_size == total
        assert 0 <= cache.evictable_size <= total


TestManager = Manager.TestCase
TestManager.settings = settings(
    max_examples=120,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
