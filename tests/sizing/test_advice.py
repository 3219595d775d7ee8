"""The rules: each sees what it should and says so with numbers; a sound plan passes."""

from __future__ import annotations

import string
from typing import Any

import pytest

from core.sizing import advice, inputs
from core.sizing.advice import advise
from core.sizing.deployment import Deployment
from core.sizing.plan import plan
from core.sizing.result import ARITHMETIC, CONVENTION, LITERATURE
from core.sizing.rules import NOTICE, PASS, PROBLEM, UNKNOWN, Finding, rules

SOUND = {
    "model": "llama-3-70b",
    "gpu": "h100-sxm5",
    "tp": 4,
    "weight_dtype": "fp8",
    "kv_dtype": {"format": "fp8", "scale": "per_head_static"},
    "evaluated": True,
    "context": 2048,
    "prompt": 1024,
    "prefix_tokens": 512,
    "max_num_batched_tokens": 512,
    "max_num_seqs": 1024,
    "hit_rate": 0.8,
    "users": 750,
    "itl_s": 0.1,
    "ttft_s": 0.5,
    "offload": "dram-pcie5",
}
"""A deployment with nothing to say against it."""


def found(**changed: Any) -> dict[str, Finding]:
    made = plan(inputs.build(Deployment, {**SOUND, **changed}))
    return {one.rule.id: one for one in advise(made)}


def test_a_sound_plan_passes_every_rule_that_applies() -> None:
    assert {one.status for one in found().values()} == {PASS}
    assert len(found()) >= 14


CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("weights_leave_room", {"weight_dtype": "bf16", "tp": 1}, PROBLEM, "nothing is left"),
    ("one_sequence_fits", {"context": 4_000_000}, PROBLEM, "of the pool of a GPU, which has"),
    ("context_within_model", {"context": 8193}, PROBLEM, "8,193 tokens; the config's limit is 8"),
    (
        "contiguous_reservation",
        {
            "allocator": "contiguous",
            "prefix_tokens": 0,
            "context": 800,
            "prompt": 800,
            "max_model_len": 4096,
        },
        PROBLEM,
        "reserves 4,096 tokens and holds 800 on average: 80.5%",
    ),
    (
        "contiguous_reservation",
        {"allocator": "contiguous", "prefix_tokens": 0, "max_model_len": 2048},
        NOTICE,
        "reserves 2,048 tokens and holds 2,048",
    ),
    (
        "contiguous_reservation",
        {"allocator": "contiguous", "prefix_tokens": 0},
        PROBLEM,
        "reserves 8,192 tokens and holds 2,048 on average: 75.0% of the bytes reserved stay empty.",
    ),
    (
        "contiguous_reservation",
        {"allocator": "contiguous", "prefix_tokens": 0, "model": "gemma-3-27b", "tp": 1},
        PROBLEM,
        "stay empty (a layer with a window reserves no more than that).",
    ),
    (
        "kv_headroom",
        {"allocator": "contiguous", "prefix_tokens": 0, "users": 10},
        NOTICE,
        "of the reservations of 1 replica",
    ),
    (
        "one_sequence_fits",
        {"allocator": "contiguous", "prefix_tokens": 0, "max_model_len": 2_000_000},
        PROBLEM,
        "A sequence of 2,048 tokens takes 81.92 GB",
    ),
    ("block_size", {"block_size": 256}, PROBLEM, "Blocks of 256 tokens"),
    ("block_size", {"block_size": 32}, NOTICE, "Blocks of 32 tokens at a context of 2,048"),
    ("last_block_waste", {"context": 150, "prompt": 100, "prefix_tokens": 0}, NOTICE, "7.5 slots"),
    (
        "last_block_waste",
        {"model": "gemma-3-27b", "context": 8191, "block_size": 256},
        NOTICE,
        "127.5 slots of a sequence's last block are empty: 5.85% of the bytes that 8,191 tokens",
    ),
    ("fifo_eviction", {"eviction": "fifo"}, PROBLEM, "evicts by fifo"),
    (
        "int4_kv_evaluated",
        {"kv_dtype": {"format": "int4", "scale": "per_token_head"}, "evaluated": False},
        PROBLEM,
        "take 4 bits an element; nothing says that they were evaluated",
    ),
    ("int4_kv_evaluated", {"kv_dtype": "q4_0", "evaluated": False}, PROBLEM, "take 4.5 bits"),
    ("kv_8bit_evaluated", {"evaluated": False}, NOTICE, "take 8 bits an element"),
    ("kv_8bit_evaluated", {"kv_dtype": "q8_0", "evaluated": False}, NOTICE, "take 8.5 bits"),
    (
        "per_tensor_scales",
        {"kv_dtype": {"format": "int8", "scale": "per_tensor"}},
        PROBLEM,
        "have scales per tensor",
    ),
    ("per_tensor_scales", {"kv_dtype": "fp8"}, UNKNOWN, "scales that the plan does not name"),
    ("prefix_cache_hit_rate", {"hit_rate": 0.1}, PROBLEM, "10% of lookups hit; with 512 shared"),
    ("prefix_cache_hit_rate", {"hit_rate": 0.3}, NOTICE, "saves 15.0% of the prefill"),
    (
        "disaggregation_early",
        {"disaggregated": True, "fleet_gpus": 40},
        PROBLEM,
        "40 GPUs, prompts of 1,024 tokens",
    ),
    ("disaggregation_early", {"disaggregated": True, "fleet_gpus": 80}, NOTICE, "run apart"),
    (
        "disaggregation_early",
        {"fleet_gpus": 200, "prompt": 2000},
        NOTICE,
        "first token due in 500 ms; prefill and decode run together",
    ),
    ("kv_headroom", {"users": 900}, PROBLEM, "900 sequences fill 97.0%"),
    ("kv_headroom", {"users": 860}, NOTICE, "860 sequences fill 92.7%"),
    ("kv_headroom", {"users": 10}, NOTICE, "10 sequences fill 1.1% of the blocks of 1 replica"),
    ("memory_utilization", {"gpu_memory_utilization": 0.98}, PROBLEM, "98% of the GPU's memory"),
    ("memory_utilization", {"gpu_memory_utilization": 0.5}, NOTICE, "50% of the GPU's memory"),
    ("kv_replication", {"tp": 16}, PROBLEM, "With tp = 16 each key and value is kept 2 times"),
    ("weights_without_math", {"gpu": "a100-sxm4-80"}, NOTICE, "Weights are fp8; NVIDIA A100"),
    ("kv_bytes_bind", {"kv_dtype": "bf16"}, NOTICE, "16-bit keys and values; 8 bits would hold"),
    ("sequence_limit", {"max_num_seqs": 64}, NOTICE, "max_num_seqs stops at 64; memory would"),
    ("first_token", {"ttft_s": 0.01}, PROBLEM, "Prefill of 1,024 tokens takes 37 ms"),
    ("first_token", {"ttft_s": 1.5, "mfu": 0.005}, PROBLEM, "takes 3,686 ms"),
    ("first_token", {"ttft_s": None, "prompt": 2048, "mfu": 0.05}, NOTICE, "500 ms are wanted"),
    (
        "chunk_size",
        {"max_num_batched_tokens": 8192, "itl_s": 0.01},
        PROBLEM,
        "computes 8,192 tokens of 8 prompts",
    ),
    (
        "first_token",
        {"ttft_s": 0.03},
        NOTICE,
        "takes 37 ms on an idle replica at 50% of the peak, if it finds nothing cached, and 19 ms",
    ),
    ("chunk_size", {"mfu": 0.1, "itl_s": None}, NOTICE, "50 ms between tokens are wanted"),
    ("token_gap", {"itl_s": 0.002}, PROBLEM, "2 ms are wanted"),
    ("token_gap", {"itl_s": None, "mbu": 0.1}, NOTICE, "50 ms are wanted"),
    ("offload_reload", {"offload": "nvme-gen4", "tp": 1, "gpu": "b200-sxm"}, NOTICE, "drive on PC"),
    (
        "offload_reload",
        {"offload": "remote-storage", "mfu": 1, "model": "llama-2-13b"},
        PROBLEM,
        "",
    ),
]


@pytest.mark.parametrize(
    ("rule", "changed", "status", "words"), CASES, ids=lambda value: str(value)[:50]
)
def test_a_rule_sees_what_it_should(
    rule: str, changed: dict[str, Any], status: str, words: str
) -> None:
    finding = found(**changed)[rule]
    assert finding.status == status, finding.saw
    assert words in finding.saw


def test_a_budget_admits_as_many_prompts_as_fit_into_it() -> None:
    """Eight prompts of 1,000 in a step of 8,192 tokens, with the start of a ninth: eight times the
    work of one. No more of them than sequences run at once."""
    at = {"model": "llama-3-8b", "tp": 1, "weight_dtype": "bf16", "prefix_tokens": 0, "users": None}
    at |= {"context": 1000, "prompt": 1000, "max_num_batched_tokens": 8192, "itl_s": 0.05}
    finding = found(**at)["chunk_size"]
    alone = found(**{**at, "max_num_batched_tokens": 1000})["chunk_size"]
    assert finding.status == PROBLEM and "8,192 tokens of 9 prompts" in finding.saw
    assert finding.numbers["time_ms"] == pytest.approx(8.19 * alone.numbers["time_ms"], rel=0.01)
    few = found(**{**at, "max_num_seqs": 3})["chunk_size"]
    assert "3,000 tokens of 3 prompts" in few.saw
    node = {"model": "deepseek-v3", "gpu": "h200-sxm", "tp": 8, "attention_dp": 8}
    assert "in each of 8 groups" in found(**{**at, **node, "weight_dtype": "fp8"})["chunk_size"].saw


def test_the_load_is_spread_over_all_replicas() -> None:
    finding = found(users=1500, dp=2)["kv_headroom"]
    assert finding.status == PASS and "80.8% of the blocks of 2 replicas" in finding.saw


def test_every_rule_was_seen_to_pass_and_to_speak() -> None:
    spoke = {name for name, *_ in CASES}
    assert spoke == set(rules())


@pytest.mark.parametrize(
    ("rule", "changed"),
    [
        ("one_sequence_fits", {"weight_dtype": "bf16", "tp": 1}),
        ("context_within_model", {"model": "custom-40b", "params": 40e9}),
        ("contiguous_reservation", {}),
        ("block_size", {"allocator": "contiguous", "prefix_tokens": 0}),
        ("last_block_waste", {"allocator": "contiguous", "prefix_tokens": 0}),
        ("last_block_waste", {"model": "mamba-2.8b"}),
        ("fifo_eviction", {"prefix_cache": False, "eviction": "fifo"}),
        ("int4_kv_evaluated", {}),
        ("kv_8bit_evaluated", {"kv_dtype": "bf16"}),
        ("per_tensor_scales", {"kv_dtype": "bf16"}),
        ("per_tensor_scales", {"kv_dtype": "q8_0"}),
        ("prefix_cache_hit_rate", {"hit_rate": None}),
        ("prefix_cache_hit_rate", {"prefix_cache": False}),
        ("kv_headroom", {"users": None}),
        ("kv_replication", {"tp": 1, "gpu": "b200-sxm"}),
        ("kv_bytes_bind", {}),
        ("sequence_limit", {}),
        ("token_gap", {"weight_dtype": "bf16", "tp": 1}),
        ("offload_reload", {"offload": None}),
    ],
    ids=str,
)
def test_a_rule_is_silent_where_it_does_not_apply(rule: str, changed: dict[str, Any]) -> None:
    assert rule not in found(**changed)


def test_eight_rules_are_the_anti_patterns() -> None:
    assert [name for name, rule in rules().items() if rule.anti_pattern] == [
        "weights_leave_room",
        "contiguous_reservation",
        "block_size",
        "fifo_eviction",
        "int4_kv_evaluated",
        "per_tensor_scales",
        "prefix_cache_hit_rate",
        "disaggregation_early",
    ]


@pytest.mark.parametrize("name", rules())
def test_the_words_of_a_rule_are_whole(name: str) -> None:
    rule = rules()[name]
    assert rule.id == name and rule.basis in (ARITHMETIC, CONVENTION, LITERATURE)
    for text in (rule.title, rule.saw, rule.rule, rule.mend, rule.source):
        assert text.strip() == text and text
    assert rule.saw.endswith(".") and rule.rule.endswith(".") and rule.mend.endswith(".")
    assert all(isinstance(value, int | float) for value in rule.threshold.values())


def test_every_rule_has_its_check_and_no_check_lacks_a_rule() -> None:
    assert set(advice._CHECKS) == set(rules())


@pytest.mark.parametrize(("rule", "changed", "status", "words"), CASES, ids=lambda v: str(v)[:40])
def test_a_finding_carries_its_numbers(
    rule: str, changed: dict[str, Any], status: str, words: str
) -> None:
    finding = found(**changed)[rule]
    wanted = {part for _, part, *_ in string.Formatter().parse(finding.rule.saw) if part}
    assert wanted == set(finding.numbers)
    out = finding.to_dict()
    assert out["status"] == status and out["saw"] == finding.saw
    assert out["basis"] in (ARITHMETIC, CONVENTION) and "threshold" in out


def test_thresholds_are_those_of_the_data() -> None:
    """What is exactly at a threshold is still allowed, one step beyond is not."""
    at = rules()["block_size"].threshold
    long = {"context": int(at["long_context"]) + 1, "model": "llama-3.1-70b", "prompt": 1024}
    size = int(at["too_large"])
    assert found(block_size=size, **long)["block_size"].status == PASS
    assert found(block_size=size + 1, **long)["block_size"].status == PROBLEM
    coarse = int(at["coarse"])
    assert found(block_size=coarse - 1)["block_size"].status == PASS
    assert found(block_size=coarse)["block_size"].status == NOTICE
    rate = rules()["prefix_cache_hit_rate"].threshold
    assert found(hit_rate=rate["off"])["prefix_cache_hit_rate"].status == NOTICE
    assert found(hit_rate=rate["target"])["prefix_cache_hit_rate"].status == PASS
