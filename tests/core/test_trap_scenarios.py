"""Small situations with numbers that were worked out on paper: one test each."""

from __future__ import annotations

import pytest

from tests.core.drive import (
    admit,
    compute,
    events,
    granted,
    manager,
    req,
    run_of,
    sequence,
    served,
    waits,
)

both_caches = pytest.mark.parametrize("cache", ["hash", "radix"])
COMMON = list(range(1, 49))


@both_caches
def test_shared_prefix_of_48_tokens(cache: str) -> None:
    """Shared prefix: r0 (48 + 7) takes 0 – 3, three hashed; r1 (48 + 5) hits 48 and takes 4."""
    kv = manager(num_blocks=10, block_size=16, prefix_cache=cache)
    first = served(kv, [*COMMON, *range(101, 108)])
    assert first.block_table == [0, 1, 2, 3]
    assert sorted(kv.state(0)["cached"]) == ["0", "1", "2"]
    second = sequence([*COMMON, *range(201, 206)])
    assert admit(kv, second) == 3 and second.num_computed_tokens == 48
    assert compute(kv, second) == 1
    assert second.block_table == [0, 1, 2, 4]
    assert kv.pool.ref_counts == [2, 2, 2, 1, 1, 0, 0, 0, 0, 0]
    assert kv.num_free == 5
    kv.release(first, "finished")
    kv.release(second, "finished")
    assert kv.pool.free_order() == [4, 3, 5, 6, 7, 8, 9, 2, 1, 0]


@both_caches
def test_growth_takes_a_block_only_when_one_is_full(cache: str) -> None:
    """Growth: 55 tokens in 4 blocks of 16; 4 more fit; 19 more take one block and fill one."""
    kv = manager(num_blocks=10, block_size=16, prefix_cache=cache)
    seq = sequence(list(range(55)))
    admit(kv, seq)
    assert compute(kv, seq) == 4
    seq.tokens.extend(range(100, 104))
    assert compute(kv, seq) == 0 and seq.block_table == [0, 1, 2, 3]
    seq.tokens.extend(range(200, 219))
    assert compute(kv, seq) == 1 and seq.block_table == [0, 1, 2, 3, 4]
    assert [kv.pool.matchable[block] for block in seq.block_table] == [1, 1, 1, 1, 0]


@both_caches
def test_reuse_of_the_only_block(cache: str) -> None:
    """Reuse: a pool of 1: 16 tokens, released; 15 others take the block, its key is gone."""
    kv = manager(num_blocks=1, block_size=16, prefix_cache=cache)
    first = list(range(16))
    kv.release(served(kv, first), "finished")
    assert kv.find_prefix(sequence([*first, 99])) == [0]
    other = sequence(list(range(50, 65)))
    assert admit(kv, other) == 0
    compute(kv, other)
    assert other.block_table == [0]
    assert kv.find_prefix(sequence([*first, 99])) == []
    assert kv.state(0)["cached"] == {}


def test_cache_off_finds_nothing() -> None:
    """Cache off: 10 tokens in 3 blocks of 4, released; 16 tokens take 4 blocks, no hit."""
    kv = manager(num_blocks=5, block_size=4, prefix_cache="off")
    first = served(kv, list(range(10)))
    assert first.block_table == [0, 1, 2]
    kv.release(first, "finished")
    second = sequence(list(range(16)))
    assert admit(kv, second) == 0 and compute(kv, second) == 4
    assert second.block_table == [0, 1, 2, 3]
    assert kv.usage() == {"free": 1, "cached": 0, "in_use": 4}


@both_caches
@pytest.mark.parametrize(("salt", "cached"), [("one", 48), ("two", 0), (None, 0)])
def test_salts_divide_the_cache(cache: str, salt: str | None, cached: int) -> None:
    """Salt: the same 53 tokens: under the same salt a hit of 48, else 0."""
    prompt = [*COMMON, 60, 61, 62, 63, 64]
    run = run_of(
        req("A", prompt, max_tokens=2, cache_salt="one"),
        req("B", prompt, max_tokens=1, arrive_step=1, cache_salt=salt),
        block_size=16,
        prefix_cache=cache,
    )
    assert [e["num_cached_tokens"] for e in events(run, "admitted", sequence="B")] == [cached]
    assert run.results["B"]["num_cached_tokens"] == cached


@pytest.mark.parametrize(
    ("chunked", "first_step"), [(True, {"A": 800, "B": 224}), (False, {"A": 800})]
)
def test_order_of_four_prompts_and_a_budget(chunked: bool, first_step: dict[str, int]) -> None:
    """Order: budget 1,024, prompts 800, 800, 10, 10: two are admitted in chunks, else only one."""
    run = run_of(
        req("A", list(range(800)), max_tokens=1),
        req("B", list(range(1000, 1800)), max_tokens=1),
        req("C", list(range(10)), max_tokens=1),
        req("D", list(range(20, 30)), max_tokens=1),
        num_blocks=128,
        block_size=16,
        max_num_seqs=3,
        max_num_batched_tokens=1024,
        max_model_len=1024,
        chunked_prefill=chunked,
        prefix_cache="off",
    )
    shares = run.steps[0]["scheduled"]
    assert {name: share["num_scheduled_tokens"] for name, share in shares.items()} == first_step
    assert [e["sequence"] for e in events(run, "admitted", step=0)] == list(first_step)
    head = "C" if chunked else "B"
    assert waits(run, head)[0] == (0, "token_budget")
    assert waits(run, "D")[0] == (0, "behind_head")


@pytest.mark.parametrize("policy", ["priority", "fcfs"])
@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 1)], ids=["together", "low first"])
def test_priority_preempts_the_low_one_whoever_asks(policy: str, low: int, high: int) -> None:
    """Priority: 5 blocks of 16, two prompts of 32: the first to need a third block takes the last
    one, the next finds none, and the low one goes. Under fcfs the last admitted goes instead."""
    run = run_of(
        req("low", list(range(32)), max_tokens=4, priority=7, arrive_step=low),
        req("high", list(range(50, 82)), max_tokens=4, priority=1, arrive_step=high),
        num_blocks=5,
        block_size=16,
        policy=policy,
        prefix_cache="off",
    )
    first = events(run, "preempted")[0]
    wanted = "low" if policy == "priority" else "high"
    assert first["sequence"] == wanted
    assert first["reason"] == ("priority" if policy == "priority" else "no_free_blocks")
    assert len(events(run, "preempted")) == 1
    # Together, the urgent one is admitted first and asks first: the low one asks for what is gone.
    together = policy == "priority" and (low, high) == (0, 0)
    asker = {"priority": "low" if together else "high", "fcfs": "high"}[policy]
    assert first["by"] == asker
    decode = [e for e in events(run, "blocks_allocated") if e["reason"] == "decode"]
    assert decode[0]["sequence"] == ("high" if together else "low")
    assert {r["finish_reason"] for r in run.results.values()} == {"max_tokens"}


def test_chunks_follow_the_budget() -> None:
    """Chunk and budget: 80 tokens, budget 50: 50, then 30."""
    run = run_of(
        req("A", list(range(80)), max_tokens=1),
        num_blocks=8,
        block_size=16,
        max_model_len=100,
        max_num_batched_tokens=50,
    )
    assert granted(run, "A") == [50, 30]
    assert [r["scheduled"]["A"]["num_computed_tokens"] for r in run.steps] == [0, 50]


def test_tree_of_three_tokens() -> None:
    """Tree: [1, 2, 3] has size 3; [1, 2] matches 2; a lock moves 3 from evictable to protected."""
    kv = manager(num_blocks=8, block_size=1, prefix_cache="radix")
    cache = kv.cache
    kv.release(served(kv, [1, 2, 3]), "finished")
    assert (cache.num_cached_blocks, cache.evictable_size, cache.protected_size) == (3, 3, 0)
    assert cache.match(sequence([1, 2]), 2) == [0, 1]
    seq = sequence([1, 2, 3])
    found = cache.match(seq, 3)
    cache.lock(seq, found)
    assert (cache.evictable_size, cache.protected_size) == (0, 3)
    cache.unlock(found)
    assert (cache.evictable_size, cache.protected_size) == (3, 0)


@pytest.mark.parametrize(("page", "length", "size"), [(1, 5, 5), (2, 5, 4), (4, 6, 4)])
def test_tree_sizes_are_multiples_of_the_page(page: int, length: int, size: int) -> None:
    """Page alignment: 5 tokens on pages of 1 and 2, 6 on pages of 4: 5, 4, 4 are cached."""
    kv = manager(num_blocks=8, block_size=page, prefix_cache="radix")
    prompt = list(range(length))
    served(kv, prompt)
    assert kv.cache.num_cached_blocks * page == kv.cache.protected_size == size
    assert len(kv.cache.match(sequence(prompt), length)) * page == size
