"""Traps of the radix tree, and of forks and copy-on-write, each as a named test.

Not here, because nothing of the kind exists in this version:
- 40: beams are refused (`beam_width` needs a real model, and that refuses it too for now); that
  forked siblings are released apart from each other is tested.
- 41, its half about swap-in: preemption recomputes, nothing is swapped.
- 42 – 47 (quantised KV, sliding windows, MLA, tensor parallelism, kernels) are not numbers 1 – 41.
"""

from __future__ import annotations

import random

import pytest

from core.engine import Engine
from core.kv.manager import KVCacheManager
from core.prefix.radix_cache import RadixPrefixCache
from core.request import Sequence
from core.runner import ScriptedRunner
from core.scenario import Scenario
from core.simulate import verify
from tests.core.drive import (
    Json,
    admit,
    compute,
    events,
    fork,
    manager,
    req,
    run_of,
    run_with_contents,
    scenario,
    sequence,
    served,
    snapshot,
)

both_caches = pytest.mark.parametrize("cache", ["hash", "radix"])
TWELVE = list(range(12))


def tree(**engine: object) -> tuple[KVCacheManager, RadixPrefixCache]:
    kv = manager(prefix_cache="radix", **{"num_blocks": 16, **engine})
    assert isinstance(kv.cache, RadixPrefixCache)
    return kv, kv.cache


def nodes(kv: KVCacheManager) -> list[tuple[int, int | None, list[int], int]]:
    """(id, parent, blocks, lock_ref) of each node."""
    return [(n["id"], n["parent"], n["blocks"], n["lock_ref"]) for n in kv.cache.tree()]


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


# ---- 38: forks ---------------------------------------------------------------------------------


def tables_and_refs(record: Json) -> tuple[dict[str, list[int]], dict[str, int]]:
    return record["state"]["block_tables"], record["state"]["ref_counts"]


@both_caches
def test_a_fork_shares_every_block_and_the_first_writers_copy(cache: str) -> None:
    """Trap 38: 6 tokens, n = 3: blocks 0 and 1 have 3 references; then #0 copies to 2, #1 to 3, and
    #2, the last holder, writes in place."""
    run = run_of(req("A", TWELVE[:6], n=3, max_tokens=3), prefix_cache=cache)
    names = ["A#0", "A#1", "A#2"]
    assert tables_and_refs(run.steps[0]) == ({name: [0, 1] for name in names}, {"0": 3, "1": 3})
    assert not events(run, "block_copied", step=0)
    copied = [(e["sequence"], e["src"], e["dst"]) for e in events(run, "block_copied")]
    assert copied == [("A#0", 1, 2), ("A#1", 1, 3)]
    assert [e["num_slots"] for e in events(run, "block_copied")] == [2, 2]
    assert len(events(run, "block_copied", step=1)) == 2
    assert tables_and_refs(run.steps[1]) == (
        {"A#0": [0, 2], "A#1": [0, 3], "A#2": [0, 1]},
        {"0": 3, "1": 1, "2": 1, "3": 1},
    )
    verify(run)


@both_caches
def test_a_fork_at_the_end_of_a_block_copies_nothing(cache: str) -> None:
    """Trap 38: 8 tokens fill two blocks: each sequence takes a new third block of its own."""
    run = run_of(req("A", TWELVE[:8], n=2, max_tokens=2), num_blocks=5, prefix_cache=cache)
    assert tables_and_refs(run.steps[0]) == (
        {"A#0": [0, 1], "A#1": [0, 1]},
        {"0": 2, "1": 2},
    )
    assert not events(run, "block_copied")
    taken = [(e["sequence"], e["blocks"]) for e in events(run, "blocks_allocated", step=1)]
    assert taken == [("A#0", [2]), ("A#1", [3])]


def test_the_last_holder_writes_in_place_when_its_twin_was_cancelled_or_ended() -> None:
    """Trap 38: #1 ends with its first token, so #0 holds the partial block alone: no copy."""
    run = run_of(req("A", TWELVE[:6], n=2, output_tokens=[[1, 2, 3], [1]]))
    assert not events(run, "block_copied")
    assert tables_and_refs(run.steps[0]) == ({"A#0": [0, 1]}, {"0": 1, "1": 1})
    assert [e["to"] for e in events(run, "blocks_freed", sequence="A#1")] == ["held"]


def test_an_ended_member_of_a_static_batch_still_holds_what_it_shares() -> None:
    """Trap 38: under static batching #1 ends but keeps its blocks: #0 must copy."""
    run = run_of(req("A", TWELVE[:6], n=2, output_tokens=[[1, 2, 3], [1]]), batching="static")
    assert [(e["sequence"], e["src"], e["dst"]) for e in events(run, "block_copied")] == [
        ("A#0", 1, 2)
    ]


@both_caches
def test_a_twin_that_releases_leaves_the_shared_blocks_to_the_others(cache: str) -> None:
    """Traps 38 and 40: each sibling frees only its private tail; shared blocks lose a reference."""
    kv = manager(num_blocks=8, prefix_cache=cache)
    first = served(kv, TWELVE[:6])
    (twin,) = fork(kv, first, 1)
    for seq, token in ((first, 1), (twin, 2)):
        seq.tokens.append(token)
        compute(kv, seq)
    assert (first.block_table, twin.block_table) == ([0, 2], [0, 1])
    kv.release(first, "finished")
    assert kv.pool.ref_counts[:3] == [1, 1, 0] and kv.pool.free_order()[0] == 2
    kv.release(twin, "finished")
    assert kv.pool.free_order()[:2] == [1, 2] and kv.num_free == 8


# ---- 39: hashed blocks -------------------------------------------------------------------------


def rewind(seq: Sequence, num_computed_tokens: int) -> None:
    """As if the sequence were to compute its tokens from here on once more."""
    seq.num_computed_tokens = num_computed_tokens


@both_caches
@pytest.mark.parametrize(("rewound", "found"), [(1, 0), (5, 1), (9, 2)])
def test_a_write_into_a_cached_block_of_ones_own_uncaches_it(
    cache: str, rewound: int, found: int
) -> None:
    """Trap 39: one reference and cached: before the write nobody can match it any more.

    In the tree the blocks behind it go too: no prefix leads there.
    """
    kv = manager(num_blocks=8, prefix_cache=cache)
    seq = served(kv, [*TWELVE, 77])
    assert kv.find_prefix(sequence([*TWELVE, 78])) == [0, 1, 2]
    rewind(seq, rewound)
    assert kv.allocate_slots(seq, 1) <= 0
    assert seq.block_table == [0, 1, 2, 3] and kv.copies == []
    assert kv.find_prefix(sequence([*TWELVE, 78])) == [0, 1, 2][:found]
    left = sorted(int(block) for block in kv.state(0)["cached"])
    assert left == [b for b in (0, 1, 2) if (b < found if cache == "radix" else b != found)]
    kv.check()
    kv.release(seq, "finished")
    assert kv.num_free == 8
    kv.check()


@both_caches
def test_a_write_into_a_shared_cached_block_copies_it(cache: str) -> None:
    """Trap 39: two holders: the writer gets a copy, the cached block stays with the other."""
    kv = manager(num_blocks=8, prefix_cache=cache)
    served(kv, [*TWELVE[:8], 20])
    writer = served(kv, [*TWELVE[:8], 21])
    assert writer.block_table == [0, 1, 3]
    rewind(writer, 6)
    kv.allocate_slots(writer, 1)
    assert writer.block_table == [0, 4, 3] and kv.copies == [(1, 4)]
    assert kv.pool.ref_counts[:5] == [2, 1, 1, 1, 1]
    assert kv.find_prefix(sequence([*TWELVE[:8], 22])) == [0, 1]
    assert not kv.pool.matchable[4]


@pytest.mark.parametrize("eviction", ["lru", "fifo", "lfu"])
def test_a_write_above_idle_descendants_uncaches_them_to_the_front(eviction: str) -> None:
    """Trap 39: A left two idle blocks behind block 0, which B alone holds. B writes into 0: the
    descendants are forgotten and are taken next, and nothing is lost from the pool."""
    kv, cache = tree(num_blocks=6, eviction=eviction)
    kv.release(served(kv, TWELVE), "finished")
    kv.release(served(kv, [*TWELVE[:4], 50, 51, 52, 53]), "finished")
    holder = sequence([*TWELVE[:4], 60])
    assert admit(kv, holder) == 1
    assert (cache.protected_size, cache.evictable_size) == (4, 12)
    rewind(holder, 2)
    kv.allocate_slots(holder, 1)
    assert kv.cache.tree() == [] and cache.num_cached_blocks == 0
    assert sorted(kv.pool.free_order()) == [1, 2, 3, 4, 5]
    assert set(kv.pool.free_order()[:3]) == {1, 2, 3}
    assert kv.usage() == {"free": 5, "cached": 0, "in_use": 1}
    kv.check()
    assert sorted(kv.pool.allocate(5)) == [1, 2, 3, 4, 5]


def test_the_engine_itself_never_writes_into_a_cached_block() -> None:
    """Trap 39: over a run with hits, forks and preemption no block has to be uncached."""
    run = run_of(
        req("A", TWELVE[:8], n=2, max_tokens=6),
        req("B", TWELVE[:9], max_tokens=6, arrive_step=1),
        req("C", TWELVE, max_tokens=6, arrive_step=1),
        num_blocks=8,
    )
    assert events(run, "preempted") and events(run, "block_shared", cause="hit")
    assert not events(run, "block_uncached")


# ---- 41: order of copies -----------------------------------------------------------------------


@pytest.mark.parametrize("cache", ["hash", "radix", "off"])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_copies_come_before_writes_and_in_order(cache: str, n: int) -> None:
    """Trap 41: every twin reads back its own prefix, although all left one block in one step."""
    data = scenario(
        req("A", TWELVE[:6], n=n, max_tokens=7),
        req("B", TWELVE[:3], n=2, max_tokens=7, arrive_step=1),
        prefix_cache=cache,
        num_blocks=12,
    )
    run, _ = run_with_contents(data)
    assert len(events(run, "block_copied")) >= n
    assert all(r["finish_reason"] == "max_tokens" for r in run.results.values())


@pytest.mark.parametrize("cache", ["hash", "radix", "off"])
def test_a_block_copied_from_is_copied_into_later_in_the_same_step(cache: str) -> None:
    """Trap 41: A#0 copies block 1 to 3. Then B#0 needs a copy, A#1 is preempted, block 1 comes free
    and is the destination of B#0's copy from 2. In the other order A#0 would read B's tokens."""
    data = scenario(
        req("A", TWELVE[:6], n=2, max_tokens=2, priority=9),
        req("B", TWELVE[6:9], n=2, max_tokens=2, arrive_step=1),
        num_blocks=4,
        long_prefill_token_threshold=3,
        policy="priority",
        prefix_cache=cache,
    )
    run, _ = run_with_contents(data)
    copied = [(e["sequence"], e["src"], e["dst"]) for e in events(run, "block_copied", step=2)]
    assert copied == [("A#0", 1, 3), ("B#0", 2, 1)]
    assert [e["sequence"] for e in events(run, "preempted")] == ["A#1"]
    engine = Engine(Scenario.from_dict(data), ScriptedRunner())
    for _ in range(3):
        engine.step()
    assert engine.kv.copies == [(1, 3), (2, 1)]


def test_a_refused_admission_leaves_the_tree_as_it_was() -> None:
    """Traps 5 and 32: a match alone neither splits nor locks nor counts."""
    kv, _ = tree()
    kv.release(served(kv, TWELVE), "finished")
    before = snapshot(kv)
    for length in range(13):
        kv.find_prefix(sequence([*TWELVE[:length], 99]))
    assert snapshot(kv) == before
