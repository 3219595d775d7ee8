"""Waiting queues: who is next.

An entry is a sequence that waits; a request with n > 1 that has not forked yet is one entry. Only
the head may be admitted, in both policies: it blocks those behind it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from typing import Protocol

from core.request import Sequence


class WaitingQueue(Protocol):
    """Waiting sequences in policy order. Pushing returns the place taken, from 0."""

    def push(self, seq: Sequence) -> int:
        """A new arrival."""
        ...

    def push_preempted(self, seq: Sequence) -> int:
        """A victim of preemption."""
        ...

    def head(self) -> Sequence: ...

    def pop(self) -> Sequence:
        """Remove and return the head."""
        ...

    def remove(self, seq: Sequence) -> None: ...

    def entries(self) -> list[Sequence]: ...

    def __len__(self) -> int: ...


class FCFSQueue:
    """First come, first served. A victim goes to the front: it came before all who wait."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, Sequence] = OrderedDict()

    def push(self, seq: Sequence) -> int:
        self._entries[seq.id] = seq
        return len(self._entries) - 1

    def push_preempted(self, seq: Sequence) -> int:
        self._entries[seq.id] = seq
        self._entries.move_to_end(seq.id, last=False)
        return 0

    def head(self) -> Sequence:
        return next(iter(self._entries.values()))

    def pop(self) -> Sequence:
        return self._entries.popitem(last=False)[1]

    def remove(self, seq: Sequence) -> None:
        del self._entries[seq.id]

    def entries(self) -> list[Sequence]:
        return list(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)


def _sort_key(seq: Sequence) -> tuple[int, ...]:
    return seq.sort_key


class PriorityQueue:
    """By (priority, arrival), lower first; a victim waits in its place."""

    def __init__(self) -> None:
        self._entries: list[Sequence] = []

    def push(self, seq: Sequence) -> int:
        place = bisect_left(self._entries, seq.sort_key, key=_sort_key)
        self._entries.insert(place, seq)
        return place

    def push_preempted(self, seq: Sequence) -> int:
        return self.push(seq)

    def head(self) -> Sequence:
        return self._entries[0]

    def pop(self) -> Sequence:
        return self._entries.pop(0)

    def remove(self, seq: Sequence) -> None:
        del self._entries[bisect_left(self._entries, seq.sort_key, key=_sort_key)]

    def entries(self) -> list[Sequence]:
        return list(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
