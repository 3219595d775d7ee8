"""The pool of physical blocks: reference counts and the free list.

The free list has two parts, and blocks are always taken from the first one that has any:

    front ─▶ [ unmatchable blocks: a stack ][ matchable, idle blocks: in eviction order ] ◀─ back

An unmatchable block holds nothing that anybody could ask for again, so it goes first. A matchable
one holds a cached prefix block; taking it means forgetting that, in the order that the eviction
policy says. A block with references is in neither part.

No operation here costs more in a large pool than in a small one.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import length_hint

from core.prefix.eviction import EvictionOrder, LRUOrder


class DoubleFreeError(RuntimeError):
    """A block was freed more often than it was taken. Nothing was changed."""


class OutOfBlocksError(RuntimeError):
    """More blocks were asked for than are free. Nothing was changed."""


class BlockPool:
    """Blocks 0 … num_blocks − 1, each free (0 references) or held by table entries.

    ref_counts: references by block id. matchable: 1 where a block's contents are cached.
    idle: the matchable blocks without references, in the order in which they would be taken.
    evict: called to take the first idle block; it forgets its contents and returns its id.
    """

    __slots__ = ("_unmatchable", "evict", "idle", "matchable", "num_blocks", "ref_counts")

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.ref_counts = [0] * num_blocks
        self.matchable = [0] * num_blocks
        # The front of the free list is the end of this list: both push and pop are O(1).
        self._unmatchable = list(range(num_blocks - 1, -1, -1))
        self.idle: EvictionOrder = LRUOrder(num_blocks)
        self.evict: Callable[[], int] = self._nothing_to_evict

    def _nothing_to_evict(self) -> int:
        raise OutOfBlocksError("no block is cached")

    @property
    def num_free(self) -> int:
        """Blocks without references, matchable ones included."""
        return len(self._unmatchable) + len(self.idle)

    @property
    def num_unmatchable(self) -> int:
        """Free blocks whose contents nobody can ask for."""
        return len(self._unmatchable)

    def allocate_one(self) -> int:
        """Take the block at the front of the free list. Raises OutOfBlocksError."""
        try:
            block = self._unmatchable.pop()
        except IndexError:
            if not self.idle:
                raise OutOfBlocksError("1 block asked for, 0 free") from None
            block = self.evict()
        self.ref_counts[block] = 1
        return block

    def allocate(self, n: int) -> list[int]:
        """Take n blocks from the front, in that order, all or none. Raises OutOfBlocksError."""
        stack = self._unmatchable
        if n > len(stack):
            if n > len(stack) + len(self.idle):
                raise OutOfBlocksError(f"{n} blocks asked for, {self.num_free} free")
            blocks = stack[::-1]
            stack.clear()
            blocks += [self.evict() for _ in range(n - len(blocks))]
        elif n:
            blocks = stack[: -n - 1 : -1]
            del stack[-n:]
        else:
            return []
        ref_counts = self.ref_counts
        for block in blocks:
            ref_counts[block] = 1
        return blocks

    def touch(self, blocks: list[int]) -> None:
        """Add one reference to each block; those that lay in the free list leave it."""
        ref_counts = self.ref_counts
        idle = self.idle
        if type(idle) is not LRUOrder:
            for block in blocks:
                if not ref_counts[block]:
                    idle.remove(block)
                ref_counts[block] += 1
            return
        # `idle.remove` by hand: a call for each block would double the cost of a hit.
        following, previous = idle.links.following, idle.links.previous
        num_held = 0
        for block in blocks:
            refs = ref_counts[block]
            if refs:
                ref_counts[block] = refs + 1
                num_held += 1
            else:
                ref_counts[block] = 1
                before = previous[block]
                after = following[block]
                following[before] = after
                previous[after] = before
        idle.length -= len(blocks) - num_held

    def free(self, blocks: list[int]) -> None:
        """Drop one reference from each block, in this order (a table is freed tail first).

        A block without references left goes to the front of the free list if it is unmatchable,
        else to its place among the idle ones. Raises DoubleFreeError.
        """
        idle = self.idle
        if type(idle) is not LRUOrder:
            self._free_ranked(blocks)
            return
        # `free_one` of each block with `idle.add` by hand, as in `touch`.
        ref_counts, matchable, stack = self.ref_counts, self.matchable, self._unmatchable
        following, previous, end = idle.links.following, idle.links.previous, idle.links.end
        last = previous[end]
        num_added = len(blocks) + len(stack)
        twice = None
        remaining = iter(blocks)
        for block in remaining:
            if ref_counts[block] == 1:
                ref_counts[block] = 0
                if matchable[block]:
                    following[last] = block
                    previous[block] = last
                    last = block
                else:
                    stack.append(block)  # faster than a bound method: CPython inlines it
            elif ref_counts[block]:
                ref_counts[block] -= 1
                num_added -= 1
            else:
                twice = block
                num_added -= 1 + length_hint(remaining)
                break
        following[last] = end
        previous[end] = last
        idle.length += num_added - len(stack)
        if twice is not None:
            self._refuse_double_free(blocks, twice, length_hint(remaining))

    def _free_ranked(self, blocks: list[int]) -> None:
        """`free` under an eviction order that has to find each block's place."""
        remaining = iter(blocks)
        for block in remaining:
            if not self.ref_counts[block]:
                self._refuse_double_free(blocks, block, length_hint(remaining))
            self.free_one(block)

    def _refuse_double_free(self, blocks: list[int], twice: int, num_remaining: int) -> None:
        """Take back what `free` has done before it met a free block."""
        for block in reversed(blocks[: len(blocks) - 1 - num_remaining]):
            refs = self.ref_counts[block]
            if refs == 0:
                if self.matchable[block]:
                    self.idle.remove(block)
                else:
                    self._unmatchable.pop()
            self.ref_counts[block] = refs + 1
        raise DoubleFreeError(f"block {twice} is already free")

    def free_one(self, block: int) -> None:
        """`free` of one block."""
        ref_counts = self.ref_counts
        if ref_counts[block] == 1:
            ref_counts[block] = 0
            if self.matchable[block]:
                self.idle.add(block)
            else:
                self._unmatchable.append(block)
        elif ref_counts[block]:
            ref_counts[block] -= 1
        else:
            raise DoubleFreeError(f"block {block} is already free")

    def push_front(self, block: int) -> None:
        """An idle block has lost its contents: it is taken next."""
        self._unmatchable.append(block)

    def push_back(self, blocks: list[int]) -> None:
        """Idle blocks have lost their contents: they are the last unmatchable ones, in order."""
        self._unmatchable[:0] = blocks[::-1]

    def free_order(self) -> list[int]:
        """Every block without references, in the order in which they would be taken."""
        return self._unmatchable[::-1] + list(self.idle)
