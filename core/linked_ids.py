"""A list of small integers in which any one can be removed, or put before another, at once."""

from __future__ import annotations

from collections.abc import Iterator


class LinkedIds:
    """Distinct ids 0 … n − 1 in some order: a doubly linked list over two plain lists.

    following, previous: neighbours by id. `end` (= n) is the sentinel behind the last and before
    the first. An id that is not in the list has stale neighbours: callers know what they put in.
    """

    __slots__ = ("end", "following", "previous")

    def __init__(self, n: int) -> None:
        self.end = n
        self.following = [n] * (n + 1)
        self.previous = [n] * (n + 1)

    def __iter__(self) -> Iterator[int]:
        one = self.following[self.end]
        while one != self.end:
            yield one
            one = self.following[one]

    def fill(self) -> None:
        """All ids in ascending order."""
        n = self.end
        self.following = [*range(1, n + 1), 0]
        self.previous = [n, *range(n)]

    def first(self) -> int:
        """The first id; `end` if there is none."""
        return self.following[self.end]

    def insert(self, one: int, after: int) -> None:
        """Put an id before another one; before `end` is behind the last."""
        before = self.previous[after]
        self.following[before] = self.previous[after] = one
        self.previous[one], self.following[one] = before, after

    def remove(self, one: int) -> None:
        before, after = self.previous[one], self.following[one]
        self.following[before], self.previous[after] = after, before
