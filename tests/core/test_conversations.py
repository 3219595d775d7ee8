"""When the turns of conversations come, as the engine has answered the ones before."""

from __future__ import annotations

import pytest

from core.config import EngineConfig
from core.conversations import APART, PAUSE, arrivals
from core.errors import KVScopeError

TURNS = [([1, 2, 3], [4, 5]), ([1, 2, 3, 4, 5, 6], [7, 8])]
WIDE = EngineConfig(num_blocks=32, block_size=4)
ONE_BY_ONE = EngineConfig(num_blocks=32, block_size=4, max_num_seqs=1)


def test_with_room_for_all_nobody_waits_for_another() -> None:
    """Two tokens are sampled in steps 0 and 1, so the next turn comes `PAUSE` steps after 1."""
    assert arrivals([TURNS, TURNS], [WIDE]) == [[0, 1 + PAUSE], [APART, APART + 1 + PAUSE]]


def test_who_waits_for_a_place_asks_the_next_question_later() -> None:
    """One place: B, come in step 2, waits until A's long answer ends in step 9."""
    long = [([9], list(range(10)))]
    assert arrivals([long, TURNS], [ONE_BY_ONE]) == [[0], [2, 11 + PAUSE]]


@pytest.mark.parametrize("engines", [[WIDE, ONE_BY_ONE], [ONE_BY_ONE, WIDE]])
def test_a_turn_waits_for_the_slower_of_two_engines(engines: list[EngineConfig]) -> None:
    long = [([9], list(range(10)))]
    assert arrivals([long, TURNS], engines) == [[0], [2, 11 + PAUSE]]


def test_who_says_nothing_takes_no_time() -> None:
    assert arrivals([[], TURNS[:1]], [WIDE]) == [[], [APART]]
    assert arrivals([], [WIDE]) == []


def test_a_turn_that_fits_no_engine_is_refused_in_words() -> None:
    with pytest.raises(KVScopeError, match=r"tokens"):
        arrivals([[(list(range(200)), [1])]], [WIDE])
