"""Traps 9 – 15 of prefix caches: keys, collisions, resets, what is cached when, and counting.

Not here, because nothing of the kind exists in this version: 13, its half about drafts. There is no
speculative decoding; that unwritten slots are never cached is tested.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from core.kv import hashing
from core.prefix.base import CacheInUseError
from tests.core.drive import (
    admit,
    compute,
    engine_of,
    events,
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


# ---- 15: prompt log-probabilities --------------------------------------------------------------


@both_caches
def test_prompt_logprobs_do_not_read_the_cache_but_fill_it(cache: str) -> None:
    """Trap 15: B computes all 9 tokens although A has cached 8; C finds what B alone cached."""
    run = run_of(
        req("A", [*ONE_TO_EIGHT, 9], max_tokens=1),
        req("B", [*ONE_TO_EIGHT, 30, 31, 32, 33, 34], max_tokens=1, prompt_logprobs=1),
        req("C", [*ONE_TO_EIGHT, 30, 31, 32, 33, 35], max_tokens=1, arrive_step=2),
        prefix_cache=cache,
        max_num_seqs=1,
    )
    assert hits(run, "A") + hits(run, "B") + hits(run, "C") == [0, 0, 12]
    assert run.steps[1]["scheduled"]["B"]["num_scheduled_tokens"] == 13


@both_caches
def test_prompt_logprobs_do_not_read_the_cache_on_resume_either(cache: str) -> None:
    """Trap 15: B is preempted by A's growth; resumed, it computes everything again."""
    run = run_of(
        req("A", [1, 2, 3], max_tokens=11),
        req("B", [11, 12, 13, 14, 15], max_tokens=6, prompt_logprobs=1),
        prefix_cache=cache,
        num_blocks=4,
        max_model_len=14,
    )
    assert events(run, "preempted", sequence="B")
    assert [e["num_cached_tokens"] for e in events(run, "resumed", sequence="B")] == [0]
    shared = events(run, "block_shared", sequence="B", cause="hit")
    assert shared == []
