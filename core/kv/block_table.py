"""From a token's position to its slot: the only arithmetic of paging.

A model whose layers all see only the last W tokens never again reads a block that lies wholly
before the last W − 1 computed ones. Such a table entry is GIVEN_BACK; the table keeps its length,
so that position // block_size stays the entry of a position. They are always the first entries.
"""

from __future__ import annotations

from collections.abc import Sequence as Listing

from core.request import GIVEN_BACK


def held_blocks(block_table: list[int]) -> list[int]:
    """The blocks that a table (or a hit) names; the list itself where none was given back."""
    if not block_table or block_table[0] != GIVEN_BACK:
        return block_table
    return [block for block in block_table if block != GIVEN_BACK]


def slot_mapping(block_table: Listing[int], start: int, stop: int, block_size: int) -> list[int]:
    """Slots of positions start … stop − 1: block · block_size + position mod block_size.

    Without a block table (nothing is kept): −1 for each, which is written nowhere. Only for
    positions that are about to be written: none of them lies in an entry that was given back.
    Raises IndexError if the table is too short.
    """
    if not block_table:
        return [-1] * (stop - start)
    return [block_table[p // block_size] * block_size + p % block_size for p in range(start, stop)]
