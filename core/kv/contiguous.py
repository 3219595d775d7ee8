"""Contiguous allocation: the way before paging, kept to be compared with.

At admission a sequence gets one run of consecutive block ids that holds all it may ever need, and
keeps it to the end. Two wastes follow: slots reserved and never filled (internal), and free blocks
that no run can use because they do not lie side by side (external fragmentation).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from core.config import EngineConfig
from core.prefix.base import Emit
from core.request import Sequence


def reserve_blocks(config: EngineConfig, num_prompt_tokens: int, max_tokens: int) -> int:
    """Blocks of one reservation: for `max_model_len`, or for what the request may reach."""
    if config.reserve == "max_model_len":
        return config.blocks_for(config.max_model_len)
    return config.blocks_for(config.tokens_at_most(num_prompt_tokens, max_tokens))


class ContiguousKVManager:
    """The same interface as `KVCacheManager`, with reservations instead of paging.

    Free blocks are kept as extents: `_starts` (ascending) and `_lengths`. A model's sliding window
    changes nothing: a run is given back whole.
    """

    sliding_window: int | None = None

    def __init__(self, config: EngineConfig, emit: Emit | None = None) -> None:
        self.block_size = config.block_size
        self.emit = emit
        self.step = 0
        self.copies: list[tuple[int, int]] = []
        self._config = config
        self._starts = [0]
        self._lengths = [config.num_blocks]
        self.num_free = config.num_blocks

    def reserve_blocks(self, seq: Sequence) -> int:
        """Blocks that a sequence reserves for its whole life."""
        return reserve_blocks(self._config, seq.num_prompt_tokens, seq.request.spec.max_tokens)

    @property
    def longest_run(self) -> int:
        """Free blocks that lie side by side, at most."""
        return max(self._lengths, default=0)

    def fits(self, seq: Sequence) -> bool:
        """Whether a free run is long enough for the reservation."""
        return self.longest_run >= self.reserve_blocks(seq)

    def admit(self, seq: Sequence, hit: list[int]) -> None:
        """Take the lowest run of consecutive ids that holds the reservation."""
        assert not hit
        length = self.reserve_blocks(seq)
        place = next(i for i, free in enumerate(self._lengths) if free >= length)
        start = self._starts[place]
        if self._lengths[place] == length:
            del self._starts[place], self._lengths[place]
        else:
            self._starts[place] += length
            self._lengths[place] -= length
        self.num_free -= length
        seq.block_table = list(range(start, start + length))
        if self.emit is not None:
            blocks = list(seq.block_table)
            self.emit(("blocks_allocated", seq.request.id, seq.id, "reserve", blocks))

    def find_prefix(self, seq: Sequence) -> list[int]:
        """Nothing is shared."""
        return []

    def blocks_wanted(self, seq: Sequence, num_new_tokens: int) -> int:
        """None: the reservation holds them all."""
        return 0

    def allocate_slots(self, seq: Sequence, num_new_tokens: int) -> int:
        return 0

    def fork(self, seq: Sequence, twins: list[Sequence]) -> None:
        raise AssertionError("a contiguous reservation cannot be shared")

    def cache_blocks(self, seq: Sequence, start: int, stop: int) -> None:
        return

    def release_before_window(self, seq: Sequence) -> None:
        raise AssertionError("a contiguous reservation is given back whole")

    def release(self, seq: Sequence, reason: str) -> None:
        """Give the run back, merged with its free neighbours."""
        if not seq.block_table:
            return
        start, length = seq.block_table[0], len(seq.block_table)
        place = bisect_left(self._starts, start)
        following = self._starts[place] if place < len(self._starts) else -1
        if self.emit is not None:
            who = (seq.request.id, seq.id, reason)
            blocks = seq.block_table
            self.emit(("blocks_freed", *who, blocks, "before", [following] * length))
        self._starts.insert(place, start)
        self._lengths.insert(place, length)
        self.num_free += length
        self._merge(place)
        if place:
            self._merge(place - 1)
        seq.block_table = []

    def usage(self) -> dict[str, int]:
        in_use = self._config.num_blocks - self.num_free
        return {"free": self.num_free, "cached": 0, "in_use": in_use}

    def state(self, step: int) -> dict[str, Any]:
        """As `KVCacheManager.state`; free blocks by id."""
        order = self._free_order()
        free = set(order)
        used = [b for b in range(self._config.num_blocks) if b not in free]
        refs = {str(block): 1 for block in used}
        return {"ref_counts": refs, "free_order": order, "cached": {}, "tree": []}

    def check(self) -> None:
        assert sum(self._lengths) == self.num_free
        ends = [s + n for s, n in zip(self._starts, self._lengths, strict=True)]
        assert all(end < start for end, start in zip(ends, self._starts[1:], strict=False))

    def _free_order(self) -> list[int]:
        return [
            block
            for start, length in zip(self._starts, self._lengths, strict=True)
            for block in range(start, start + length)
        ]

    def _merge(self, place: int) -> None:
        if place + 1 == len(self._starts):
            return
        if self._starts[place] + self._lengths[place] == self._starts[place + 1]:
            self._lengths[place] += self._lengths.pop(place + 1)
            del self._starts[place + 1]
