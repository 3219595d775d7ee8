"""Every slot that a sequence reads holds what that sequence needs, in every scenario."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.engine import Engine
from core.scenario import Scenario
from tests.core.memory_runner import memory_for
from tests.scenario_gen import random_scenario

any_scenario = st.randoms(use_true_random=False).map(random_scenario)
thorough = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


def outputs(scenario: dict[str, Any], window: int | None = None) -> dict[str, list[int]]:
    """Run it on readable memory; what each sequence sampled."""
    engine = Engine(Scenario.from_dict(scenario), memory_for(scenario, window), debug=True)
    engine.run_to_end()
    return {name: seq.output_tokens for name, seq in engine.sequences().items()}


@thorough
@given(any_scenario)
def test_every_context_is_read_right(scenario: dict[str, Any]) -> None:
    outputs(_without_scripts(scenario))


@thorough
@given(any_scenario, st.sampled_from([1, 2, 3, 4, 5, 6, 8, 11, 16]))
def test_no_window_is_given_back_too_early_or_too_late(
    scenario: dict[str, Any], window: int
) -> None:
    """The memory holds all that the model sees, and no more; the tokens are those without it."""
    scenario = _without_scripts(scenario)
    assert outputs(scenario, window) == outputs(scenario)


@thorough
@given(
    any_scenario,
    st.sampled_from(["radix", "hash", "off"]),
    st.sampled_from(["lru", "fifo", "lfu"]),
    st.sampled_from([1, 2, 3, 5]),
    st.sampled_from([0, 1, 2, 7]),
)
def test_no_setting_changes_a_token(
    scenario: dict[str, Any], cache: str, eviction: str, block_size: int, chunk: int
) -> None:
    """Block size, chunk size, cache, eviction and a roomy pool: the same tokens come out."""
    scenario = _without_scripts(scenario)
    before = outputs(scenario)
    engine = scenario["engine"]
    if engine.get("allocator") != "contiguous":
        engine["prefix_cache"] = cache
    engine["eviction"] = eviction
    engine["num_blocks"] = 400
    engine["block_size"] = block_size
    engine["long_prefill_token_threshold"] = chunk
    after = outputs(scenario)
    # A roomier pool accepts requests that were too large before; the others must be the same.
    assert {name: after[name] for name in before} == before


def _without_scripts(scenario: dict[str, Any]) -> dict[str, Any]:
    scenario = json.loads(json.dumps(scenario))
    for request in scenario["requests"]:
        request["output_tokens"] = None
        request["cancel_step"] = None  # a cancel comes after more or fewer tokens in a faster run
    return scenario
