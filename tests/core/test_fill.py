"""A plan made small: the scheduler admits exactly as many as the sizing library predicts, and the
next one waits for the reason that the plan names."""

from __future__ import annotations

from typing import Any

import pytest

from core import fill
from core.scenario import Scenario
from core.simulate import simulate
from core.sizing import catalog, gpus
from core.sizing.deployment import Deployment
from core.sizing.plan import Plan, plan

Json = dict[str, Any]
MODELS = ("llama-3-70b", "deepseek-v3", "gemma-3-27b")
CASES: list[tuple[str, Json]] = (
    [
        (model, {"context": context, "prefix_tokens": prefix, **more})
        for model, sizes in zip(MODELS, (8, 8, 2), strict=True)
        for context in (20, 4096, 8000)
        for prefix in (0, 16, context // 2, context)
        for more in (
            {"tp": sizes},
            {"tp": sizes, "max_num_seqs": 5},
            {"tp": sizes, "max_num_batched_tokens": 4, "kv_dtype": "fp8"},
            {"tp": sizes, "max_num_seqs": 1 << 16, "max_num_batched_tokens": 1 << 14},
        )
        if prefix <= context
    ]
    + [
        ("llama-3-70b", {"tp": 8, "context": context, **more})
        for context in (1, 3, 16)  # a sequence of one block
        for more in (
            {"max_num_seqs": 5},
            {"max_num_batched_tokens": 2},
            {"max_num_batched_tokens": 64},
        )
    ]
    + [("llama-3-70b", {"tp": 1, "weight_dtype": "fp8", "context": 4096, "prefix_tokens": 1024})]
)


def _plan(model: str, more: Json) -> Plan:
    gpu = gpus.get("h200-sxm" if model == "deepseek-v3" else "h100-sxm5")
    return plan(Deployment(catalog.get(model), gpu, **more))


@pytest.mark.parametrize(("model", "more"), CASES)
def test_n_are_admitted_and_the_next_one_waits(model: str, more: Json) -> None:
    made = _plan(model, more)
    small = fill.small(made)
    assert small is not None
    assert small.binding == made.binding
    assert small.predicted == min(made.batch, fill.MOST_SEQUENCES)
    run = simulate(Scenario.from_dict(small.scenario), debug=True)
    last = small.scenario["requests"][-1]["id"]
    most = max(len(step["scheduled"]) for step in run.steps)
    assert most == small.predicted
    full = [step for step in run.steps if len(step["scheduled"]) == most]
    waits = [
        event["reason"]
        for event in full[0]["events"]
        if event["type"] == "waiting" and event["request"] == last
    ]
    assert waits == [small.reason]
    kinds = {event["type"] for step in run.steps for event in step["events"]}
    assert "preempted" not in kinds and "request_rejected" not in kinds
    assert len(run.results) == small.predicted + 1


def test_one_block_more_would_admit_it_only_if_one_sequence_more_fits() -> None:
    """The bound is sharp: with the blocks of one more sequence the last one does not wait."""
    small = fill.small(_plan("llama-3-70b", {"tp": 2, "prefix_tokens": 1024, "kv_dtype": "fp8"}))
    assert small is not None and small.binding == "blocks"
    pool, each, shared = small.blocks
    wider = {**small.scenario, "engine": {**small.scenario["engine"]}}
    wider["engine"]["num_blocks"] = pool + each - shared
    run = simulate(Scenario.from_dict(wider))
    assert max(len(step["scheduled"]) for step in run.steps) == small.predicted + 1


def test_nothing_is_filled_where_nothing_fits() -> None:
    assert fill.small(_plan("llama-3-70b", {"tp": 1})) is None
    contiguous = {"tp": 4, "allocator": "contiguous", "prefix_cache": False}
    assert fill.small(_plan("llama-3-70b", contiguous)) is None
