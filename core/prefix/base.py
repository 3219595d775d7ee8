"""What every prefix cache can do. Two are built in: a chained hash and a radix tree.

    match ──▶ lock ──▶ (compute) ──▶ insert ──▶ unlock ──▶ evict
    pure      refs +1               matchable   refs −1    forgotten

`match` changes nothing, so a failed admission leaves no trace. `lock` must come before anything is
evicted for the same request, or the path just matched could go. Reference counts live in the
`BlockPool`; a cache only decides which contents can be found again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from core.errors import CacheInUseError
from core.kv.block_pool import BlockPool
from core.kv.hashing import block_keys, short
from core.prefix.eviction import EvictionOrder, RankedOrder
from core.request import Sequence
from core.trace.events import Event

Emit = Callable[[Event], object]


class PrefixCache(ABC):
    """Finds the blocks that already hold a prefix's keys and values.

    hits: by block id, admissions and resumes that took it since it was cached.
    emit: receives events, or None when nothing is traced.
    sliding_window: tokens that every layer of the model sees; None: the whole context.
    keeps_whole_paths: blocks may not be given back before those that follow them.
    """

    keeps_whole_paths = False

    def __init__(
        self,
        pool: BlockPool,
        block_size: int,
        eviction: str,
        emit: Emit | None,
        sliding_window: int | None = None,
    ) -> None:
        self.pool = pool
        self.block_size = block_size
        self.emit = emit
        self.sliding_window = sliding_window
        self.hits = [0] * pool.num_blocks
        self._cached_at: dict[int, int] = {}
        self._num_cachings = 0
        self.num_cached_blocks = 0
        if eviction == "fifo":
            pool.idle = self._fifo_order()
        elif eviction == "lfu":
            pool.idle = RankedOrder(self.hits.__getitem__)
        pool.evict = self.evict

    def _fifo_order(self) -> EvictionOrder:
        return RankedOrder(self.rank)

    def rank(self, block: int) -> int:
        """Number of the block's caching, from 1: the order of `fifo`."""
        return self._cached_at[block]

    @property
    def evictable_size(self) -> int:
        """Cached tokens that nobody holds."""
        return len(self.pool.idle) * self.block_size

    @property
    def protected_size(self) -> int:
        """Cached tokens in blocks that somebody holds."""
        return self.num_cached_blocks * self.block_size - self.evictable_size

    @abstractmethod
    def match(self, seq: Sequence, max_blocks: int) -> list[int]:
        """The longest cached prefix of the sequence's tokens, at most `max_blocks` blocks.

        As the first entries of a table: GIVEN_BACK where the sliding window does not reach.
        Changes nothing.
        """

    def lock(self, seq: Sequence, blocks: list[int]) -> None:
        """A request takes the blocks that `match` found: one reference and one hit each."""
        self.pool.touch(blocks)
        hits = self.hits
        for block in blocks:
            hits[block] += 1

    def unlock(self, blocks: list[int]) -> None:
        """Give up one reference to each block of a table, tail first."""
        self.pool.free(blocks[::-1])

    @abstractmethod
    def insert(self, seq: Sequence, start: int, stop: int) -> None:
        """Make table entries start … stop − 1, full and computed, matchable.

        May rewrite the sequence's table to blocks that already hold the same prefix.
        """

    def rewrites(self, filled: Iterable[tuple[Sequence, int, int]]) -> set[str]:
        """Ids of the sequences whose tables `insert` would rewrite, if called with these (sequence,
        start, stop) in this order. Changes nothing."""
        return set()

    def evict(self) -> int:
        """Forget the first idle block in eviction order and return it, out of the free list."""
        block = self.pool.idle.first()
        if self.emit is not None:
            self.emit(("block_evicted", "reused", [block]))
        self.pool.idle.remove(block)
        self.forget(block)
        return block

    def uncache(self, seq: Sequence, block: int) -> None:
        """The sequence is about to write into a cached block: nobody may match it any more.

        An idle block that is uncached goes to the front of the free list.
        """
        if self.emit is not None:
            self.emit(("block_uncached", seq.request.id, seq.id, block))
        idle = not self.pool.ref_counts[block]
        if idle:
            self.pool.idle.remove(block)
        self.forget(block)
        if idle:
            self.pool.push_front(block)

    def reset(self) -> None:
        """Forget everything, in eviction order. Raises CacheInUseError while blocks are in use."""
        if self.protected_size or self.pool.num_free < self.pool.num_blocks:
            raise CacheInUseError(f"{self.pool.num_blocks - self.pool.num_free} blocks are in use")
        blocks = list(self.pool.idle)
        if self.emit is not None and blocks:
            self.emit(("block_evicted", "cache_reset", blocks))
        for block in blocks:
            self.pool.idle.remove(block)
            self.forget(block)
        self.pool.push_back(blocks)

    @abstractmethod
    def forget(self, block: int) -> None:
        """Drop the block's contents from the index."""

    @abstractmethod
    def describe(self, block: int) -> dict[str, Any]:
        """`tokens`, `key` and `parent_key` of a matchable block, as traces show them."""

    def tree(self) -> list[dict[str, Any]]:
        """The nodes of a tree, by id; empty where there is none."""
        return []

    def check(self) -> None:
        """Raise AssertionError where the index contradicts itself or the pool."""
        assert self.num_cached_blocks == sum(self.pool.matchable)

    def _mark(self, block: int) -> None:
        self.pool.matchable[block] = 1
        self.hits[block] = 0
        self._num_cachings += 1
        self._cached_at[block] = self._num_cachings
        self.num_cached_blocks += 1

    def _unmark(self, block: int) -> None:
        self.pool.matchable[block] = 0
        self.hits[block] = 0
        self.num_cached_blocks -= 1

    def _emit_cached(
        self,
        seq: Sequence,
        blocks: list[int],
        start: int,
        node: int | None = None,
        parent: int | None = None,
    ) -> None:
        assert self.emit is not None
        keys = block_keys(seq, start + len(blocks), self.block_size)
        self.emit(
            (
                "block_cached",
                seq.request.id,
                seq.id,
                blocks,
                start,
                [short(key) for key in keys[start : start + len(blocks)]],
                short(keys[start - 1]) if start else None,
                node,
                parent,
            )
        )


class NoPrefixCache(PrefixCache):
    """`prefix_cache: off`: nothing is ever found, and every freed block is unmatchable."""

    def match(self, seq: Sequence, max_blocks: int) -> list[int]:
        return []

    def insert(self, seq: Sequence, start: int, stop: int) -> None:
        return

    def forget(self, block: int) -> None:
        raise AssertionError(f"block {block} was never cached")

    def describe(self, block: int) -> dict[str, Any]:
        raise AssertionError(f"block {block} was never cached")
