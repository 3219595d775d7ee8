"""A runner whose "keys and values" can be read back: it finds any block that holds the wrong thing.

In place of a key and a value each slot holds a digest of everything that the token depends on: its
namespace and all tokens up to it. Before it samples, the runner reads each sequence's whole context
through its block table and compares. The sampled token depends on the whole context too, so a wrong
copy, a false hit or a block freed too early changes what comes out.

With a sliding window it reads exactly what the step's tokens can see, and demands that the entries
which lie wholly before it name no block.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from core.request import GIVEN_BACK, Sequence
from core.runner import ScheduledSequence, ScriptedRunner, StepBatch, StepOutput
from core.scenario import Scenario

VOCABULARY = 3


class ReadBackRunner(ScriptedRunner):
    """Scripted tokens; `write_and_read` keeps the memory and finds what is wrong in it.

    gives_back: False where blocks before the window are kept all the same (tree, contiguous).
    """

    def __init__(
        self, block_size: int, sliding_window: int | None = None, gives_back: bool = True
    ) -> None:
        super().__init__(sliding_window=sliding_window)
        self.block_size = block_size
        self.gives_back = gives_back
        self.slots: dict[tuple[int, int], bytes] = {}

    def write_and_read(self, batch: StepBatch) -> list[list[bytes]]:
        """Copy, write, and then read every context; the digests of each scheduled sequence."""
        for src, dst in batch.copies:
            for offset in range(self.block_size):
                self.slots.pop((dst, offset), None)
                if (src, offset) in self.slots:
                    self.slots[dst, offset] = self.slots[src, offset]
        digests = [_digests(item.seq) for item in batch.scheduled]
        for item, digest in zip(batch.scheduled, digests, strict=True):
            start = item.seq.num_computed_tokens
            for position in range(start, start + item.num_scheduled_tokens):
                self.slots[self._slot(item.seq, position)] = digest[position]
        for item, digest in zip(batch.scheduled, digests, strict=True):
            for position in range(self._first_seen(item), _stop(item)):
                held = self.slots.get(self._slot(item.seq, position))
                assert held == digest[position], f"{item.seq.id}, token {position}: wrong slot"
        return digests

    def _first_seen(self, item: ScheduledSequence) -> int:
        """The first position that the step's tokens see; nothing may be held that ends before it.

        A hit is at least one block, also for a window of one token, which needs none.
        """
        if self.sliding_window is None:
            return 0
        first = max(0, item.seq.num_computed_tokens - self.sliding_window + 1)
        passed = first // self.block_size
        if item.num_cached_tokens:
            passed = min(passed, item.num_cached_tokens // self.block_size - 1)
        table = item.seq.block_table
        if self.gives_back:
            assert [block == GIVEN_BACK for block in table[:passed]] == [True] * passed
            assert GIVEN_BACK not in table[passed:], f"{item.seq.id}: given back too early"
        else:
            assert GIVEN_BACK not in table
        return first

    def _slot(self, seq: Sequence, position: int) -> tuple[int, int]:
        return seq.block_table[position // self.block_size], position % self.block_size


class MemoryRunner(ReadBackRunner):
    """Scripted tokens do not matter here: every token is sampled from the memory."""

    def execute(self, batch: StepBatch) -> StepOutput:
        out = []
        for item, digest in zip(batch.scheduled, self.write_and_read(batch), strict=True):
            tokens = []
            for index in range(item.seq.index, item.seq.index + item.num_samples):
                seed = digest[_stop(item) - 1] + item.seq.request.id.encode() + bytes([index])
                tokens.append(blake2b(seed).digest()[0] % VOCABULARY)
            out.append(tokens)
        return StepOutput(out)


def memory_for(scenario: dict[str, Any], window: int | None = None) -> MemoryRunner:
    """A readable memory for a scenario and a model with this window."""
    engine = Scenario.from_dict(scenario).engine
    whole = engine.prefix_cache == "radix" or engine.allocator == "contiguous"
    return MemoryRunner(engine.block_size, window, gives_back=not whole)


def _stop(item: ScheduledSequence) -> int:
    return item.seq.num_computed_tokens + item.num_scheduled_tokens


def _digests(seq: Sequence) -> list[bytes]:
    """What the slot of each token must hold."""
    state = repr(seq.request.namespace).encode()
    out = []
    for token in seq.tokens:
        state = blake2b(state + token.to_bytes(8, "little"), digest_size=16).digest()
        out.append(state)
    return out
