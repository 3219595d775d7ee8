"""What must hold in every run, whatever the scenario."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.engine import Engine
from core.runner import ScriptedRunner
from core.scenario import Scenario
from core.simulate import simulate, verify
from core.trace.reasons import REASONS
from core.trace.run import Run, parse_run
from tests.core.test_beams import random_case
from tests.core.test_beams import run as beam_run
from tests.scenario_gen import random_scenario

REDUCE_CLI = Path(__file__).parents[1] / "js" / "reduce_cli.mjs"

any_scenario = st.randoms(use_true_random=False).map(random_scenario)
thorough = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def run_of(scenario: dict[str, Any]) -> Run:
    """With states, each compared with the reduced events while it runs."""
    return simulate(Scenario.from_dict(scenario), keep_state=True, debug=True)


@thorough
@given(any_scenario)
def test_blocks_are_conserved(scenario: dict[str, Any]) -> None:
    engine = Scenario.from_dict(scenario).engine
    for record in run_of(scenario).steps:
        state, usage = record["state"], record["usage"]
        assert sum(usage.values()) == engine.num_blocks
        held = Counter(block for table in state["block_tables"].values() for block in table)
        assert {str(block): n for block, n in held.items()} == state["ref_counts"]
        free = state["free_order"]
        assert len(set(free)) == len(free) == usage["free"] + usage["cached"]
        assert not set(free) & set(held)
        matchable = [block for block in free if str(block) in state["cached"]]
        assert len(matchable) == usage["cached"]
        assert free[usage["free"] :] == matchable, "unmatchable blocks are taken first"


@thorough
@given(any_scenario)
def test_budgets_are_kept(scenario: dict[str, Any]) -> None:
    engine = Scenario.from_dict(scenario).engine
    for record in run_of(scenario).steps:
        shares = [share["num_scheduled_tokens"] for share in record["scheduled"].values()]
        assert all(share >= 1 for share in shares), "never a step of zero tokens"
        assert sum(shares) <= engine.max_num_batched_tokens
        assert len(record["state"]["running"]) <= engine.max_num_seqs
        assert set(record["scheduled"]) <= set(_ran(record))


def _ran(record: dict[str, Any]) -> list[str]:
    ended = [e["sequence"] for e in record["events"] if e["type"] == "finished"]
    return [*record["state"]["running"], *ended]


@thorough
@given(any_scenario)
def test_no_token_is_lost_or_doubled(scenario: dict[str, Any]) -> None:
    parsed = Scenario.from_dict(scenario)
    run = run_of(scenario)
    outputs = run.steps[-1]["state"]["outputs"] if run.steps else {}
    for order, request in enumerate(parsed.requests):
        for index in range(request.n):
            name = request.id if request.n == 1 else f"{request.id}#{index}"
            tokens = outputs.get(name, [])
            if request.output_tokens is not None:
                assert tokens == list(request.output_tokens[index][: len(tokens)])
            else:
                start = 1_000_000 * (order + 1) + 10_000 * index
                assert tokens == list(range(start, start + len(tokens)))


@thorough
@given(any_scenario)
def test_computed_tokens_follow_one_another(scenario: dict[str, Any]) -> None:
    """Each scheduled share starts where the last one ended, or at 0 after a preemption."""
    computed: dict[str, int] = {}
    for record in run_of(scenario).steps:
        for event in record["events"]:
            if event["type"] == "preempted":
                computed[event["sequence"]] = 0
        for name, share in record["scheduled"].items():
            assert share["num_computed_tokens"] == computed.get(name, 0)
            assert not (share["num_cached_tokens"] and share["num_computed_tokens"])
            computed[name] = sum(share.values())
        for event in record["events"]:
            if event["type"] == "forked":
                for twin in event["sequences"]:
                    computed[twin] = computed[event["sequence"]]


@thorough
@given(any_scenario)
def test_every_request_ends_once(scenario: dict[str, Any]) -> None:
    run = run_of(scenario)
    events = [event for record in run.steps for event in record["events"]]
    ended = Counter(event["sequence"] for event in events if event["type"] == "finished")
    rejected = {event["request"] for event in events if event["type"] == "request_rejected"}
    for request in Scenario.from_dict(scenario).requests:
        names = [request.id] if request.n == 1 else [f"{request.id}#{i}" for i in range(request.n)]
        assert [ended[name] for name in names] == [int(request.id not in rejected)] * request.n
    if run.steps:
        assert run.steps[-1]["state"]["block_tables"] == {}, "nothing is held at the end"


@thorough
@given(any_scenario)
def test_a_run_survives_its_file_and_verifies(scenario: dict[str, Any]) -> None:
    run = run_of(scenario)
    again = parse_run(run.to_bytes())
    assert again.to_dict() == json.loads(json.dumps(run.to_dict()))
    verify(again)


@thorough
@given(any_scenario)
def test_every_reason_is_listed(scenario: dict[str, Any]) -> None:
    for record in run_of(scenario).steps:
        for event in record["events"]:
            if event["type"] in REASONS:
                assert event["reason"] in REASONS[event["type"]]


@thorough
@given(any_scenario, st.integers(0, 3))
def test_cache_and_batching_change_no_token(scenario: dict[str, Any], choice: int) -> None:
    """Whatever the cache, the chunk or the pool: the same sequences sample the same tokens."""
    scenario = json.loads(json.dumps(scenario))
    for request in scenario["requests"]:
        request["cancel_step"] = None
    engine = scenario["engine"]
    before = _texts(scenario)
    if engine.get("allocator") != "contiguous":
        engine["prefix_cache"] = ["radix", "hash", "off", "hash"][choice]
    engine["eviction"] = ["lru", "fifo", "lfu", "lru"][choice]
    engine["long_prefill_token_threshold"] = choice
    assert _texts(scenario) == before


def _texts(scenario: dict[str, Any]) -> dict[str, list[int]]:
    steps = run_of(scenario).steps
    return steps[-1]["state"]["outputs"] if steps else {}


def assert_javascript_agrees(node: str, run: Run) -> None:
    """The player's reducer gives the same states as ours, each after each step."""
    done = subprocess.run(
        [node, str(REDUCE_CLI)],
        input=json.dumps(run.to_dict()),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout) == json.loads(json.dumps(list(run.states())))


@pytest.mark.parametrize("seed", range(12))
def test_javascript_and_python_reduce_alike(seed: int, node: str) -> None:
    for i, window in enumerate((None, None, None, None, 1 + seed % 4, 5 + seed % 5)):
        scenario = random_scenario(random.Random(seed * 8 + i))
        runner = ScriptedRunner(sliding_window=window)
        assert_javascript_agrees(node, Engine(Scenario.from_dict(scenario), runner).run_to_end())


@pytest.mark.parametrize("part", range(3))
def test_javascript_and_python_reduce_beams_alike(part: int, node: str) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(900 + 8 * part, 908 + 8 * part):
        run = beam_run(random_case(seed), window=(None, None, 3, 7)[seed % 4])[1]
        assert_javascript_agrees(node, run)
        kinds.update(event["type"] for record in run.steps for event in record["events"])
    assert kinds["pruned"] and kinds["preempted"] and kinds["block_copied"]


@pytest.mark.parametrize("seed", range(6))
def test_javascript_and_python_reduce_alike_without_a_kv_cache(seed: int, node: str) -> None:
    scenario = random_scenario(random.Random(seed))
    engine = scenario["engine"] | {"kv_cache": False, "max_num_batched_tokens": 256}
    checked = Scenario.from_dict(scenario | {"model": "some", "engine": engine})
    run = Engine(checked, ScriptedRunner(), debug=True, label="LIVE").run_to_end()
    kinds = {event["type"] for record in run.steps for event in record["events"]}
    assert "token_sampled" in kinds and "blocks_allocated" not in kinds
    assert_javascript_agrees(node, run)
