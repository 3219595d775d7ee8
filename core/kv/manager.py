"""Block tables: which physical blocks hold a sequence's keys and values.

A sequence's tokens fill its blocks in logical order; the blocks lie anywhere in the pool:

    tokens        0 1 2 3 | 4 5 6 7 | 8 9 . .      block_size 4, 10 tokens computed
    block_table     [7]       [2]       [9]
    slot of token 6 = block_table[6 // 4] · 4 + 6 % 4 = 2 · 4 + 2 = 10

Who may write where: a sequence writes only behind its computed tokens. A block with one reference
is its own; a shared one is copied before the first write (copy-on-write), unless the others have
copied it already and it is the last holder.

If every layer of the model sees only the last W tokens, what lies before the last W − 1 computed
ones is never read again. After each step those blocks are given back and their entries become −1:

    W 6, 13 computed   0 1 2 3 | 4 5 6 7 | 8 9 10 11 | 12 . . .      8 … 12 are read again
    block_table           −1        −1         [9]        [5]

So a sequence holds at most ⌈(W − 1) / block_size⌉ + 1 blocks beside those of its present chunk.
Not under the radix tree, which keeps whole paths (see `core.prefix.radix_cache`), and not with
contiguous allocation, which reserves.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

from core.config import EngineConfig
from core.kv.block_pool import BlockPool
from core.kv.block_table import held_blocks
from core.prefix.base import Emit, NoPrefixCache, PrefixCache
from core.prefix.hash_cache import HashPrefixCache
from core.prefix.radix_cache import RadixPrefixCache
from core.request import GIVEN_BACK, Sequence

_CACHES: dict[str, type[PrefixCache]] = {
    "radix": RadixPrefixCache,
    "hash": HashPrefixCache,
    "off": NoPrefixCache,
}


class KVCacheManager:
    """Paged allocation: gives sequences blocks and takes them back.

    step: the present step, for `last_used`. copies: (src, dst) of the step so far, in order.
    sliding_window: tokens that every layer of the model sees, the newest included; None if the
    whole context, or if the cache keeps whole paths, so that nothing is given back before the end.
    """

    def __init__(
        self, config: EngineConfig, emit: Emit | None = None, sliding_window: int | None = None
    ) -> None:
        self.block_size = config.block_size
        self.emit = emit
        self.pool = BlockPool(config.num_blocks)
        kind = _CACHES[config.prefix_cache]
        self.sliding_window = None if kind.keeps_whole_paths else sliding_window
        self.cache = kind(self.pool, config.block_size, config.eviction, emit, self.sliding_window)
        self.step = 0
        self.copies: list[tuple[int, int]] = []
        self._last_used: dict[int, int] = {}

    @property
    def num_free(self) -> int:
        """Blocks without references, cached ones included."""
        return self.pool.num_free

    def find_prefix(self, seq: Sequence) -> list[int]:
        """The cached blocks of a waiting sequence's prefix, as a table. Changes nothing.

        At most ⌊(num_tokens − 1) / block_size⌋: the last token must be computed to sample the next.
        None for a request that wants its prompt's log-probabilities: they come from computing every
        position. Its blocks are cached all the same.
        Entries that the sliding window does not reach are GIVEN_BACK from the start.
        """
        if seq.request.spec.prompt_logprobs:
            return []
        return self.cache.match(seq, (len(seq.tokens) - 1) // self.block_size)

    def num_idle(self, blocks: list[int]) -> int:
        """How many of a hit's blocks lie in the free list: once taken, they are not free."""
        refs = self.pool.ref_counts
        return sum(not refs[block] for block in held_blocks(blocks))

    def admit(self, seq: Sequence, hit: list[int]) -> None:
        """Start a table with the blocks of a hit. The caller has made sure that the rest fits."""
        if hit:
            blocks = held_blocks(hit)
            self.cache.lock(seq, blocks)
            seq.block_table = list(hit)
            if self.emit is not None:
                index = len(hit) - len(blocks)
                self.emit(("block_shared", seq.request.id, seq.id, "hit", list(blocks), index))
        seq.num_computed_tokens = len(hit) * self.block_size
        seq.num_cached_blocks = len(hit)

    def blocks_wanted(self, seq: Sequence, num_new_tokens: int) -> int:
        """Free blocks needed to compute `num_new_tokens` more, one for a copy included."""
        computed = seq.num_computed_tokens + seq.num_in_flight_tokens
        table = seq.block_table
        wanted = -(-(computed + num_new_tokens) // self.block_size) - len(table)
        return wanted + self._must_copy(table, computed // self.block_size)

    def blocks_wanted_together(self, beams: list[Sequence], num_new_tokens: int) -> int:
        """The same for sequences of one length that are all scheduled or none of them.

        Those that share the block of their first write copy it one after another, and the last one
        keeps it, unless somebody else holds it too.
        """
        entry = beams[0].num_computed_tokens // self.block_size
        wanted = 0
        held = Counter(seq.block_table[entry] for seq in beams if entry < len(seq.block_table))
        for block, num_holders in held.items():
            wanted += num_holders - (self.pool.ref_counts[block] == num_holders)
        for seq in beams:
            num_tokens = seq.num_computed_tokens + num_new_tokens
            wanted += -(-num_tokens // self.block_size) - len(seq.block_table)
        return wanted

    def allocate_slots(self, seq: Sequence, num_new_tokens: int) -> int:
        """Make room behind the computed tokens for `num_new_tokens` more; enough blocks are free.

        Copies the block of the first write if it is shared. Returns the blocks appended.
        """
        computed = seq.num_computed_tokens + seq.num_in_flight_tokens
        table = seq.block_table
        first = computed // self.block_size
        if self._must_copy(table, first):
            self._copy_on_write(seq, first, computed % self.block_size)
        elif first < len(table) and self.pool.matchable[table[first]]:
            self.cache.uncache(seq, table[first])
        wanted = -(-(computed + num_new_tokens) // self.block_size) - len(table)
        if wanted > 0:
            blocks = self.pool.allocate(wanted)
            table += blocks
            if self.emit is not None:
                reason = "prompt" if computed < seq.num_prompt_tokens else "decode"
                self.emit(("blocks_allocated", seq.request.id, seq.id, reason, blocks))
        return wanted

    def fork(self, seq: Sequence, twins: list[Sequence]) -> None:
        """Give each twin the sequence's table: all blocks shared, nothing copied."""
        for twin in twins:
            twin.block_table = list(seq.block_table)
            twin.num_cached_blocks = seq.num_cached_blocks
            twin.block_keys = list(seq.block_keys)
            self.pool.touch(held_blocks(seq.block_table))

    def cache_blocks(self, seq: Sequence, start: int, stop: int) -> None:
        """Blocks start … stop − 1 of the table have just been filled: make them matchable."""
        self.cache.insert(seq, start, stop)

    def release_before_window(self, seq: Sequence) -> None:
        """Give back the blocks that lie wholly before the last W − 1 computed tokens, tail first.

        Entry i is one of them if (i + 1) · block_size ≤ num_computed_tokens − (W − 1).
        """
        assert self.sliding_window is not None
        table = seq.block_table
        stop = (seq.num_computed_tokens - self.sliding_window + 1) // self.block_size
        start = stop
        while start > 0 and table[start - 1] != GIVEN_BACK:
            start -= 1
        if start >= stop:
            return
        blocks = table[start:stop]
        self._last_used.update(dict.fromkeys(blocks, self.step))
        if self.emit is None:
            self.cache.unlock(blocks)
        else:
            self._free_traced(seq, "window", blocks, self.emit, start)
        table[start:stop] = [GIVEN_BACK] * (stop - start)

    def release(self, seq: Sequence, reason: str) -> None:
        """Give up the whole table, tail first."""
        table = seq.block_table
        blocks = held_blocks(table)
        self._last_used.update(dict.fromkeys(blocks, self.step))
        if self.emit is None:
            self.cache.unlock(blocks)
        elif blocks:
            self._free_traced(seq, reason, blocks, self.emit)
        elif table:  # all of it was given back before, and yet the table ends here
            self.emit(("blocks_freed", seq.request.id, seq.id, reason, [], "front", None))
        seq.block_table = []
        seq.num_cached_blocks = 0

    def reset_prefix_cache(self) -> None:
        """Forget every cached block. Raises CacheInUseError while blocks are in use."""
        self.cache.reset()

    def usage(self) -> dict[str, int]:
        """Blocks free (unmatchable), cached (matchable, idle) and in use."""
        free, cached = self.pool.num_unmatchable, len(self.pool.idle)
        return {"free": free, "cached": cached, "in_use": self.pool.num_blocks - free - cached}

    def state(self, step: int) -> dict[str, Any]:
        """Reference counts, free order, cached blocks and tree, as `--state` shows them."""
        refs = self.pool.ref_counts
        cached = {}
        for block, matchable in enumerate(self.pool.matchable):
            if matchable:
                cached[str(block)] = {
                    **self.cache.describe(block),
                    "last_used": step if refs[block] else self._last_used[block],
                    "lock_ref": refs[block],
                    "hits": self.cache.hits[block],
                }
        tree = self.cache.tree()
        for node in tree:
            node["last_used"] = cached[str(node["blocks"][-1])]["last_used"]
        return {
            "ref_counts": {str(b): n for b, n in enumerate(refs) if n},
            "free_order": self.pool.free_order(),
            "cached": cached,
            "tree": tree,
        }

    def check(self) -> None:
        """Raise AssertionError where pool and index contradict each other."""
        order = self.pool.free_order()
        assert sorted(order) == [b for b, n in enumerate(self.pool.ref_counts) if not n]
        assert all(self.pool.matchable[b] for b in self.pool.idle)
        self.cache.check()

    def _must_copy(self, table: list[int], entry: int) -> bool:
        return entry < len(table) and self.pool.ref_counts[table[entry]] > 1

    def _copy_on_write(self, seq: Sequence, entry: int, num_slots: int) -> None:
        src = seq.block_table[entry]
        dst = self.pool.allocate_one()
        if self.emit is not None:
            who = (seq.request.id, seq.id, "copy_on_write")
            self.emit(("blocks_allocated", *who, [dst]))
            self.emit(("block_copied", *who, src, dst, entry, num_slots))
        self.copies.append((src, dst))
        seq.block_table[entry] = dst
        self.pool.free_one(src)

    def _free_traced(
        self, seq: Sequence, reason: str, blocks: list[int], emit: Emit, start: int | None = None
    ) -> None:
        """Free the blocks tail first and say where they went.

        start: the table entry of the first one, where the rest of the table stays.
        """
        entry_of = None if start is None else dict(zip(blocks, count(start), strict=False))
        pool = self.pool
        held: list[int] = []
        front: list[int] = []
        idle: list[int] = []
        before: list[int] = []
        for block in reversed(blocks):
            pool.free_one(block)
            if pool.ref_counts[block]:
                held.append(block)
            elif pool.matchable[block]:
                idle.append(block)
                before.append(pool.idle.before(block))
            else:
                front.append(block)
        who = (seq.request.id, seq.id, reason)
        at_back = all(other < 0 for other in before)
        for to, group, places in (
            ("held", held, None),
            ("front", front, None),
            ("back", idle, None) if at_back else ("before", idle, before),
        ):
            if group:
                entries = None if entry_of is None else [entry_of[block] for block in group]
                emit(("blocks_freed", *who, group, to, places, entries))
