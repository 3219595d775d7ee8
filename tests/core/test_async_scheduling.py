"""Asynchronous scheduling gives every request what synchronous scheduling gives it, whatever the
scenario; and a step in flight never reads or writes a block that somebody else has been given.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.engine import Engine
from core.runner import Runner, ScriptedRunner
from core.scenario import Scenario
from core.simulate import simulate, verify
from core.trace.reducer import Reducer
from core.trace.run import Run, output_tokens, parse_run
from tests.core.ahead_runner import AheadRunner, DeviceThread, ahead_for
from tests.core.drive import engine_of, events, granted, req, run_of, tokens
from tests.core.memory_runner import memory_for
from tests.core.test_beams import BeamRunner, random_case
from tests.core.test_engine_days import assert_same, mid_life
from tests.core.test_properties import assert_javascript_agrees
from tests.scenario_gen import random_scenario, with_forks

Json = dict[str, Any]
thorough = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
any_scenario = st.randoms(use_true_random=False).map(random_scenario)
any_window = st.sampled_from([None, None, 1, 2, 3, 5, 8])


def ahead(scenario: Json) -> Json:
    """The same scenario with asynchronous scheduling."""
    copy: Json = json.loads(json.dumps(scenario))
    copy["engine"]["async_scheduling"] = True
    return copy


def finish(scenario: Json, runner: Runner) -> tuple[Run, Engine]:
    """Run it, with all bookkeeping checked after each step; nothing may be left behind."""
    engine = Engine(Scenario.from_dict(scenario), runner, debug=True, keep_state=True)
    run = engine.run_to_end()
    assert engine.kv.usage()["in_use"] == 0
    assert engine.scheduler.owed == engine.scheduler.num_running_seqs == 0
    for seq in engine.sequences().values():
        assert seq.num_in_flight_tokens == seq.num_output_placeholders == 0 == len(seq.block_table)
    return run, engine


def assert_same_answers(
    synchronous: Run,
    asynchronous: Run,
    cancelled: Collection[str] = (),
    skip: Collection[str] = (),
) -> None:
    """Tokens and ends; of a cancelled request the tokens that both have, of those skipped nothing:
    what they get depends on the step."""
    mine, theirs = output_tokens(asynchronous), output_tokens(synchronous)
    for name in synchronous.results.keys() | asynchronous.results.keys():
        got, expected = mine.get(name, []), theirs.get(name, [])
        if name.partition("#")[0] in skip:
            continue
        if name.partition("#")[0] in cancelled:
            both = min(len(got), len(expected))
            assert got[:both] == expected[:both]
            continue
        assert got == expected, name
        reasons = [run.results[name]["finish_reason"] for run in (asynchronous, synchronous)]
        assert reasons[0] == reasons[1], name


def cancelled(scenario: Json) -> set[str]:
    return {r["id"] for r in scenario["requests"] if r.get("cancel_step") is not None}


# ---- whatever the scenario -----------------------------------------------------------------------


@thorough
@given(any_scenario)
def test_scripted_answers_are_the_same_and_the_run_verifies(scenario: Json) -> None:
    run, _ = finish(ahead(scenario), ScriptedRunner())
    assert_same_answers(simulate(Scenario.from_dict(scenario)), run, cancelled(scenario))
    verify(parse_run(run.to_bytes()))
    for record in run.steps:
        sampled = Counter(e["sequence"] for e in record["events"] if e["type"] == "token_sampled")
        assert not sampled or max(sampled.values()) == 1, "one token of a sequence in a record"


@thorough
@given(any_scenario, any_window)
def test_answers_out_of_a_memory_are_the_same(scenario: Json, window: int | None) -> None:
    """Each token depends on all that its sequence reads through its table, as launched; the model
    has a stop token that comes at any time."""
    for request in scenario["requests"]:
        request["output_tokens"] = None
        request.setdefault("stop_token_ids", [2])
    run, _ = finish(ahead(scenario), ahead_for(scenario, window))
    plain, _ = finish(scenario, memory_for(scenario, window))
    assert_same_answers(plain, run, cancelled(scenario))


@pytest.mark.parametrize("seed", range(30))
def test_forks_off_running_sequences_read_what_they_need(seed: int) -> None:
    """Which tokens a fork inherits depends on the step, and what it samples then on those."""
    rng = random.Random(seed)
    scenario = with_forks(rng, random_scenario(rng))
    for request in scenario["requests"]:
        request["output_tokens"] = None
        if "fork_of" not in request:
            request["stop_token_ids"] = [2]
    run, _ = finish(ahead(scenario), ahead_for(scenario))
    plain, _ = finish(scenario, memory_for(scenario))
    forks = {r["id"] for r in scenario["requests"] if "fork_of" in r}
    assert_same_answers(plain, run, cancelled(scenario), skip=forks)


@pytest.mark.parametrize("seed", range(60))
def test_beams_are_the_same(seed: int) -> None:
    """They sit out each second step, beside others that do not."""
    case = random_case(seed)
    data = case.to_dict()
    size, window = case.engine.block_size, (None, None, 3, 7)[seed % 4]
    keeps = case.engine.prefix_cache == "radix"
    plain, _ = finish(data, BeamRunner(size, window, not keeps))
    other = BeamRunner(size, window, not keeps)
    scenario = Scenario.from_dict(ahead(data))
    run = Engine(scenario, other, debug=True, label="LIVE").run_to_end()
    assert_same_answers(plain, run, skip=cancelled(data))
    for name, result in run.results.items():
        if name.partition("#")[0] not in cancelled(data):
            keys = ("score", "rank", "cumulative_logprob")
            assert [result.get(k) for k in keys] == [plain.results[name].get(k) for k in keys]
    verify(parse_run(run.to_bytes()))


@pytest.mark.parametrize("seed", range(6))
def test_the_player_reduces_such_runs_alike(seed: int, node: str) -> None:
    for i, window in enumerate((None, None, 1 + seed % 4)):
        scenario = Scenario.from_dict(ahead(random_scenario(random.Random(seed * 8 + i))))
        runner = ScriptedRunner(sliding_window=window)
        assert_javascript_agrees(node, Engine(scenario, runner).run_to_end())


@pytest.mark.parametrize("seed", range(8))
def test_without_a_kv_cache(seed: int) -> None:
    """Nothing goes ahead, and nothing differs but the record in which a token stands."""
    scenario = random_scenario(random.Random(seed))
    scenario["engine"] |= {"kv_cache": False, "max_num_batched_tokens": 256}
    scenario["model"] = "some"
    plain, run = (
        Engine(Scenario.from_dict(s), ScriptedRunner(), debug=True, label="LIVE").run_to_end()
        for s in (scenario, ahead(scenario))
    )
    assert_same_answers(plain, run, cancelled(scenario))


# ---- what a run looks like -----------------------------------------------------------------------


def ahead_of(*requests: Json, **engine: Any) -> Run:
    return run_of(*requests, async_scheduling=True, **engine)


def kinds(run: Run, step: int) -> list[tuple[str, str]]:
    return [(e["type"], e.get("sequence", "")) for e in run.steps[step]["events"]]


def test_a_steps_tokens_stand_in_the_next_record_behind_its_schedule() -> None:
    run = ahead_of(req("A", tokens(0, 3), max_tokens=3))
    assert granted(run, "A") == [3, 1, 1, None], "known to end: nothing is computed in vain"
    assert kinds(run, 0)[-1] == ("scheduled", "A")
    assert kinds(run, 1) == [("scheduled", "A"), ("token_sampled", "A")]
    assert [len(events(run, "token_sampled", k)) for k in range(4)] == [0, 1, 1, 1]
    assert kinds(run, 3)[:2] == [("token_sampled", "A"), ("finished", "A")]
    assert {kind for kind, _ in kinds(run, 3)[2:]} == {"blocks_freed"}
    assert [r["usage"]["in_use"] for r in run.steps] == [1, 1, 2, 0]


@pytest.mark.parametrize("limit", [{"max_tokens": 2}, {"output_tokens": [7, 8]}])
def test_an_end_that_is_known_ahead_computes_nothing_in_vain(limit: Json) -> None:
    run = ahead_of(req("A", tokens(0, 3), **limit))
    assert granted(run, "A") == [3, 1, None]
    long = ahead_of(req("A", tokens(0, 3), max_tokens=9), max_model_len=5)
    assert granted(long, "A") == [3, 1, None]
    assert long.results["A"]["finish_reason"] == "max_model_len"


@pytest.mark.parametrize("cache", ["radix", "hash", "off"])
def test_the_token_behind_a_stop_is_dropped_and_its_block_held_until_then(cache: str) -> None:
    """A prompt of 3 and a stop token fill a block of 4: the late step computes that, and takes a
    second block for the stop token's successor."""
    run = ahead_of(
        req("A", tokens(0, 4), output_tokens=[9, 5, 6], stop_token_ids=[9], max_tokens=3),
        req("B", tokens(20, 3), max_tokens=4),
        prefix_cache=cache,
    )
    assert output_tokens(run)["A"] == [9]
    assert granted(run, "A") == [4, 1, None, None, None]
    (ended,) = events(run, "finished", sequence="A")
    assert ended in run.steps[1]["events"] and ended["num_output_tokens"] == 1
    after = run.steps[1]["state"]
    assert after["running"] == ["B"] and len(after["block_tables"]["A"]) == 2, "still in use"
    freed = events(run, "blocks_freed", sequence="A")
    assert {block for e in freed for block in e["blocks"]} == set(after["block_tables"]["A"])
    assert all(e in run.steps[2]["events"] for e in freed), "once, when the late step has ended"
    for event in events(run, "block_cached", request="A"):
        assert event["blocks"] == after["block_tables"]["A"][:1], "the late block is never cached"


def test_what_is_computed_behind_the_end_is_not_cached() -> None:
    """The late share fills a block with known tokens, the stop token the last; all the same."""
    run = ahead_of(
        req("A", tokens(0, 3), output_tokens=[9, 5], stop_token_ids=[9], max_tokens=2),
        req("B", tokens(20, 3), max_tokens=4),
        prefix_cache="hash",
    )
    assert granted(run, "A")[:2] == [3, 1] and not events(run, "block_cached", request="A")


def test_a_cancel_drops_the_token_in_flight_and_frees_once() -> None:
    run = ahead_of(
        req("A", tokens(0, 4), max_tokens=9, cancel_step=2), req("B", tokens(20, 4), max_tokens=5)
    )
    assert output_tokens(run)["A"] == [1_000_000], "the one of step 1 comes too late"
    shown = kinds(run, 2)
    assert shown[:2] == [("cancelled", ""), ("finished", "A")]
    assert shown.index(("blocks_freed", "A")) > shown.index(("token_sampled", "B")) or (
        shown.index(("blocks_freed", "A")) > shown.index(("scheduled", "B"))
    ), "not before step 1 has been taken in"
    assert "A" not in run.steps[2]["scheduled"]
    assert {e["reason"] for e in events(run, "blocks_freed", sequence="A")} == {"cancelled"}


def test_the_last_step_is_not_waited_for_in_a_step_of_its_own() -> None:
    run = ahead_of(req("A", tokens(0, 4), output_tokens=[9, 5, 6], stop_token_ids=[9]))
    assert len(run.steps) == 2 and run.steps[-1]["usage"]["in_use"] == 0


def test_a_fork_of_n_sits_out_one_step_and_others_go_on() -> None:
    run = ahead_of(req("A", tokens(0, 3), n=2, max_tokens=3), req("B", tokens(9, 3), max_tokens=5))
    assert granted(run, "A#0")[:3] == [3, None, 1] and granted(run, "A#1")[:3] == [None, None, 1]
    assert granted(run, "B")[:4] == [3, 1, 1, 1]
    assert [e["type"] for e in run.steps[1]["events"]].count("forked") == 1


def test_a_repetition_penalty_needs_each_token_first() -> None:
    run = ahead_of(
        req("A", tokens(0, 3), repetition_penalty=1.3, max_tokens=3),
        req("B", tokens(9, 3), max_tokens=5),
    )
    assert granted(run, "A")[:5] == [3, None, 1, None, 1]
    assert granted(run, "B")[:5] == [3, 1, 1, 1, 1]


def test_a_fork_off_a_running_sequence_finds_all_its_tokens() -> None:
    run = ahead_of(
        req("A", tokens(0, 3), max_tokens=6),
        {"id": "F", "fork_of": "A", "arrive_step": 3, "max_tokens": 6},
    )
    shown = [kind for kind, _ in kinds(run, 3)]
    assert shown.index("token_sampled") < shown.index("request_arrived") < shown.index("scheduled")
    (fork,) = events(run, "forked")
    assert fork["sequences"] == ["A", "F"]
    assert output_tokens(run)["F"][:3] == output_tokens(run)["A"][:3]
    verify(run)


def test_a_duplicate_is_not_freed_under_a_step_that_reads_it() -> None:
    """Two equal prompts in one step: the tree keeps the first one's block and rewrites the second
    one's table, so the second sits out the step that would read its old one."""
    run = ahead_of(req("A", tokens(0, 4), max_tokens=4), req("B", tokens(0, 4), max_tokens=4))
    assert granted(run, "A")[:3] == [4, 1, 1]
    assert granted(run, "B")[:3] == [4, None, 1]
    assert events(run, "blocks_freed", 1, reason="duplicate")


def test_nobody_is_preempted_while_a_step_is_in_flight() -> None:
    """The step that lacks a block grants no more; the next one waits first, and then preempts."""
    run = ahead_of(
        req("A", tokens(0, 4), max_tokens=8),
        req("B", tokens(20, 4), max_tokens=8),
        num_blocks=3,
        prefix_cache="off",
    )
    (preempted, *_) = events(run, "preempted")
    step = next(r["step"] for r in run.steps if preempted in r["events"])
    shown = kinds(run, step)
    assert shown.index(("token_sampled", "A")) < shown.index(("preempted", "B"))
    assert "B" not in run.steps[step - 1]["scheduled"]
    assert_same_answers(
        run_of(
            req("A", tokens(0, 4), max_tokens=8),
            req("B", tokens(20, 4), max_tokens=8),
            num_blocks=3,
            prefix_cache="off",
        ),
        run,
    )


def test_off_by_default_and_then_nothing_differs() -> None:
    assert not Scenario.from_dict({"schema": "scenario/1"}).engine.async_scheduling
    engine = engine_of(req("A", tokens(0, 3), max_tokens=3))
    engine.finish()
    assert granted(engine.run(), "A") == [3, 1, 1]


def test_a_live_engine_forgets_a_request_when_its_blocks_are_free() -> None:
    """Records taken after each step; the state must follow from them all the same."""
    engine = engine_of(eos=frozenset({1_000_001}), async_scheduling=True)
    asked = [req(name, tokens(10 * i, 4), max_tokens=6) for i, name in enumerate("ABC")]
    specs = Scenario.from_dict({"schema": "scenario/1", "requests": asked}).requests
    engine.add(specs)
    held_after_end = 0
    while not engine.done:
        engine.step()
        engine.take_steps()
        held_after_end += any(r.ended for r in engine.requests)
    assert held_after_end and not engine.requests and engine.kv.usage()["in_use"] == 0


# ---- the overlap ---------------------------------------------------------------------------------


def test_the_next_step_is_launched_while_the_device_computes() -> None:
    """The device does not finish a step before the next one has been launched: an engine that
    waited for it first would wait for ever."""
    device = DeviceThread(waits_for_next=set(range(6)))
    scenario = {
        "schema": "scenario/1",
        "engine": {"async_scheduling": True},
        "requests": [req("A", tokens(0, 5), max_tokens=8)],
    }
    engine = Engine(Scenario.from_dict(scenario), device, debug=True)
    try:
        engine.finish()
    finally:
        device.close()
    for k in range(6):
        assert device.log.index(("launched", k + 1)) < device.log.index(("computed", k))
        assert device.log.index(("computed", k)) < device.log.index(("collected", k))
    assert output_tokens(engine.run())["A"] == [1_000_000 + j for j in range(8)]


def test_an_unknown_token_is_never_needed_by_the_host() -> None:
    """While nobody sits out, each decode step is launched without knowing the newest token."""
    scenario = {
        "schema": "scenario/1",
        "engine": {"async_scheduling": True, "num_blocks": 32},
        "requests": [req("A", tokens(0, 5), max_tokens=8), req("B", tokens(9, 2), max_tokens=8)],
    }
    runner = AheadRunner(block_size=4)
    finish(scenario, runner)
    assert runner.num_unknown == 2 * 7


# ---- an engine that lives on ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_a_run_may_begin_while_a_step_is_in_flight(seed: int, node: str, root: Any) -> None:
    """Also beside a sequence that has ended and still holds its blocks."""
    fields: Json = [{}, {"prefix_cache": "hash"}, {"prefix_cache": "off", "num_blocks": 12}][
        seed % 3
    ]
    run, states = mid_life(seed, async_scheduling=True, **fields)
    reducer = Reducer(run.header)
    for record, own in zip(run.steps, states, strict=True):
        reducer.apply_step(record)
        assert reducer.usage() == record["usage"]
        assert_same(reducer.state(), own)
    if seed < 3:
        done = subprocess.run(
            [node, str(root / "tests" / "js" / "reduce_cli.mjs")],
            input=json.dumps(run.to_dict()),
            capture_output=True,
            text=True,
            check=True,
        )
        for reduced, own in zip(json.loads(done.stdout), states, strict=True):
            assert_same(reduced, own)


def test_the_docstrings_example_is_what_happens() -> None:
    run = ahead_of(
        req("A", tokens(0, 3), output_tokens=[7, 9, 5, 6], stop_token_ids=[9]),
        req("B", tokens(20, 3), max_tokens=8),
    )
    assert granted(run, "A")[:4] == [3, 1, 1, None]
    told = [[e["type"] for e in r["events"] if e.get("sequence") == "A"] for r in run.steps[:4]]
    assert told[0][-1] == "scheduled" and told[1] == ["scheduled", "token_sampled"]
    assert {"scheduled", "token_sampled", "finished"} <= set(told[2])
    assert set(told[3]) == {"blocks_freed"}
    assert output_tokens(run)["A"] == [7, 9]
