"""Prefix cache by chained hash: one dictionary from key to blocks.

Each full block has a key that chains its parent's (`core.kv.hashing`), so a prefix is found by
looking up its blocks' keys one after another until one is missing. Equal prefixes computed in one
step stay side by side under one key; a hit takes the one cached first. Nothing ties a child to its
parent: a parent can be evicted first, and the child stays matchable but unreachable until an equal
parent is cached again.

With a sliding window of W tokens the next token sees only the last W − 1 of the prefix, so a hit
needs only the last ⌈(W − 1) / block_size⌉ blocks (all of a shorter prefix, and never less than one:
a hit is something that was found). They are looked for from the end of the prefix. What lay before
them may be gone; that it was the same prefix is what the chained key says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from core.kv.hashing import block_keys, root_key, short
from core.prefix.base import PrefixCache
from core.request import GIVEN_BACK, Sequence


class CachedBlock(NamedTuple):
    """What a matchable block holds. parent_key is that of the namespace for a first block."""

    key: bytes
    parent_key: bytes
    tokens: bytes
    is_first: bool


class HashPrefixCache(PrefixCache):
    """See the module's docstring."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._blocks: dict[bytes, list[int]] = {}
        self._cached: dict[int, CachedBlock] = {}

    def match(self, seq: Sequence, max_blocks: int) -> list[int]:
        if self.sliding_window is not None:
            return self._match_window(seq, max_blocks, self.sliding_window)
        found: list[int] = []
        parent = root_key(seq.request.namespace) if max_blocks else b""
        for i, key in enumerate(block_keys(seq, max_blocks, self.block_size)[:max_blocks]):
            blocks = self._blocks.get(key)
            if blocks is None or not self._holds(blocks[0], parent, self._tokens(seq, i)):
                break
            found.append(blocks[0])
            parent = key
        return found

    def _match_window(self, seq: Sequence, max_blocks: int, window: int) -> list[int]:
        """`match` from the end: the first run of cached blocks that is long enough is the hit."""
        needed = max(1, -(-(window - 1) // self.block_size))
        keys = block_keys(seq, max_blocks, self.block_size)
        found: list[int] = []  # the run, last block first
        for i in range(max_blocks - 1, -1, -1):
            blocks = self._blocks.get(keys[i])
            parent = keys[i - 1] if i else root_key(seq.request.namespace)
            if blocks is None or not self._holds(blocks[0], parent, self._tokens(seq, i)):
                found = []
                continue
            found.append(blocks[0])
            if len(found) == needed:
                return [GIVEN_BACK] * i + found[::-1]
        return found[::-1]  # nothing, or a whole prefix that is shorter than the window

    def insert(self, seq: Sequence, start: int, stop: int) -> None:
        if start > seq.num_cached_blocks:
            return  # its parent is private (see below), so it could never be reached rightly
        keys = block_keys(seq, stop, self.block_size)
        table = seq.block_table
        for i in range(start, stop):
            block = table[i]
            if not self.pool.matchable[block]:  # a forked twin may have cached it already
                tokens = self._tokens(seq, i)
                parent = keys[i - 1] if i else root_key(seq.request.namespace)
                twins = self._blocks.get(keys[i])
                if twins is None:
                    self._blocks[keys[i]] = [block]
                elif self._holds(twins[0], parent, tokens):
                    twins.append(block)
                else:
                    # Two contents under one key: only a broken hash does this. The newcomer and
                    # all that would chain on it stay private, so a hit is never a false one.
                    break
                self._cached[block] = CachedBlock(keys[i], parent, tokens, i == 0)
                self._mark(block)
                if self.emit is not None:
                    self._emit_cached(seq, [block], i)
            seq.num_cached_blocks = i + 1

    def forget(self, block: int) -> None:
        cached = self._cached.pop(block)
        blocks = self._blocks[cached.key]
        blocks.remove(block)
        if not blocks:
            del self._blocks[cached.key]
        self._unmark(block)

    def describe(self, block: int) -> dict[str, Any]:
        cached = self._cached[block]
        return {
            "tokens": memoryview(cached.tokens).cast("q").tolist(),
            "key": short(cached.key),
            "parent_key": None if cached.is_first else short(cached.parent_key),
        }

    def check(self) -> None:
        super().check()
        assert self._cached.keys() == {b for b, m in enumerate(self.pool.matchable) if m}
        listed = [block for blocks in self._blocks.values() for block in blocks]
        assert sorted(listed) == sorted(self._cached)
        assert all(self._cached[b].key == k for k, blocks in self._blocks.items() for b in blocks)

    def _tokens(self, seq: Sequence, i: int) -> bytes:
        return seq.tokens[i * self.block_size : (i + 1) * self.block_size].tobytes()

    def _holds(self, block: int, parent: bytes, tokens: bytes) -> bool:
        cached = self._cached[block]
        return cached.parent_key == parent and cached.tokens == tokens
