"""Traps of schedulers, each as a named test.

Not here, because nothing of the kind exists in this version:
- 29, its half about several accepted tokens: a step samples one token per sequence, so a stop can
  only be the last of them; that the tokens after it never come is tested.
- 30, its half about a late result: a step's result is taken in before anybody can cancel. That the
  token due in the step of the cancel is never sampled, and that a parked prefill gives everything
  back, is tested.
"""

from __future__ import annotations

import random

import pytest

from core.engine import EngineStuckError
from core.scenario import Scenario
from core.simulate import simulate, verify
from core.trace.run import Run
from tests.core.drive import engine_of, events, granted, req, run_of, run_with_contents, waits
from tests.scenario_gen import random_scenario

CACHES = ("hash", "radix", "off")
all_caches = pytest.mark.parametrize("cache", CACHES)


def tokens(start: int, length: int) -> list[int]:
    return list(range(start, start + length))


def step_of(run: Run, kind: str, name: str) -> int:
    return next(
        record["step"]
        for record in run.steps
        for event in record["events"]
        if event["type"] == kind and event["sequence"] == name
    )


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


# ---- 20 – 22: preemption and resume ------------------------------------------------------------


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@all_caches
def test_a_preempted_sequence_ends_with_the_same_tokens(cache: str, policy: str) -> None:
    """Trap 20: outputs are kept, nothing of it stays computed, the answer is the unpreempted one."""
    requests = [
        req("A", tokens(10, 8), max_tokens=9, priority=0),
        req("B", tokens(20, 8), max_tokens=9, priority=1),
        req("C", tokens(30, 8), max_tokens=9, priority=2),
    ]
    tight = run_of(*requests, num_blocks=9, policy=policy, prefix_cache=cache)
    roomy = run_of(*requests, num_blocks=64, policy=policy, prefix_cache=cache)
    preempted = events(tight, "preempted")
    assert {e["sequence"] for e in preempted} == {"C"} and not events(roomy, "preempted")
    step = step_of(tight, "preempted", "C")
    state = tight.steps[step]["state"]
    assert state["outputs"]["C"] == [
        3_000_000 + j for j in range(preempted[0]["num_output_tokens"])
    ]
    assert "C" not in state["block_tables"] and state["waiting"][0] == "C"
    assert tight.steps[-1]["state"]["outputs"] == roomy.steps[-1]["state"]["outputs"]
    assert tight.steps[-1]["state"]["outputs"]["C"] == [3_000_000 + j for j in range(9)]
    assert [e["num_cached_tokens"] for e in events(tight, "resumed", sequence="C")] == [
        0 if cache == "off" else 4
    ]
    verify(tight)


@all_caches
def test_many_preemptions_leak_nothing(cache: str) -> None:
    """Trap 20: twelve rivals for a tiny pool: at the end every block is free, no token is doubled."""
    engine = engine_of(
        *[req(f"R{i}", tokens(100 * i, 5), max_tokens=14) for i in range(12)],
        num_blocks=9,
        prefix_cache=cache,
        max_num_seqs=12,
    )
    run = engine.run_to_end()
    assert len(events(run, "preempted")) >= 10
    assert engine.kv.num_free == 9 and engine.scheduler.owed == 0
    assert engine.scheduler.num_running_seqs == 0
    outputs = run.steps[-1]["state"]["outputs"]
    assert outputs == {f"R{i}": [1_000_000 * (i + 1) + j for j in range(14)] for i in range(12)}
    assert set(run.steps[-1]["state"]["ref_counts"]) == set()


@pytest.mark.parametrize("cache", ["hash", "radix"])
def test_on_resume_the_hit_is_found_before_the_chunk_is_sized(cache: str) -> None:
    """Traps 21 and 22: B comes back with 13 tokens and a budget of 6: a hit of 12 leaves one, which
    is computed at once. Sizing first would have cut 13 tokens into chunks of 6, 6 and 1."""
    run = run_of(
        req("A", tokens(10, 12), max_tokens=5),
        req("B", tokens(50, 12), max_tokens=3),
        num_blocks=7,
        max_num_batched_tokens=24,
        long_prefill_token_threshold=6,
        prefix_cache=cache,
    )
    (resumed,) = events(run, "resumed", sequence="B")
    step = step_of(run, "resumed", "B")
    assert (resumed["num_tokens"], resumed["num_cached_tokens"]) == (13, 12)
    assert run.steps[step]["scheduled"]["B"] == {
        "num_scheduled_tokens": 1,
        "num_computed_tokens": 0,
        "num_cached_tokens": 12,
    }
    assert len(events(run, "token_sampled", step=step, sequence="B")) == 1


@pytest.mark.parametrize("cache", ["hash", "radix"])
@pytest.mark.parametrize(("suffix", "chunks"), [(4, [4]), (5, [5]), (6, [5, 1])])
def test_a_suffix_that_fits_the_first_chunk_ends_the_prefill_there(
    cache: str, suffix: int, chunks: list[int]
) -> None:
    """Trap 22: hit 8, chunks of 5: a suffix of 4 or 5 samples in its first step."""
    common = tokens(0, 8)
    run = run_of(
        req("A", [*common, 90], max_tokens=1),
        req("B", [*common, *tokens(30, suffix)], max_tokens=1, arrive_step=2),
        long_prefill_token_threshold=5,
        prefix_cache=cache,
    )
    assert [n for n in granted(run, "B") if n] == chunks
    assert step_of(run, "token_sampled", "B") == 2 + len(chunks) - 1
    assert all(n != 0 for n in granted(run, "B"))


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


# ---- 25, 26: victims ---------------------------------------------------------------------------


def test_a_victim_already_scheduled_gives_its_tokens_and_blocks_back() -> None:
    """Trap 25: in step 4 V is granted 1 of 4 tokens, then H asks for a block and V must go.

    Its blocks 3 and 0 come free, H takes 0, and S gets 3 tokens: the 2 that were left and V's.
    """
    run = run_of(
        req("V", tokens(0, 3), max_tokens=9, priority=9),
        req("H", tokens(20, 2), max_tokens=6, priority=0, arrive_step=1),
        req("S", tokens(40, 8), max_tokens=2, priority=1, arrive_step=1),
        num_blocks=5,
        max_num_batched_tokens=4,
        policy="priority",
        prefix_cache="off",
    )
    assert (granted(run, "V")[:5], granted(run, "H")[:5], granted(run, "S")[:5]) == (
        [3, 1, 1, 1, None],
        [None, 2, 1, 1, 1],
        [None, 1, 2, 2, 3],
    )
    (preempted,) = events(run, "preempted", step=4)
    assert (preempted["sequence"], preempted["by"], preempted["num_output_tokens"]) == ("V", "H", 4)
    (freed,) = events(run, "blocks_freed", step=4)
    assert (freed["blocks"], freed["to"]) == ([3, 0], "front")
    state = run.steps[4]["state"]
    assert state["block_tables"] == {"H": [1, 0], "S": [2, 4]}
    assert state["free_order"] == [3]
    assert len(events(run, "token_sampled", step=4, sequence="V")) == 0
    assert len(events(run, "scheduled", step=4)) == 2
    assert run.steps[-1]["state"]["outputs"]["V"] == [1_000_000 + j for j in range(9)]
    verify(run)


def test_a_block_that_vanishes_is_an_error_and_not_a_hang() -> None:
    """Trap 26: somebody else takes the pool's blocks: alone, A preempts itself and cannot return.

    The engine says so after a few steps instead of spinning for ever.
    """
    engine = engine_of(req("A", tokens(0, 4), max_tokens=4), num_blocks=2, prefix_cache="off")
    engine.step()
    engine._shadow = None  # the theft has no event
    engine.kv.pool.allocate(1)  # type: ignore[union-attr]
    with pytest.raises(EngineStuckError, match=r"1 wait, A first; 1 of 2 blocks are free"):
        for _ in range(10):
            engine.step()
    assert engine.num_steps < 8


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


# ---- 30: cancel --------------------------------------------------------------------------------


@all_caches
def test_a_prefill_cancelled_between_chunks_gives_everything_back(cache: str) -> None:
    """Trap 30: A has computed 8 of 20 tokens: row, blocks and locks are free in the same step."""
    engine = engine_of(
        req("A", tokens(0, 20), max_tokens=4, cancel_step=1),
        req("B", tokens(50, 6), max_tokens=1, arrive_step=1),
        num_blocks=6,
        max_num_seqs=1,
        max_num_batched_tokens=8,
        prefix_cache=cache,
    )
    engine.step()
    held = engine.snapshot()["block_tables"]["A"]
    assert held == [0, 1] and engine.scheduler.owed == 3
    engine.step()
    run = engine.run()
    (freed,) = events(run, "blocks_freed", step=1, sequence="A")
    assert (freed["blocks"], freed["reason"]) == ([1, 0], "cancelled")
    assert list(run.steps[1]["scheduled"]) == ["B"]
    assert not events(run, "token_sampled", sequence="A")
    assert engine.done and engine.kv.num_free == 6 and engine.scheduler.owed == 0
    assert engine.snapshot()["outputs"]["A"] == []


def test_the_token_due_in_the_step_of_a_cancel_never_comes() -> None:
    """Trap 30: cancelled at 2, A keeps the two tokens of steps 0 and 1; blocks are freed once."""
    run = run_of(req("A", tokens(0, 5), max_tokens=9, cancel_step=2), req("B", [1], max_tokens=4))
    assert run.steps[-1]["state"]["outputs"]["A"] == [1_000_000, 1_000_001]
    freed = [b for e in events(run, "blocks_freed", sequence="A") for b in e["blocks"]]
    assert sorted(freed) == [0, 1]
    assert [e["reason"] for e in events(run, "finished", sequence="A")] == ["cancelled"]


@pytest.mark.parametrize("cancel_step", [1, 2, 4, 6, 9])
def test_a_cancel_ends_each_sequence_of_a_fork_once(cancel_step: int) -> None:
    """Trap 30: while it waits, before the fork, after it, when some or all have ended already."""
    engine = engine_of(
        req("Z", tokens(80, 4), max_tokens=2),
        req(
            "A",
            tokens(0, 6),
            n=3,
            cancel_step=cancel_step,
            output_tokens=[[1], [1, 2, 3], [1, 2, 3, 4]],
        ),
        max_num_seqs=3,
        long_prefill_token_threshold=4,
    )
    run = engine.run_to_end()
    assert sorted(e["sequence"] for e in events(run, "finished", request="A")) == [
        "A#0",
        "A#1",
        "A#2",
    ]
    ended = {e["sequence"] for e in events(run, "finished", request="A", reason="cancelled")}
    wanted = {1: 3, 2: 3, 4: 2, 6: 1, 9: 0}[cancel_step]
    assert len(ended) == wanted
    assert engine.kv.num_free == 16 and engine.scheduler.num_running_seqs == 0
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
