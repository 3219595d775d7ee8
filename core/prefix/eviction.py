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

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from sortedcontainers import SortedList

LAST = -1
"""`before` of the block that would be taken last."""


class EvictionOrder(Protocol):
    """Idle cached blocks in the order in which they would be taken."""

    def add(self, block: int, /) -> object:
        """A block has lost its last reference."""
        ...

    def remove(self, block: int, /) -> object:
        """A block is referenced again."""
        ...

    def first(self) -> int:
        """The block that would be taken next."""
        ...

    def before(self, block: int) -> int:
        """The block that would be taken right after this one, or LAST."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...


class LRUOrder(OrderedDict[int, None]):
    """In order of release. Methods are the dict's own: no Python frame in the hottest path."""

    add = OrderedDict.setdefault
    remove = OrderedDict.__delitem__

    def first(self) -> int:
        return next(iter(self))

    def before(self, block: int) -> int:
        """LAST: a block that is released is always the last one of this order."""
        return LAST


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


class LeafFirstFIFO:
    """In order of first caching, but a parent only after its cached children.

    A parent was cached before its children, so once the last of them goes it is the oldest of all
    and goes next: it stands right behind that child. Idle blocks thus form runs, each from a leaf
    up towards the root; runs stand in the order of their first block's rank.

    rank: number of a block's first caching. children: the cached children of a block (all idle
    when the block is).
    """

    def __init__(
        self, rank: Callable[[int], int], children: Callable[[int], Iterable[int]]
    ) -> None:
        self._rank = rank
        self._children = children
        self._run: dict[int, deque[int]] = {}  # block → the run in which it stands
        self._runs: SortedList[tuple[int, int]] = SortedList()  # (rank, first block)

    def add(self, block: int, /) -> None:
        runs = (self._run[child] for child in self._children(block))
        run = max(runs, key=lambda run: self._rank(run[0]), default=None)
        if run is None:
            run = deque()
            self._runs.add((self._rank(block), block))
        run.append(block)
        self._run[block] = run

    def remove(self, block: int, /) -> None:
        run = self._run.pop(block)
        if run[0] == block:
            self._runs.remove((self._rank(block), block))
            run.popleft()
            if run:  # the leaf was evicted: its parent leads the run now
                self._runs.add((self._rank(run[0]), run[0]))
        else:
            # A hit takes a prefix from the root on: whatever stood behind is referenced already.
            run.pop()

    def first(self) -> int:
        first: tuple[int, int] = self._runs[0]
        return first[1]

    def before(self, block: int) -> int:
        head = self._run[block][0]
        place = self._runs.bisect_right((self._rank(head), head))
        return self._runs[place][1] if place < len(self._runs) else LAST

    def __len__(self) -> int:
        return len(self._run)

    def __iter__(self) -> Iterator[int]:
        for _, head in self._runs:
            yield from self._run[head]
