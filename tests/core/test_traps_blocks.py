"""Traps of block pools and prefix caches, each as a named test.

Not here, because nothing of the kind exists in this version:
- 13, its half about drafts: there is no speculative decoding; the half about unwritten blocks is.
- 15: prompt log-probabilities are not offered (`logprobs` is refused with a real model).
- 16: the pool has no padding block.
- 17: a step is computed before the next is planned, so no step is ever in flight.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from core.kv import hashing
from core.kv.block_pool import BlockPool, DoubleFreeError, OutOfBlocksError
from core.prefix.base import CacheInUseError
from tests.core.drive import (
    admit,
    compute,
    engine_of,
    events,
    granted,
    manager,
    req,
    run_of,
    run_with_contents,
    sequence,
    served,
    snapshot,
)
from tests.scenario_gen import random_scenario

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


# ---- 9: namespaces -----------------------------------------------------------------------------


def test_keys_differ_by_kind_and_value_of_the_namespace_from_the_first_block_on() -> None:
    """Trap 9: nothing, salt x, adapter x, salt y and both: five keys for the same two blocks."""
    spaces: list[dict[str, str]] = [
        {},
        {"cache_salt": "x"},
        {"adapter": "x"},
        {"cache_salt": "y"},
        {"cache_salt": "x", "adapter": "x"},
        {"cache_salt": "x;", "adapter": "x"},
        {"adapter": "x;4:salt=1:x"},
    ]
    keys = [hashing.block_keys(sequence(ONE_TO_EIGHT, **space), 2, 4) for space in spaces]
    assert len({first for first, _ in keys}) == len({second for _, second in keys}) == 7
    for space, (first, second) in zip(spaces, keys, strict=True):
        root = hashing.root_key(sequence([1], **space).request.namespace)
        tokens = sequence(ONE_TO_EIGHT).tokens
        assert first == hashing.chain_key(root, tokens[:4].tobytes())
        assert second == hashing.chain_key(first, tokens[4:].tobytes())


@both_caches
@pytest.mark.parametrize(
    ("one", "other", "cached"),
    [
        ({"cache_salt": "x"}, {"cache_salt": "x"}, 8),
        ({"cache_salt": "x"}, {"cache_salt": "y"}, 0),
        ({"cache_salt": "x"}, {}, 0),
        ({"cache_salt": "x"}, {"adapter": "x"}, 0),
        ({"adapter": "x"}, {"adapter": "x"}, 8),
    ],
)
def test_a_hit_needs_the_same_salt_and_adapter(
    cache: str, one: dict[str, str], other: dict[str, str], cached: int
) -> None:
    """Trap 9: equal tokens in another namespace are no hit."""
    prompt = [*ONE_TO_EIGHT, 9]
    run = run_of(
        req("A", prompt, max_tokens=1, **one),
        req("B", prompt, max_tokens=1, arrive_step=1, **other),
        prefix_cache=cache,
    )
    assert hits(run, "B") == [cached]


# ---- 10: collisions ----------------------------------------------------------------------------


def _constant(parent: bytes, tokens: bytes) -> bytes:
    return b"K" * 32


def _first_level_only(parent: bytes, tokens: bytes) -> bytes:
    """All first blocks of the nameless namespace share a key; the rest is honest."""
    if parent == hashing.root_key((None, None)):
        return b"K" * 32
    return hashing.sha256(parent + tokens).digest()


def _one_bit(parent: bytes, tokens: bytes) -> bytes:
    return (hashing.sha256(parent + tokens).digest()[:1] < b"\x80" and b"0" * 32) or b"1" * 32


WEAK = {"constant": _constant, "first level": _first_level_only, "one bit": _one_bit}


@pytest.fixture(params=WEAK, ids=WEAK.keys())
def weak_hash(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(hashing, "chain_key", WEAK[request.param])
    return str(request.param)


@both_caches
def test_other_tokens_under_the_same_key_are_no_hit(cache: str, weak_hash: str) -> None:
    """Trap 10: the first blocks collide, tokens are compared: 0 blocks, and the true one: 1."""
    kv = manager(num_blocks=8, prefix_cache=cache)
    kv.release(served(kv, [1, 2, 3, 4, 5]), "finished")
    kv.release(served(kv, [6, 7, 8, 9, 5]), "finished")
    assert kv.find_prefix(sequence([1, 2, 3, 4, 9])) == [0]
    assert kv.find_prefix(sequence([2, 2, 2, 2, 2])) == []
    assert kv.find_prefix(sequence([6, 7, 8, 9, 9])) in ([], [2], [1])
    kv.check()


@pytest.mark.parametrize("chunks", [(8,), (4, 4), (5, 3)], ids=str)
def test_a_child_of_a_collided_block_is_no_hit_for_another_prefix(
    monkeypatch: pytest.MonkeyPatch, chunks: tuple[int, ...]
) -> None:
    """Trap 10: B's first block collides with A's. B's second block, computed behind other tokens,
    must not be found behind A's first one, in however many chunks B was computed."""
    monkeypatch.setattr(hashing, "chain_key", _first_level_only)
    kv = manager(num_blocks=8, prefix_cache="hash")
    served(kv, [1, 2, 3, 4, 5])
    other = sequence([6, 7, 8, 9, 30, 31, 32, 33, 34])
    admit(kv, other)
    for chunk in chunks:
        compute(kv, other, chunk)
    assert kv.find_prefix(sequence([1, 2, 3, 4, 30, 31, 32, 33, 34])) == [0]


@pytest.mark.parametrize("evicted_first", [True, False])
def test_a_collided_key_stays_right_when_its_first_owner_goes(
    monkeypatch: pytest.MonkeyPatch, evicted_first: bool
) -> None:
    """Trap 10: A's blocks are cached and evicted, B's colliding prefix comes before or after."""
    monkeypatch.setattr(hashing, "chain_key", _first_level_only)
    kv = manager(num_blocks=6, prefix_cache="hash")
    first = served(kv, [1, 2, 3, 4, 30, 31, 32, 33, 34])
    kv.release(first, "finished")
    if evicted_first:
        kv.pool.free(kv.pool.allocate(6))
    served(kv, [6, 7, 8, 9, 30, 31, 32, 33, 34])
    hit = kv.find_prefix(sequence([1, 2, 3, 4, 30, 31, 32, 33, 34]))
    assert hit == ([] if evicted_first else [0, 1])


@pytest.mark.parametrize("weak", list(WEAK))
def test_random_runs_on_a_broken_hash_never_read_wrong_contents(
    monkeypatch: pytest.MonkeyPatch, weak: str
) -> None:
    """Trap 10: every context is read back from the slots; a false hit would show there."""
    monkeypatch.setattr(hashing, "chain_key", WEAK[weak])
    rng = random.Random(10)
    num_hits = 0
    for _ in range(60):
        data = random_scenario(rng)
        data["engine"].update(allocator="paged", prefix_cache="hash")
        num_hits += run_with_contents(data)[1].num_hits
    assert num_hits > 0


# ---- 11: a repeated block ----------------------------------------------------------------------


@both_caches
def test_equal_tokens_at_two_places_have_two_keys(cache: str) -> None:
    """Trap 11: the second block chains on the first, so its key is another."""
    run = run_of(req("A", [1, 2, 3, 4] * 2, max_tokens=1), prefix_cache=cache)
    (cached,) = [e for e in events(run, "block_cached") if cache == "radix"] or [
        {"keys": [e["keys"][0] for e in events(run, "block_cached")]}
    ]
    first, second = cached["keys"]
    assert first != second
    state = run.steps[0]["state"]["cached"]
    assert state["0"]["tokens"] == state["1"]["tokens"] == [1, 2, 3, 4]
    assert (state["0"]["key"], state["0"]["parent_key"]) == (first, None)
    assert (state["1"]["key"], state["1"]["parent_key"]) == (second, first)


# ---- 12: reset ---------------------------------------------------------------------------------


@both_caches
@pytest.mark.parametrize("length", [3, 4, 9])
def test_reset_is_refused_while_a_block_is_in_use(cache: str, length: int) -> None:
    """Trap 12: also where the block in use is not a cached one; nothing changes."""
    kv = manager(num_blocks=8, prefix_cache=cache)
    kv.release(served(kv, list(range(50, 59))), "finished")
    user = served(kv, list(range(length)))
    before = snapshot(kv)
    with pytest.raises(CacheInUseError):
        kv.reset_prefix_cache()
    assert snapshot(kv) == before
    kv.release(user, "finished")
    kv.reset_prefix_cache()
    assert kv.usage() == {"free": 8, "cached": 0, "in_use": 0}
    assert kv.find_prefix(sequence(list(range(50, 59)))) == []
    assert kv.state(0)["cached"] == {} and kv.state(0)["tree"] == []
    kv.check()


@both_caches
def test_reset_puts_forgotten_blocks_behind_the_unmatchable_ones(cache: str) -> None:
    """Trap 12: they keep their order, so a reset moves nobody in the free list."""
    kv = manager(num_blocks=6, prefix_cache=cache)
    kv.release(served(kv, [*ONE_TO_EIGHT, 9]), "finished")
    order = kv.pool.free_order()
    kv.reset_prefix_cache()
    assert kv.pool.free_order() == order == [2, 3, 4, 5, 1, 0]
    assert kv.pool.allocate(6) == order


# ---- 13: only what is computed -----------------------------------------------------------------


@both_caches
def test_a_block_is_cached_only_when_its_last_slot_is_written(cache: str) -> None:
    """Trap 13: after the first sampling the block has 4 tokens, but only 3 are computed."""
    run = run_of(req("A", [1, 2, 3], max_tokens=4), prefix_cache=cache)
    assert [list(record["state"]["cached"]) for record in run.steps] == [[], ["0"], ["0"], ["0"]]
    assert run.steps[1]["state"]["cached"]["0"]["tokens"] == [1, 2, 3, 1_000_000]


@both_caches
def test_a_chunk_caches_full_blocks_only(cache: str) -> None:
    """Trap 13: chunks of 6 over blocks of 4: one block after the first, three after the second."""
    run = run_of(
        req("A", list(range(12)), max_tokens=1), prefix_cache=cache, max_num_batched_tokens=6
    )
    assert [sorted(record["state"]["cached"]) for record in run.steps] == [["0"], ["0", "1", "2"]]


# ---- 14: counting hits -------------------------------------------------------------------------


@both_caches
def test_hits_of_a_resume_do_not_count_as_hits_of_the_request(cache: str) -> None:
    """Trap 14: B had no hit when it came; what it finds of itself later is told apart."""
    run = run_of(
        req("A", [11, 12, 13, 14, 15, 16, 17, 18], max_tokens=5),
        req("B", ONE_TO_EIGHT, max_tokens=6),
        num_blocks=5,
        prefix_cache=cache,
    )
    assert hits(run, "B") == [0]
    assert [e["num_cached_tokens"] for e in events(run, "resumed", sequence="B")] == [8]
    assert run.results["B"]["num_cached_tokens"] == 0


@both_caches
def test_an_admission_that_fails_for_steps_counts_its_hit_once(cache: str) -> None:
    """Trap 14: C's prefix is looked up in each of the steps in which it waits: one hit."""
    engine = engine_of(
        req("A", ONE_TO_EIGHT, max_tokens=1),
        req("B", [21, 22, 23, 24, 25], max_tokens=4, arrive_step=1),
        req("C", [*ONE_TO_EIGHT, 31, 32, 33, 34, 35, 36], max_tokens=3, arrive_step=2),
        num_blocks=5,
        prefix_cache=cache,
    )
    seen = []
    while not engine.done:
        engine.step()
        seen.append(engine.kv.cache.hits[0])  # type: ignore[union-attr]
    run = engine.run()
    admitted = next(r["step"] for r in run.steps if "C" in r["scheduled"])
    assert admitted - 2 == 3, "it waits for three steps"
    assert seen[:admitted] == [0] * admitted and set(seen[admitted:]) == {1}
    assert run.results["C"]["num_cached_tokens"] == 8
