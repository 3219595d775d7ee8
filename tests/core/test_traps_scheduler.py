"""Traps 18, 19, 23, 24, 27 – 29 and 31 of schedulers, each as a named test.

Not here, because nothing of the kind exists in this version:
- 29, its half about several accepted tokens: a step samples one token per sequence, so a stop can
  only be the last of them; that the tokens after it never come is tested.
"""

from __future__ import annotations

import random

import pytest

from core.engine import Engine
from core.runner import ScriptedRunner
from core.scenario import Scenario
from core.simulate import simulate, verify
from tests.core.drive import (
    engine_of,
    events,
    granted,
    req,
    run_of,
    run_with_contents,
    scenario,
    step_of,
    tokens,
    waits,
)
from tests.scenario_gen import random_scenario

CACHES = ("hash", "radix", "off")
all_caches = pytest.mark.parametrize("cache", CACHES)


# ---- 18, 19: rejections ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "needed"),
    [
        ({"prompt_tokens": tokens(0, 17), "max_tokens": 1}, 5),
        ({"prompt_tokens": tokens(0, 10), "max_tokens": 8}, 5),
        ({"prompt_tokens": tokens(0, 6), "max_tokens": 6, "n": 3}, 7),
    ],
    ids=["prompt", "outputs", "forks"],
)
def test_what_can_never_fit_is_rejected_with_numbers_and_the_others_go_on(
    fields: dict, needed: int
) -> None:
    """Trap 18: a pool of 4 blocks: 17 tokens, 10 + 8 − 1 tokens, or one full block shared and two
    private ones for each of three answers."""
    run = run_of(
        {"id": "A", **fields}, req("B", tokens(50, 4), max_tokens=2), num_blocks=4, max_model_len=32
    )
    (rejected,) = events(run, "request_rejected")
    assert (rejected["reason"], rejected["needed"], rejected["available"]) == (
        "exceeds_pool",
        needed,
        4,
    )
    assert list(run.results) == ["B"]
    assert run.results["B"]["finish_reason"] == "max_tokens"
    assert len(run.steps) == 2


@pytest.mark.parametrize(("length", "max_tokens"), [(16, 1), (10, 7), (1, 16), (13, 4)], ids=str)
@all_caches
def test_what_fits_the_pool_to_the_last_slot_is_served(
    cache: str, length: int, max_tokens: int
) -> None:
    """Traps 18 and 26: P + M − 1 = 16 slots in 4 blocks of 4, alone: served, never preempted."""
    run = run_of(
        req("A", tokens(0, length), max_tokens=max_tokens), num_blocks=4, prefix_cache=cache
    )
    assert run.results["A"]["finish_reason"] == "max_tokens"
    assert len(run.steps) == max_tokens and not events(run, "preempted")


def test_a_contiguous_reserve_larger_than_the_pool_is_rejected() -> None:
    """Trap 18: the reserve of max_model_len is 16 blocks; the pool has 15."""
    run = run_of(req("A", [1]), allocator="contiguous", prefix_cache="off", num_blocks=15)
    (rejected,) = events(run, "request_rejected")
    assert (rejected["needed"], rejected["available"]) == (16, 15)


@pytest.mark.parametrize("length", [63, 64, 65])
def test_a_prompt_as_long_as_max_model_len_is_rejected(length: int) -> None:
    """Trap 19: max_model_len 64: 63 tokens leave room for one answer token, 64 for none."""
    run = run_of(req("A", tokens(0, length), max_tokens=8), num_blocks=64)  # 64 is the default
    rejected = events(run, "request_rejected")
    if length == 63:
        assert not rejected and len(run.steps) == 1
        assert run.results["A"]["finish_reason"] == "max_model_len"
    else:
        assert [(e["reason"], e["needed"], e["available"]) for e in rejected] == [
            ("prompt_too_long", length, 63)
        ]
        assert run.results == {}


@pytest.mark.parametrize("empty", [{"prompt": ""}, {"prompt_tokens": []}], ids=str)
def test_an_empty_prompt_is_rejected_and_the_others_go_on(empty: dict) -> None:
    """Trap 19: nothing could be sampled from nothing."""
    run = run_of({"id": "A", **empty}, req("B", [1], max_tokens=1))
    assert [e["reason"] for e in events(run, "request_rejected")] == ["empty_prompt"]
    assert list(run.results) == ["B"] and list(run.steps[0]["scheduled"]) == ["B"]


# ---- 23, 24: admission -------------------------------------------------------------------------


def test_a_head_that_does_not_fit_blocks_small_ones_behind_it() -> None:
    """Trap 23: C would fit at once; B, before it, does not: C waits for B."""
    run = run_of(
        req("A", tokens(0, 12), max_tokens=4),
        req("B", tokens(20, 12), max_tokens=1, arrive_step=1),
        req("C", [1], max_tokens=1, arrive_step=1),
        num_blocks=5,
        prefix_cache="off",
    )
    assert waits(run, "B") == [(1, "no_free_blocks")]
    assert waits(run, "C") == [(1, "behind_head")]
    assert step_of(run, "admitted", "B") == step_of(run, "admitted", "C") == 4
    assert [e["sequence"] for e in events(run, "admitted", step=4)] == ["B", "C"]


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_nobody_is_admitted_in_a_step_that_preempts(policy: str) -> None:
    """Trap 23: B's two blocks come free in step 1, and the small C arrives: it waits a step."""
    run = run_of(
        req("A", tokens(0, 8), max_tokens=4),
        req("B", tokens(20, 8), max_tokens=4, priority=9),
        req("C", [1], max_tokens=1, arrive_step=1, priority=5),
        num_blocks=5,
        policy=policy,
        prefix_cache="off",
    )
    assert step_of(run, "preempted", "B") == 1
    assert not events(run, "admitted", step=1)
    head = "B" if policy == "fcfs" else "C"
    other = "C" if policy == "fcfs" else "B"
    assert waits(run, head)[0] == (1, "preemption_in_step")
    assert waits(run, other)[0] == (1, "behind_head")
    assert run.steps[1]["usage"] == {"free": 2, "cached": 0, "in_use": 3}


def test_admission_asks_for_the_whole_prompt_and_not_for_its_first_chunk() -> None:
    """Trap 24: 16 tokens need 4 blocks. Two are free, enough for the first chunk of 8: refused."""
    run = run_of(
        req("A", tokens(0, 16), max_tokens=1),
        req("B", tokens(20, 16), max_tokens=1),
        num_blocks=6,
        max_num_batched_tokens=24,
        long_prefill_token_threshold=8,
        prefix_cache="off",
    )
    (wait,) = events(run, "waiting", sequence="B")
    assert (wait["reason"], wait["needed"], wait["available"]) == ("no_free_blocks", 4, 2)
    assert not events(run, "preempted")
    assert granted(run, "A") == [8, 8, None, None] and granted(run, "B") == [None, None, 8, 8]


def test_blocks_owed_to_a_running_prefill_are_not_given_away() -> None:
    """Trap 24: after its first chunk A holds 2 of its 4 blocks; the 2 it lacks are not B's."""
    run = run_of(
        req("A", tokens(0, 16), max_tokens=1),
        req("B", tokens(20, 8), max_tokens=1),
        num_blocks=5,
        long_prefill_token_threshold=8,
        prefix_cache="off",
    )
    (wait,) = events(run, "waiting", sequence="B")
    assert (wait["reason"], wait["needed"], wait["available"]) == ("no_free_blocks", 2, 1)


def test_the_watermark_never_blocks_the_first_request() -> None:
    """Trap 24: the watermark is the whole pool: A, alone, is let in; B waits until A is gone."""
    run = run_of(
        req("A", tokens(0, 4), max_tokens=2),
        req("B", [1], max_tokens=1),
        num_blocks=4,
        watermark=1.0,
        prefix_cache="off",
    )
    assert step_of(run, "admitted", "A") == 0
    (wait,) = events(run, "waiting", sequence="B")
    assert (wait["reason"], wait["needed"], wait["available"]) == ("watermark", 1, 0)
    assert step_of(run, "admitted", "B") == 2


@pytest.mark.parametrize(
    ("watermark", "blocks"), [(0.0, 0), (0.01, 1), (0.1, 1), (0.29, 3), (0.3, 3), (1.0, 10)]
)
def test_the_watermark_is_an_exact_decimal(watermark: float, blocks: int) -> None:
    """Trap 24: ⌈0.1 · 10⌉ is 1 and ⌈0.3 · 10⌉ is 3, whatever binary fractions make of them."""
    fits = 10 - 1 - blocks  # A holds one block; what is left beside the watermark fits
    engine = engine_of(
        req("A", [1, 2, 3], max_tokens=2),
        req("B", tokens(10, max(4 * fits - 1, 1)), max_tokens=1),
        num_blocks=10,
        watermark=watermark,
        prefix_cache="off",
    )
    assert engine.config.watermark_blocks == blocks
    run = engine.run_to_end()
    assert waits(run, "B") == ([] if fits > 0 else [(0, "watermark")])


# ---- 27 – 29: sampling and stopping ------------------------------------------------------------


def test_an_unfinished_chunk_samples_nothing() -> None:
    """Trap 27: 10 tokens in chunks of 4: tokens come in the third step only."""
    run = run_of(req("A", tokens(0, 10), max_tokens=2), max_num_batched_tokens=4)
    assert granted(run, "A") == [4, 4, 2, 1]
    sampled = [len(events(run, "token_sampled", step=k)) for k in range(4)]
    assert sampled == [0, 0, 1, 1]


@all_caches
@pytest.mark.parametrize("batching", ["continuous", "static"])
def test_a_stop_on_the_last_slot_of_a_block_takes_no_further_block(
    cache: str, batching: str
) -> None:
    """Trap 28: the token computed in slot 3 of block 0 samples the stop: one block, freed once."""
    engine = engine_of(
        req("A", [1, 2, 3], output_tokens=[5, 42, 7], stop_token_ids=[42]),
        prefix_cache=cache,
        batching=batching,
    )
    run = engine.run_to_end()
    assert run.results["A"]["finish_reason"] == "stop_token"
    assert [e["blocks"] for e in events(run, "blocks_allocated")] == [[0]]
    assert [e["blocks"] for e in events(run, "blocks_freed")] == [[0]]
    assert engine.kv.num_free == 16


@pytest.mark.parametrize(
    ("fields", "eos", "outputs", "reason"),
    [
        ({"stop_token_ids": [42]}, set(), [10, 42], "stop_token"),
        ({}, {42}, [10, 42], "stop_token"),
        ({"ignore_eos": True}, {42}, [10, 42, 12], "script_end"),
        ({"ignore_eos": True, "stop_token_ids": [42]}, {42}, [10, 42], "stop_token"),
        ({"max_tokens": 2}, set(), [10, 42], "max_tokens"),
        ({"max_tokens": 2}, {42}, [10, 42], "stop_token"),
        ({"max_tokens": 3}, set(), [10, 42, 12], "max_tokens"),
        ({"max_tokens": 1}, {42}, [10], "max_tokens"),
    ],
    ids=str,
)
def test_nothing_comes_after_a_stop(
    fields: dict, eos: set[int], outputs: list[int], reason: str
) -> None:
    """Trap 29: script 10, 42, 12: the stop token stays in and is the last; EOS can be ignored."""
    engine = engine_of(
        req("A", [1, 2, 3], output_tokens=[10, 42, 12], **fields), eos=frozenset(eos)
    )
    run = engine.run_to_end()
    assert run.steps[-1]["state"]["outputs"] == {"A": outputs}
    assert run.results["A"]["finish_reason"] == reason
    assert len(events(run, "finished")) == 1
    verify(run)


# ---- 31: limits --------------------------------------------------------------------------------


def test_every_step_keeps_to_the_budgets_and_reads_what_was_written() -> None:
    """Trap 31, over random scenarios: tokens ≤ budget, running ≤ max_num_seqs; and 1, 20, 38, 41:
    no empty share, and every context holds the sequence's own prefix."""
    rng = random.Random(31)
    preempted = forked = 0
    for _ in range(120):
        data = random_scenario(rng)
        run, _ = run_with_contents(data)
        engine = Scenario.from_dict(data).engine
        for record in run.steps:
            shares = [share["num_scheduled_tokens"] for share in record["scheduled"].values()]
            assert sum(shares) <= engine.max_num_batched_tokens
            assert all(share >= 1 for share in shares)
            assert len(record["scheduled"]) <= engine.max_num_seqs
        preempted += len(events(run, "preempted"))
        forked += len(events(run, "forked"))
        assert all(result["finish_reason"] is not None for result in run.results.values())
    assert preempted > 20 and forked > 5


def test_a_fork_counts_n_sequences_from_its_admission() -> None:
    """Trap 31: max_num_seqs 3: a request of n = 3 leaves no place, also before its fork."""
    run = run_of(
        req("A", tokens(0, 6), n=3, max_tokens=2),
        req("B", [9], max_tokens=1),
        max_num_seqs=3,
        long_prefill_token_threshold=3,
    )
    (wait,) = events(run, "waiting", sequence="B")
    assert (wait["reason"], wait["needed"], wait["available"]) == ("max_num_seqs", 1, 0)
    assert step_of(run, "admitted", "B") == 3


def test_a_run_is_the_same_every_time() -> None:
    """Trap 20: two simulations of a scenario with preemptions and forks give the same steps."""
    rng = random.Random(7)
    for _ in range(10):
        checked = Scenario.from_dict(random_scenario(rng))
        one, two = simulate(checked), simulate(checked)
        assert [r["events"] for r in one.steps] == [r["events"] for r in two.steps]


def test_an_untraced_engine_has_the_same_state_as_a_traced_one() -> None:
    """Trap 31: recording is no part of the state: without it every block is where it would be."""
    data = Scenario.from_dict(scenario(req("A", tokens(0, 5), max_tokens=1)))
    traced, plain = (Engine(data, ScriptedRunner(), trace=trace) for trace in (True, False))
    for engine in (traced, plain):
        while not engine.done:
            engine.step()
    assert plain.snapshot() == traced.snapshot()
