"""Traps 20 – 22, 25, 26 and 30: preemption, resume, refunds, and cancels, each as a named test.

Not here, because nothing of the kind exists in this version:
- 30, its half about a late result: a step's result is taken in before anybody can cancel. That the
  token due in the step of the cancel is never sampled, and that a parked prefill gives everything
  back, is tested.
"""

from __future__ import annotations

import pytest

from core.errors import KVScopeError
from core.simulate import verify
from tests.core.drive import engine_of, events, granted, req, run_of, step_of, tokens

CACHES = ("hash", "radix", "off")
all_caches = pytest.mark.parametrize("cache", CACHES)


# ---- 20 – 22: preemption and resume ------------------------------------------------------------


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@all_caches
def test_a_preempted_sequence_ends_with_the_same_tokens(cache: str, policy: str) -> None:
    """Trap 20: outputs are kept, nothing stays computed, the answer is the unpreempted one."""
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
    """Trap 20: twelve rivals for a tiny pool: in the end all blocks are free, no token doubled."""
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
    with pytest.raises(KVScopeError, match=r"1 wait, A first; 1 of 2 blocks are free"):
        engine.run_to_end()
    assert engine.num_steps < 8


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
