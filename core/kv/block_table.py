"""From a token's position to its slot: the only arithmetic of paging."""

from __future__ import annotations

from collections.abc import Sequence as Listing


def slot_mapping(block_table: Listing[int], start: int, stop: int, block_size: int) -> list[int]:
    """Slots of positions start … stop − 1: block · block_size + position mod block_size.

    Without a block table (nothing is kept): −1 for each, which is written nowhere.
    Raises IndexError if the table is too short.
    """
    if not block_table:
        return [-1] * (stop - start)
    return [block_table[p // block_size] * block_size + p % block_size for p in range(start, stop)]
