"""Traps 1 – 8 of block pools and prefix caches, each as a named test.

Not here, because nothing of the kind exists in this version:
- 16: the pool has no padding block.
- 17: a step is computed before the next is planned, so no step is ever in flight.
"""

from __future__ import annotations

from typing import Any

import pytest

from core.kv.block_pool import BlockPool, DoubleFreeError, OutOfBlocksError
from tests.core.drive import (
    admit,
    events,
    granted,
    manager,
    req,
    run_of,
    sequence,
    served,
    snapshot,
)

CACHES = ("hash", "radix")
both_caches = pytest.mark.parametrize("cache", CACHES)
ONE_TO_EIGHT = [1, 2, 3, 4, 5, 6, 7, 8]


def hits(run: Any, name: str) -> list[int]:
    return [e["num_cached_tokens"] for e in events(run, "admitted", sequence=name)]


# ---- 1: the hit is capped ----------------------------------------------------------------------


@both_caches
@pytest.mark.parametrize(("length", "cached"), [(4, 0), (5, 4), (8, 4), (9, 8), (12, 8)])
def test_a_hit_leaves_one_token_to_compute(cache: str, length: int, cached: int) -> None:
    """Trap 1: a prompt that is cached whole gives up its last block, so that a token is left."""
    prompt = list(range(1, length + 1))
    run = run_of(
        req("A", prompt, max_tokens=1),
        req("B", prompt, max_tokens=1, arrive_step=1),
        prefix_cache=cache,
    )
    assert run.steps[1]["scheduled"]["B"] == {
        "num_scheduled_tokens": length - cached,
        "num_computed_tokens": 0,
        "num_cached_tokens": cached,
    }
    assert granted(run, "B") == [None, length - cached]


@both_caches
def test_a_resumed_sequence_computes_one_token_too(cache: str) -> None:
    """Trap 1: 8 prompt tokens and one output, all full blocks cached: one token is computed."""
    run = run_of(
        req("A", [11, 12, 13, 14, 15, 16, 17, 18], max_tokens=5),
        req("B", ONE_TO_EIGHT, max_tokens=6),
        num_blocks=5,
        prefix_cache=cache,
    )
    (resumed,) = events(run, "resumed", sequence="B")
    assert (resumed["num_tokens"], resumed["num_cached_tokens"]) == (9, 8)
    assert [n for n in granted(run, "B") if n is not None] == [8, 1, 1, 1, 1, 1]


# ---- 2: reuse ----------------------------------------------------------------------------------


@both_caches
def test_a_block_loses_its_contents_before_it_is_taken(cache: str) -> None:
    """Trap 2: while the block is being handed out, nobody can find it any more."""
    log: list[tuple[Any, ...]] = []
    kv = manager(log.append, num_blocks=2, prefix_cache=cache)
    kv.release(served(kv, [1, 2, 3, 4]), "finished")
    assert kv.find_prefix(sequence([1, 2, 3, 4, 5])) == [0]
    log.clear()
    served(kv, [7, 7, 7, 7, 7])
    assert log[0] == ("block_evicted", "reused", [0])
    assert log[1][0] == "blocks_allocated" and log[1][-1] == [1, 0]
    assert kv.find_prefix(sequence([1, 2, 3, 4, 5])) == []
    assert list(kv.state(0)["cached"]) == ["1"]


# ---- 3: twins ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("lost", "kept"), [(0, 1), (1, 0)])
def test_losing_one_of_two_equal_blocks_leaves_the_other(lost: int, kept: int) -> None:
    """Trap 3: two copies stand under one key; whichever goes, the other is found."""
    kv = manager(num_blocks=4, prefix_cache="hash")
    twins = [sequence([1, 2, 3, 4, 9]) for _ in range(2)]
    for twin in twins:
        assert admit(kv, twin) == 0
    for twin in twins:  # one step: both are computed before either is cached
        kv.allocate_slots(twin, 5)
        twin.num_computed_tokens = 5
    for twin in twins:
        kv.cache_blocks(twin, 0, 1)
    tables = [list(twin.block_table) for twin in twins]
    assert tables == [[0, 1], [2, 3]]
    keys = {entry["key"] for entry in kv.state(0)["cached"].values()}
    assert len(keys) == 1 and list(kv.state(0)["cached"]) == ["0", "2"]
    kv.release(twins[lost], "finished")
    assert kv.pool.allocate(2) == [tables[lost][1], tables[lost][0]]
    assert kv.find_prefix(sequence([1, 2, 3, 4, 9])) == [tables[kept][0]]
    kv.check()


def test_equal_prompts_of_one_step_both_miss_and_a_later_one_hits_the_first() -> None:
    """Trap 3: two requests of one step compute twice; the third takes the older copy."""
    run = run_of(
        req("A", [1, 2, 3, 4, 9], max_tokens=3),
        req("B", [1, 2, 3, 4, 9], max_tokens=3),
        req("C", [1, 2, 3, 4, 9], max_tokens=1, arrive_step=1),
        prefix_cache="hash",
    )
    assert (hits(run, "A"), hits(run, "B"), hits(run, "C")) == ([0], [0], [4])
    (shared,) = events(run, "block_shared", sequence="C")
    assert shared["blocks"] == [0]


# ---- 4, 5: hits in the free list ---------------------------------------------------------------


@both_caches
def test_a_hit_takes_its_blocks_out_of_the_free_list(cache: str) -> None:
    """Trap 4: idle cached blocks that are hit leave the list with one reference."""
    kv = manager(num_blocks=6, prefix_cache=cache)
    kv.release(served(kv, [*ONE_TO_EIGHT, 9]), "finished")
    assert kv.pool.free_order() == [2, 3, 4, 5, 1, 0]
    assert kv.usage() == {"free": 4, "cached": 2, "in_use": 0}
    seq = sequence([*ONE_TO_EIGHT, 10])
    assert admit(kv, seq) == 2
    assert kv.pool.free_order() == [2, 3, 4, 5]
    assert kv.pool.ref_counts == [1, 1, 0, 0, 0, 0]
    assert kv.usage() == {"free": 4, "cached": 0, "in_use": 2}
    assert kv.num_free == 4


@both_caches
def test_hits_in_the_free_list_do_not_count_as_free(cache: str) -> None:
    """Trap 5: three blocks are free, two of them are the hit, two more are needed: refused."""
    run = run_of(
        req("A", ONE_TO_EIGHT, max_tokens=1),
        req("B", [21, 22, 23, 24, 25], max_tokens=4, arrive_step=1),
        req("C", [*ONE_TO_EIGHT, 31, 32, 33, 34, 35, 36], max_tokens=1, arrive_step=2),
        num_blocks=5,
        prefix_cache=cache,
    )
    (wait,) = events(run, "waiting", sequence="C")
    assert (wait["reason"], wait["needed"], wait["available"]) == ("no_free_blocks", 2, 1)
    before, after = run.steps[1]["state"], run.steps[2]["state"]
    assert after["ref_counts"] == before["ref_counts"] == {"2": 1, "3": 1}
    assert after["free_order"] == before["free_order"] == [4, 1, 0]
    assert after["cached"]["0"]["hits"] == after["cached"]["1"]["hits"] == 0
    assert hits(run, "C") == [8]


# ---- 6: release --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cache", "order"),
    [("hash", [2, 3, 4, 1, 0]), ("radix", [2, 3, 4, 1, 0]), ("off", [0, 1, 2, 3, 4])],
)
def test_release_goes_tail_first_unhashed_to_the_front(cache: str, order: list[int]) -> None:
    """Trap 6: blocks 0 and 1 are full, 2 is not; without a cache all three go to the front."""
    kv = manager(num_blocks=5, prefix_cache=cache)
    kv.release(served(kv, list(range(10))), "finished")
    assert kv.pool.free_order() == order
    assert kv.pool.allocate(5) == order


# ---- 7: double free ----------------------------------------------------------------------------


@pytest.mark.parametrize("eviction", ["lru", "fifo", "lfu"])
@pytest.mark.parametrize(
    "blocks",
    [[5], [3, 3], [3, 2, 3], [2, 3, 2], [1, 0, 5], [1, 1], [0, 3, 0, 0], [3, 0, 1, 2, 3], [4, 4]],
    ids=str,
)
@both_caches
def test_a_double_free_is_an_error_and_changes_nothing(
    cache: str, blocks: list[int], eviction: str
) -> None:
    """Trap 7: free already, or twice in one call: an error, and everything as it was."""
    kv = manager(num_blocks=7, prefix_cache=cache, eviction=eviction)
    held = served(kv, list(range(100, 109)))  # blocks 0 1 hashed, 2 not
    kv.release(served(kv, list(range(8)), cache_salt="idle"), "finished")
    assert set(kv.pool.free_order()[-2:]) == {4, 3}
    admit(kv, sequence(list(range(5)), cache_salt="idle"))  # block 3 is in use, 4 idle
    assert kv.pool.ref_counts == [1, 1, 1, 1, 0, 0, 0]
    before = snapshot(kv)
    with pytest.raises(DoubleFreeError):
        kv.pool.free(blocks)
    assert snapshot(kv) == before
    kv.check()
    kv.release(held, "finished")
    assert min(kv.pool.ref_counts) == 0


def test_one_reference_too_many_is_refused_although_others_hold_the_block() -> None:
    """Trap 7: two references, three frees in one call; then both references are still there."""
    pool = BlockPool(3)
    (block,) = pool.allocate(1)
    pool.touch([block])
    with pytest.raises(DoubleFreeError, match=r"block 0 is already free"):
        pool.free([block, block, block])
    assert pool.ref_counts == [2, 0, 0] and pool.free_order() == [1, 2]
    pool.free([block, block])
    assert pool.ref_counts == [0, 0, 0] and pool.free_order() == [0, 1, 2]
    with pytest.raises(DoubleFreeError):
        pool.free_one(block)
    assert pool.ref_counts == [0, 0, 0] and pool.num_free == 3


def test_asking_for_too_many_blocks_takes_none() -> None:
    """Trap 5: all or none, and cached blocks are not forgotten for a request that fails."""
    kv = manager(num_blocks=3, prefix_cache="hash")
    kv.release(served(kv, [1, 2, 3, 4]), "finished")
    before = snapshot(kv)
    with pytest.raises(OutOfBlocksError):
        kv.pool.allocate(4)
    assert snapshot(kv) == before


# ---- 8: a missing parent -----------------------------------------------------------------------


def test_a_hit_stops_where_the_parent_is_gone() -> None:
    """Trap 8: the middle block is forgotten: its child stays cached but cannot be reached."""
    kv = manager(num_blocks=8, prefix_cache="hash", eviction="fifo")
    prompt = list(range(13))
    kv.release(served(kv, prompt), "finished")
    kv.pool.touch([0])  # a holder keeps the first block, so the second one is evicted
    assert kv.pool.allocate(6) == [3, 4, 5, 6, 7, 1]
    assert kv.find_prefix(sequence(prompt)) == [0]
    assert list(kv.state(0)["cached"]) == ["0", "2"]


def test_a_child_is_found_again_when_an_equal_parent_is_cached() -> None:
    """Trap 8: the first block is forgotten, then computed anew elsewhere: its child is hit."""
    kv = manager(num_blocks=4, prefix_cache="hash", eviction="fifo")
    prompt = list(range(9))
    kv.release(served(kv, prompt), "finished")
    assert kv.pool.free_order() == [2, 3, 0, 1]
    kv.pool.allocate(3)
    assert kv.find_prefix(sequence(prompt)) == []
    kv.pool.free([2, 3, 0])
    kv.release(served(kv, prompt[:5]), "finished")
    table = kv.find_prefix(sequence(prompt))
    assert len(table) == 2 and table[1] == 1 and table[0] != 1
