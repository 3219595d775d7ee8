"""Traps 32 – 37 of the radix tree, each as a named test."""

from __future__ import annotations

import random

import pytest

from core.request import Sequence
from tests.core.drive import (
    admit,
    compute,
    events,
    fork,
    manager,
    nodes,
    req,
    run_of,
    sequence,
    served,
    snapshot,
    tree,
)

both_caches = pytest.mark.parametrize("cache", ["hash", "radix"])
TWELVE = list(range(12))


# ---- 32: splits --------------------------------------------------------------------------------


def test_a_match_inside_a_node_splits_it_and_the_lock_count_goes_to_both() -> None:
    """Trap 32: three blocks under one lock; a second request takes two of them: the upper node has
    both locks, the lower one keeps its own, and the tree holds as many tokens as before."""
    kv, cache = tree()
    served(kv, [*TWELVE, 99])
    assert nodes(kv) == [(0, None, [0, 1, 2], 1)]
    second = sequence([*TWELVE[:8], 50, 51])
    assert kv.find_prefix(second) == [0, 1]
    assert nodes(kv) == [(0, None, [0, 1, 2], 1)], "to match changes nothing"
    assert admit(kv, second) == 2
    assert nodes(kv) == [(0, 1, [2], 1), (1, None, [0, 1], 2)]
    assert [node["tokens"] for node in cache.tree()] == [TWELVE[8:], TWELVE[:8]]
    assert (cache.protected_size, cache.evictable_size, cache.num_cached_blocks) == (12, 0, 3)
    kv.check()


@pytest.mark.parametrize("release_first", [True, False])
def test_the_two_halves_of_a_split_share_no_list(release_first: bool) -> None:
    """Trap 32: what grows below or shrinks above leaves the other half as it was."""
    kv, _ = tree()
    first = served(kv, TWELVE)
    second = served(kv, [*TWELVE[:4], 70, 71, 72, 73])
    assert nodes(kv) == [(0, 1, [1, 2], 1), (1, None, [0], 2), (2, 1, [3], 1)]
    first.tokens.extend([12, 13, 14, 15])
    compute(kv, first)
    assert nodes(kv) == [(0, 1, [1, 2, 4], 1), (1, None, [0], 2), (2, 1, [3], 1)]
    one, other = (first, second) if release_first else (second, first)
    kv.release(one, "finished")
    kv.pool.allocate(14 if release_first else 12)
    kept = [(2, 1, [3], 1)] if release_first else [(0, 1, [1, 2, 4], 1)]
    assert [n for n in nodes(kv) if n[0] != 1] == kept
    assert (1, None, [0], 1) in nodes(kv)
    assert other.block_table[0] == 0
    kv.check()


def test_an_insert_that_leaves_a_node_halfway_splits_it() -> None:
    """Trap 32: in one step A caches 8 tokens and B 4 of them and 4 others: A's node is split, B's
    first block is the canonical one, sizes add up: 3 blocks."""
    run = run_of(
        req("A", [1, 2, 3, 4, 5, 6, 7, 8], max_tokens=2),
        req("B", [1, 2, 3, 4, 9, 9, 9, 9], max_tokens=2),
    )
    (split,) = events(run, "node_split")
    assert split == {"type": "node_split", "node": 0, "new_parent": 1, "num_blocks": 1}
    state = run.steps[0]["state"]
    assert [(n["id"], n["parent"], n["blocks"], n["lock_ref"]) for n in state["tree"]] == [
        (0, 1, [1], 1),
        (1, None, [0], 2),
        (2, 1, [3], 1),
    ]
    assert state["block_tables"] == {"A": [0, 1], "B": [0, 3]}
    assert state["free_order"][0] == 2


# ---- 33: eviction ------------------------------------------------------------------------------


@pytest.mark.parametrize("eviction", ["lru", "fifo", "lfu"])
def test_only_unlocked_leaves_go_and_a_parent_after_its_last_child(eviction: str) -> None:
    """Trap 33: root block 0 with two leaves: 0 cannot go before both, whatever the policy."""
    kv, _ = tree(num_blocks=3, eviction=eviction)
    kv.release(served(kv, [1, 2, 3, 4, 5, 5, 5, 5]), "finished")
    other = served(kv, [1, 2, 3, 4, 6, 6, 6, 6])
    assert other.block_table == [0, 2]
    kv.release(other, "finished")
    order = kv.pool.free_order()
    assert order == [1, 2, 0]
    taken = []
    for block in order:
        assert not any(n[1] is not None and n[2][0] == block and n[3] for n in nodes(kv))
        taken += kv.pool.allocate(1)
        kv.check()
    assert taken == order and kv.cache.tree() == []


@pytest.mark.parametrize("eviction", ["lru", "fifo", "lfu"])
def test_a_locked_leaf_protects_the_path_above_it(eviction: str) -> None:
    """Trap 33: A and B share block 0; B runs: only A's leaf can be evicted."""
    kv, cache = tree(num_blocks=4, eviction=eviction)
    kv.release(served(kv, [1, 2, 3, 4, 5, 5, 5, 5]), "finished")
    served(kv, [1, 2, 3, 4, 6, 6, 6, 6])
    assert (cache.protected_size, cache.evictable_size) == (8, 4)
    assert kv.pool.free_order() == [3, 1]
    assert kv.pool.allocate(2) == [3, 1]
    assert kv.num_free == 0
    assert sorted(b for n in nodes(kv) for b in n[2]) == [0, 2]


# ---- 34: locks ---------------------------------------------------------------------------------


@both_caches
def test_the_path_just_matched_is_not_evicted_for_its_own_request(cache: str) -> None:
    """Trap 34: all that is free beside the hit is taken, and the hit's own blocks stay."""
    kv = manager(num_blocks=4, prefix_cache=cache)
    kv.release(served(kv, [1, 2, 3, 4, 5, 6, 7, 8]), "finished")
    seq = sequence([1, 2, 3, 4, 5, 6, 7, 8, *TWELVE[:8]])
    assert kv.pool.free_order() == [2, 3, 1, 0]
    assert admit(kv, seq) == 2
    compute(kv, seq)
    assert seq.block_table == [0, 1, 2, 3] and kv.num_free == 0
    assert kv.find_prefix(sequence([1, 2, 3, 4, 5, 6, 7, 8, 9])) == [0, 1]


@both_caches
@pytest.mark.parametrize("eviction", ["lru", "fifo", "lfu"])
def test_evictable_and_protected_add_up_after_every_operation(cache: str, eviction: str) -> None:
    """Trap 34: a random life of a cache: sizes always add up, and all locks come back."""
    rng = random.Random(f"{cache} {eviction}")
    kv = manager(num_blocks=24, block_size=2, prefix_cache=cache, eviction=eviction)
    alive: list[Sequence] = []

    def consistent() -> None:
        held = {b for seq in alive for b in seq.block_table}
        cached = [b for b, matchable in enumerate(kv.pool.matchable) if matchable]
        assert kv.cache.protected_size == 2 * len(held.intersection(cached))
        assert kv.cache.evictable_size + kv.cache.protected_size == 2 * len(cached)
        usage = kv.usage()
        assert sum(usage.values()) == 24 and usage["in_use"] == len(held)
        assert sum(kv.pool.ref_counts) == sum(len(seq.block_table) for seq in alive)
        kv.check()

    for _ in range(400):
        roll = rng.random()
        if alive and (roll < 0.4 or kv.num_free < 6):
            kv.release(alive.pop(rng.randrange(len(alive))), "finished")
        elif alive and roll < 0.55:
            seq = rng.choice(alive)
            seq.tokens.append(rng.randrange(2))
            if kv.blocks_wanted(seq, 1) <= kv.num_free:
                compute(kv, seq, 1)
        elif alive and roll < 0.6:
            alive += fork(kv, rng.choice(alive), 1)
        else:
            seq = sequence([rng.randrange(2) for _ in range(rng.randint(1, 9))])
            admit(kv, seq)
            alive.append(seq)
            consistent()
            compute(kv, seq)
        consistent()
    while alive:
        kv.release(alive.pop(), "finished")
        consistent()
    assert kv.num_free == 24 and kv.cache.protected_size == 0
    assert kv.cache.evictable_size == 2 * kv.cache.num_cached_blocks > 0
    kv.reset_prefix_cache()
    assert kv.cache.evictable_size == kv.cache.num_cached_blocks == 0


# ---- 35: pages ---------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [7, 8, 9, 11])
def test_a_match_is_whole_pages_and_a_partial_page_stays_private(length: int) -> None:
    """Trap 35: of 11 equal tokens two pages of 4 are shared; the third block is each one's own."""
    kv, cache = tree()
    first = served(kv, TWELVE[:11])
    assert first.num_cached_blocks == 2 and cache.num_cached_blocks == 2
    second = sequence(TWELVE[:length])
    hit = admit(kv, second)
    assert hit == (length - 1) // 4
    compute(kv, second)
    assert second.block_table[: length // 4] == [0, 1][: length // 4]
    assert not set(second.block_table[length // 4 :]) & set(first.block_table)
    kv.release(first, "finished")
    kv.release(second, "finished")
    assert set(kv.pool.free_order()[-2:]) == {0, 1} and not kv.pool.matchable[2]


# ---- 36: canonical blocks ----------------------------------------------------------------------


def test_duplicates_are_freed_after_the_table_names_the_canonical_blocks() -> None:
    """Trap 36: B computed A's 8 tokens in the same step: B's table is rewritten to 0 and 1, then
    its 4 and 3 go to the front, tail first; its private tail 5 stays."""
    run = run_of(
        req("A", [*TWELVE[:8], 20], max_tokens=2), req("B", [*TWELVE[:8], 21], max_tokens=2)
    )
    about_b = [
        e
        for e in run.steps[0]["events"]
        if e.get("sequence") == "B" and e["type"] in ("block_shared", "blocks_freed")
    ]
    assert [(e["type"], e["blocks"]) for e in about_b] == [
        ("block_shared", [0, 1]),
        ("blocks_freed", [4, 3]),
    ]
    assert about_b[0]["cause"] == "canonical" and about_b[1]["reason"] == "duplicate"
    state = run.steps[0]["state"]
    assert state["block_tables"] == {"A": [0, 1, 2], "B": [0, 1, 5]}
    assert state["ref_counts"] == {"0": 2, "1": 2, "2": 1, "5": 1}
    assert state["free_order"][:3] == [3, 4, 6]
    assert state["cached"]["0"]["hits"] == 0, "no hit: it was computed twice"


def test_a_canonical_block_that_lies_in_the_free_list_leaves_it() -> None:
    """Trap 36: A is gone when B, which had computed the same beside it, fills its block."""
    kv, _ = tree(num_blocks=4)
    first, second = sequence([1, 2, 3, 4]), sequence([1, 2, 3, 4])
    admit(kv, first)
    admit(kv, second)
    compute(kv, second, 3)
    compute(kv, first)
    kv.release(first, "finished")
    assert kv.pool.free_order() == [2, 3, 1]
    compute(kv, second)
    assert second.block_table == [1]
    assert kv.pool.ref_counts == [0, 1, 0, 0] and kv.pool.free_order() == [0, 2, 3]


# ---- 37: namespaces ----------------------------------------------------------------------------


def test_namespaces_have_no_node_in_common() -> None:
    """Trap 37: the same 8 tokens under four names: four nodes, none the parent of another."""
    kv, _ = tree()
    for space in ({}, {"cache_salt": "x"}, {"adapter": "x"}, {"cache_salt": "x", "adapter": "x"}):
        served(kv, TWELVE[:8], **space)
    assert nodes(kv) == [(i, None, [2 * i, 2 * i + 1], 1) for i in range(4)]
    keys = {entry["key"] for entry in kv.state(0)["cached"].values()}
    assert len(keys) == 8


def test_a_refused_admission_leaves_the_tree_as_it_was() -> None:
    """Traps 5 and 32: a match alone neither splits nor locks nor counts."""
    kv, _ = tree()
    kv.release(served(kv, TWELVE), "finished")
    before = snapshot(kv)
    for length in range(13):
        kv.find_prefix(sequence([*TWELVE[:length], 99]))
    assert snapshot(kv) == before
