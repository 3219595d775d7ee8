"""Traps 38 – 41 of forks and copy-on-write, each as a named test.

Not here, because nothing of the kind exists in this version:
- 40: beams are refused (`beam_width` needs a real model, and that refuses it too for now); that
  forked siblings are released apart from each other is tested.
- 41, its half about swap-in: preemption recomputes, nothing is swapped.
- 42 – 47 (quantised KV, sliding windows, MLA, tensor parallelism, kernels) are not numbers 1 – 41.
"""

from __future__ import annotations

import pytest

from core.engine import Engine
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
    tree,
)

both_caches = pytest.mark.parametrize("cache", ["hash", "radix"])
TWELVE = list(range(12))


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
