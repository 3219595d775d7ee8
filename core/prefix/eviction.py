"""Which idle cached block is given up first.

An order holds the matchable blocks without references. `lru` goes by release, `fifo` by first
caching, `lfu` by hits and then release. In a tree a block can only go after its cached children;
under `lru` and `lfu` that holds by itself, because a table is released tail first and a hit takes
a whole prefix: a parent is released later, and hit at least as often, as any child.
Under `fifo` it does not, so the tree has an order of its own, `LeafFirstFIFO`.

Each order also tells where a block stands (`before`), so that a trace can carry positions. That is
why these are sorted lists and not heaps: both take a few microseconds, only one knows its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from sortedcontainers import SortedList

from core.linked_ids import LinkedIds

LAST = -1
"""`before` of the block that would be taken last."""


class EvictionOrder(Protocol):
    """Idle cached blocks in the order in which they would be taken."""

    def add(self, block: int, /) -> None:
        """A block has lost its last reference."""
        ...

    def remove(self, block: int, /) -> None:
        """A block is referenced again, or about to be evicted."""
        ...

    def first(self) -> int:
        """The block that would be taken next."""
        ...

    def before(self, block: int) -> int:
        """The block that would be taken right after this one, or LAST."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...


class LRUOrder:
    """In order of release: links between block ids, so that both ends and any middle are O(1).

    It is the default and lies on the hottest path: `BlockPool.touch` and `free` work on `links` and
    `length` themselves.
    """

    __slots__ = ("length", "links")

    def __init__(self, num_blocks: int) -> None:
        self.links = LinkedIds(num_blocks)
        self.length = 0

    def add(self, block: int, /) -> None:
        self.links.insert(block, self.links.end)
        self.length += 1

    def remove(self, block: int, /) -> None:
        self.links.remove(block)
        self.length -= 1

    def first(self) -> int:
        return self.links.first()

    def before(self, block: int) -> int:
        """LAST: a block that is released is always the last one of this order."""
        return LAST

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        return iter(self.links)


class RankedOrder:
    """In ascending order of a rank that is fixed while the block is idle.

    rank: the rank of a block at the moment at which it becomes idle.
    """

    def __init__(self, rank: Callable[[int], int]) -> None:
        self._rank = rank
        self._released = 0
        self._entry: dict[int, tuple[int, int, int]] = {}
        self._sorted: SortedList[tuple[int, int, int]] = SortedList()

    def add(self, block: int, /) -> None:
        self._released += 1
        entry = (self._rank(block), self._released, block)
        self._entry[block] = entry
        self._sorted.add(entry)

    def remove(self, block: int, /) -> None:
        self._sorted.remove(self._entry.pop(block))

    def first(self) -> int:
        entry: tuple[int, int, int] = self._sorted[0]
        return entry[2]

    def before(self, block: int) -> int:
        place = self._sorted.bisect_right(self._entry[block])
        return self._sorted[place][2] if place < len(self._sorted) else LAST

    def __len__(self) -> int:
        return len(self._entry)

    def __iter__(self) -> Iterator[int]:
        return (entry[2] for entry in self._sorted)


class Tree(Protocol):
    """What `LeafFirstFIFO` asks of the tree about a cached block."""

    def is_leaf(self, block: int) -> bool:
        """No cached block follows it."""
        ...

    def parent_block(self, block: int) -> int | None: ...

    def rank(self, block: int) -> int:
        """Number of its first caching; greater than its parent's."""
        ...

    def newest_rank(self, block: int) -> int:
        """The greatest rank among the block and those that follow it: that of a leaf."""
        ...


class LeafFirstFIFO:
    """In order of first caching, but a parent only after its cached children.

    A parent was cached before its children, so once the last of them goes it is the oldest of all
    and goes next. Idle blocks thus form runs, each from a leaf up towards the root, in the order of
    their leaves' ranks; a block stands in the run of the newest leaf behind it.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._idle: set[int] = set()
        self._leaves: SortedList[tuple[int, int]] = SortedList()  # (rank, block)

    def add(self, block: int, /) -> None:
        self._idle.add(block)
        if self._tree.is_leaf(block):
            self._leaves.add((self._tree.rank(block), block))

    def remove(self, block: int, /) -> None:
        self._idle.remove(block)
        if self._tree.is_leaf(block):
            self._leaves.remove((self._tree.rank(block), block))

    def child_gone(self, parent: int) -> None:
        """A child of the block was forgotten; if it was the last one, the block may go too."""
        if parent in self._idle and self._tree.is_leaf(parent):
            self._leaves.add((self._tree.rank(parent), parent))

    def first(self) -> int:
        leaf: tuple[int, int] = self._leaves[0]
        return leaf[1]

    def before(self, block: int) -> int:
        """Asked of a block that has just become idle: it ends the run in which it stands."""
        place = self._leaves.bisect_left((self._tree.newest_rank(block) + 1, LAST))
        return self._leaves[place][1] if place < len(self._leaves) else LAST

    def __len__(self) -> int:
        return len(self._idle)

    def __iter__(self) -> Iterator[int]:
        for rank, leaf in self._leaves:
            block: int | None = leaf
            while block in self._idle and self._tree.newest_rank(block) == rank:
                yield block
                block = self._tree.parent_block(block)
