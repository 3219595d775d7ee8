"""One capacity plan: its numbers are those of the calls, its bounds bind, and it is quick."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.sizing import calls, catalog, gpus, inputs, tiers
from core.sizing.advice import advise
from core.sizing.deployment import Deployment
from core.sizing.errors import SizingError
from core.sizing.geometry import FixedState, Layer
from core.sizing.plan import Plan, plan
from core.sizing.plan_parts import FIXED_OVERHEAD
from core.sizing.plan_text import render
from tests.sizing import derivation, specs
from tests.sizing.speed import a_millisecond_of_work, seconds

H100 = gpus.get("h100-sxm5")


def planned(model: str = "llama-3-70b", **settings: Any) -> Plan:
    """A plan from JSON, as the command line makes it."""
    made = {"model": model, "gpu": "h100-sxm5", **settings}
    return plan(inputs.build(Deployment, made))


PAIR = {"tp": 2, "weight_dtype": "fp8", "kv_dtype": "fp8", "overhead_bytes": 5e9}
"""Llama 3 70B in fp8 on two H100s with 5 GB of overhead each: the golden cases' pair."""


def test_the_pair_of_the_golden_cases() -> None:
    made = planned(**PAIR)
    assert made.weights.value == 70_553_706_496
    assert made.weights_per_gpu.value == 35_276_853_248
    assert made.kv_pool_per_gpu.value == 38_402_291_937
    assert made.kv_per_token.value == 163_840
    assert made.kv_per_token_per_gpu.value == 81_920
    assert made.kv_per_token_per_layer.value == 2_048
    assert made.block.value == 1_310_720
    assert made.num_blocks.value == 38_402_291_937 // 1_310_720
    assert made.blocks_per_sequence.value == 256
    assert made.streams.value == made.held_paged.value == 114 and made.binding == "blocks"
    assert made.bounds == {"blocks": 114, "max_num_seqs": 256, "max_num_batched_tokens": 8192}
    assert made.decode_alone.value == pytest.approx(0.010630566438208955)
    assert made.prefill.value == pytest.approx(0.30318166464740615)


FROM_CALLS = {
    "params": ("param_count", ()),
    "weights": ("weight_bytes", ("dtype=weight_dtype",)),
    "weights_per_gpu": ("weight_bytes_per_gpu", ("dtype=weight_dtype", "tp")),
    "kv_per_token": ("kv_bytes_per_token", ("dtype=kv_dtype",)),
    "kv_per_token_per_gpu": ("kv_bytes_per_token_per_gpu", ("dtype=kv_dtype", "tp")),
    "kv_replication": ("kv_replication_factor", ("tp",)),
    "fixed_state": ("fixed_state_bytes", ("dtype=kv_dtype",)),
    "kv_per_sequence": ("kv_bytes_sequence", ("dtype=kv_dtype", "tokens=context")),
    "prefill": ("prefill_time", ("gpu", "n_gpu=tp", "dtype=weight_dtype", "tokens=context", "mfu")),
    "saturating_batch": ("batch_to_saturate", ("gpu", "weights=weight_dtype", "mfu", "mbu")),
}


@pytest.mark.parametrize("model", ["llama-3-70b", "gemma-3-27b", "deepseek-v3", "gpt-oss-120b"])
@pytest.mark.parametrize("name", FROM_CALLS)
def test_a_number_of_the_plan_is_the_one_that_calc_gives(model: str, name: str) -> None:
    stated = {"gpu": "h100-sxm5", "tp": 8, "weight_dtype": "fp8", "kv_dtype": "fp8"}
    stated |= {"context": 3000, "mfu": 0.4, "mbu": 0.8}
    function, names = FROM_CALLS[name]
    pairs = [part.split("=") if "=" in part else (part, part) for part in names]
    called = {"model": model, **{key: stated[source] for key, source in pairs}}
    answer = calls.call(function, called)
    assert planned(model, **stated).results()[name].value == answer.value


def test_each_result_says_what_it_is_of() -> None:
    for name, result in planned(**PAIR, price_per_gpu_hour=2.0).results().items():
        assert result.unit
        # A price and a count of one sequence are of nothing larger.
        assert result.scope or name in ("blocks_per_sequence", "balance_batch", "cost"), name


@pytest.mark.parametrize("pp", [1, 2])
@pytest.mark.parametrize("name", ["overhead", "streams", "output_rate", "cost"])
def test_what_the_plan_itself_derives_can_be_computed_again(name: str, pp: int) -> None:
    for limit in (64, 512):
        made = planned(tp=4, pp=pp, dp=3, max_num_seqs=limit, price_per_gpu_hour=2.0)
        derivation.check(made.results()[name])


def test_counts_and_bytes_are_integers() -> None:
    for result in planned(**PAIR).results().values():
        if result.unit in ("B", "blocks", "streams", "params"):
            assert type(result.value) is int


# ---- what binds --------------------------------------------------------------------------------


def test_the_least_of_the_three_bounds_binds() -> None:
    assert planned(**PAIR, max_num_seqs=100).binding == "max_num_seqs"
    assert planned(**PAIR, max_num_seqs=100).streams.value == 100
    short = planned(**PAIR, max_num_batched_tokens=50)
    assert (short.binding, short.streams.value) == ("max_num_batched_tokens", 50)
    assert planned(**PAIR, allocator="contiguous").binding == "memory"


def test_replicas_and_attention_groups_each_have_their_limits() -> None:
    assert planned(**PAIR, dp=3, max_num_seqs=10).streams.value == 30
    node: dict[str, Any] = {"gpu": "h200-sxm", "tp": 8, "weight_dtype": "fp8"}
    groups = planned("deepseek-v3", **node, attention_dp=8, max_num_seqs=10)
    assert groups.streams.value == 80


def test_attention_groups_keep_no_latent_twice() -> None:
    node: dict[str, Any] = {"gpu": "h200-sxm", "tp": 8, "weight_dtype": "fp8"}
    together, apart = (planned("deepseek-v3", **node, attention_dp=n) for n in (1, 8))
    assert (together.kv_replication.value, apart.kv_replication.value) == (8.0, 1.0)
    assert together.kv_per_token_per_gpu.value == apart.kv_per_token_per_gpu.value
    # Eight pools instead of one, each a little smaller for its own copy of attention's weights.
    assert 5 * together.held_paged.value < apart.held_paged.value < 8 * together.held_paged.value


def test_the_stages_of_a_pipeline_share_the_batch() -> None:
    made = planned(tp=4, pp=2, weight_dtype="fp8", max_num_seqs=100)
    step = {"model": "llama-3-70b", "gpu": "h100-sxm5", "n_gpu": 4, "context": 4096, "batch": 50}
    answer = calls.call("decode_step_time", {**step, "weights": "fp8", "mfu": 0.5})
    assert made.batch == 100 and made.decode_full.value == answer.value
    assert made.output_rate.value == 100 / made.decode_full.value


def test_each_stage_has_a_pool_of_its_own() -> None:
    """The stage with DeepSeek-V3's three dense layers holds less, and keeps more layers' cache:
    sequences are as many as fit the one that has room for fewest."""
    made = planned("deepseek-v3", gpu="b200-sxm", tp=4, pp=2, stages=[31, 30], weight_dtype="fp8")
    pools = made.stage_pools
    assert made.kv_pool_per_gpu.value == min(pools) == pools[1] < pools[0]
    each = [256 * 16 * 576 * 2 * layers for layers in (31, 30)]  # a latent for each GPU
    fits = min(pool // one for pool, one in zip(pools, each, strict=True))
    assert made.held_paged.value == fits
    blocks = min(pool // (16 * 1152 * n) for pool, n in zip(pools, (31, 30), strict=True))
    assert made.num_blocks.value == blocks
    alone = calls.call(
        "num_blocks",
        {"model": "deepseek-v3", "pool_bytes": list(pools), "pp": 2, "stages": [31, 30]},
    )
    assert alone.value == blocks
    derivation.check(made.num_blocks)
    derivation.check(made.held_paged)
    with pytest.raises(SizingError, match="names 1 stages, but pp is 2"):
        calls.call("num_blocks", {"model": "llama-3-8b", "pool_bytes": [1e9], "pp": 2})


def test_a_prefix_that_is_cached_is_not_prefilled() -> None:
    made = planned("llama-3-8b", context=4096, prefix_tokens=4000)
    asked = {"model": "llama-3-8b", "gpu": "h100-sxm5", "tokens": 96, "computed": 4000, "mfu": 0.5}
    answer = calls.call("prefill_time", {**asked, "weights": "bf16"})
    assert made.prefill_hit is not None and made.prefill_hit.value == answer.value
    assert made.prefill_hit.value < made.prefill.value / 10
    assert "the same, its prefix cached" in render(made, [])
    # Whole blocks of it, and never the last token: what follows it is wanted.
    whole = planned("llama-3-8b", context=4096, prefix_tokens=4096)
    assert whole.prefill_hit is not None
    tokens = {one.symbol: one.value for one in whole.prefill_hit.symbols}["N"]
    assert tokens == 16
    assert planned("llama-3-8b").prefill_hit is None
    assert planned("llama-3-8b", prefix_tokens=4000, prefix_cache=False).prefill_hit is None


def test_contiguous_reserves_what_the_model_allows_unless_less_is_said() -> None:
    made = planned(**PAIR, context=1024, allocator="contiguous")
    assert made.deployment.longest == 8192 and made.held.value == 57
    assert made.held.notes[0].startswith("each reserves 8,192 tokens, the model's own limit")
    text = render(made, advise(made))
    assert "each reserves 8,192 tokens" in text and "memory binds" in text
    assert "blocks of a sequence" not in text and "of the blocks" not in text
    said = planned(**PAIR, context=1024, allocator="contiguous", max_model_len=2048)
    assert said.held.notes[0] == "each reserves 2,048 tokens" and said.held.value == 228
    beyond = planned(**PAIR, context=9000)
    assert beyond.held_contiguous.notes[0].startswith("each reserves 9,000 tokens, its context")


@pytest.mark.parametrize("allocator", ["paged", "contiguous"])
@pytest.mark.parametrize("name", ["llama-3-8b", "gemma-3-27b", "qwen3-next-80b-a3b", "mamba-2.8b"])
def test_the_pool_divides_into_streams_by_what_a_sequence_takes_of_it(
    name: str, allocator: str
) -> None:
    """Blocks of all layers do not, where layers keep fewer of them or a state beside them."""
    made = planned(
        name, gpu="h200-sxm", tp=2, context=32768, allocator=allocator, max_num_seqs=2**20
    )
    assert made.sequence_in_pool.scope == "gpu"
    derivation.check(made.sequence_in_pool)
    each = made.sequence_in_pool.value
    assert made.held.value == made.kv_pool_per_gpu.value // each
    answer = calls.call(
        "sequence_bytes_in_pool",
        {"model": name, "tokens": 32768, "tp": 2, "policy": allocator}
        | ({"max_model_len": made.deployment.longest} if allocator == "contiguous" else {}),
    )
    assert answer.value == each


def test_blocks_of_a_sequence_are_told_by_window() -> None:
    made = planned("gemma-3-27b", gpu="h200-sxm", tp=8, context=32768)
    assert made.blocks_per_sequence.value == 2048
    assert made.blocks_per_sequence.notes[0] == (
        "65 in 52 of 62 layers: those with a window of 1,024"
    )
    assert made.blocks_per_sequence.notes[0] in render(made, advise(made))
    all_slide = planned("mistral-7b-v0.1", context=32768)
    assert all_slide.blocks_per_sequence.value == 257  # what 4,096 tokens can touch
    derivation.check(all_slide.blocks_per_sequence)


def test_a_model_without_blocks_shows_none() -> None:
    made = planned("mamba-2.8b")
    assert made.blocks_per_sequence.value == 0
    assert "block" not in render(made, advise(made)).split("SEQUENCES AT ONCE")[0].split("KV C")[1]


def test_a_plan_says_how_indexer_keys_are_counted() -> None:
    node: dict[str, Any] = {"gpu": "h200-sxm", "tp": 8, "weight_dtype": "fp8"}
    made = planned("deepseek-v3.2", **node)
    assert "indexer keys are counted in bf16" in render(made, advise(made))
    engine = planned("deepseek-v3.2", **node, kv_dtype="fp8_ds_mla")
    assert engine.kv_per_token.value == 61 * (656 + 132)
    assert "indexer keys" not in render(engine, advise(engine))


def test_a_fixed_state_is_part_of_a_sequence() -> None:
    made = planned("qwen3-next-80b-a3b", gpu="h200-sxm", tp=2)
    both = made.kv_per_sequence.value + made.fixed_state.value
    assert made.fixed_state.value > 0 and made.sequence_total.value == both
    assert f"a sequence, with its fixed state          {both:,} B" in render(made, advise(made))
    plain = planned("llama-3-8b")
    assert plain.sequence_total.value == plain.kv_per_sequence.value
    assert "with its fixed state" not in render(plain, advise(plain))


def test_the_pool_names_what_is_taken_off() -> None:
    made = planned(tp=2, weight_dtype="fp8")
    named = {one.symbol: one.value for one in made.kv_pool_per_gpu.symbols}
    assert named["overhead"] == FIXED_OVERHEAD
    assert named["overhead"] + named["activations"] == made.overhead.value
    given = planned(**PAIR)
    said = {one.symbol: one for one in given.kv_pool_per_gpu.symbols}
    assert said["overhead"].value == 5_000_000_000 and "activations" not in said
    assert said["overhead"].meaning == "neither weights nor cache, as given"


def test_a_pipeline_says_what_its_letters_are_of() -> None:
    made = planned(tp=1, pp=8, context=1024)
    named = {one.symbol: one for one in made.decode_full.symbols}
    assert named["n"].meaning == "GPUs of a stage" and named["n"].value == 1
    assert "of each stage" in named["K"].meaning and named["pp"].value == 8
    for step in (made.decode_alone, made.decode_full, made.prefill):
        assert step.notes[-1].startswith("work passes 8 stages one after the other")
    derivation.check(made.decode_full)
    single = {one.symbol for one in planned(tp=8).decode_full.symbols}
    assert "pp" not in single


def test_what_all_replicas_have_is_said_to_be_theirs() -> None:
    alone, four = planned(tp=2, weight_dtype="fp8"), planned(tp=2, weight_dtype="fp8", dp=4)
    for name in ("streams", "held_paged", "held_contiguous", "output_rate"):
        assert alone.results()[name].scope == "replica"
        assert four.results()[name].scope == "fleet"
    assert alone.attention_intensity.scope == "gpu"
    assert "streams                                 all replicas" in render(four, advise(four))


def test_weights_that_do_not_fit_leave_nothing() -> None:
    made = planned()  # 141 GB on one GPU of 80
    assert made.kv_pool_per_gpu.value == 0 and made.num_blocks.value == 0
    assert made.streams.value == 0 and not made.fits
    assert made.decode_full.value is None and made.output_rate.value is None
    assert "short" in made.kv_pool_per_gpu.notes[0]


# ---- laws --------------------------------------------------------------------------------------


def test_the_name_changes_nothing() -> None:
    model = catalog.get("llama-3-8b")
    named = plan(Deployment(model, H100))
    renamed = plan(Deployment(replace(model, name="mixtral-mla-405b"), replace(H100, name="x")))
    for name, result in named.results().items():
        assert renamed.results()[name].value == result.value


@pytest.mark.parametrize("name", ["llama-3-8b", "gemma-3-12b", "deepseek-v2"])
def test_half_the_bytes_hold_twice_the_sequences(name: str) -> None:
    kwargs: dict[str, Any] = {"tp": 8, "overhead_bytes": 1e9}
    full, half = (planned(name, kv_dtype=one, **kwargs).held_paged.value for one in ("bf16", "fp8"))
    assert full is not None and half is not None and 0 <= half - 2 * full <= 1


def test_more_memory_never_holds_less() -> None:
    held = [
        planned(**PAIR, gpu_memory_utilization=share / 100).held_paged.value or 0
        for share in range(50, 101, 5)
    ]
    assert held == sorted(held) and held[0] < held[-1]


def test_overhead_is_a_bound_on_activations_and_a_fixed_part_unless_it_is_given() -> None:
    bound = calls.call(
        "activation_bytes_bound", {"model": "llama-3-70b", "max_num_batched_tokens": 8192, "tp": 2}
    )
    guessed = planned(tp=2, weight_dtype="fp8")
    assert guessed.overhead.value == FIXED_OVERHEAD + bound.value
    assert guessed.overhead.basis == "convention"
    assert planned(**PAIR).overhead.value == 5_000_000_000
    assert planned("custom-40b").overhead.value == FIXED_OVERHEAD
    assert "not in it" in planned("custom-40b").overhead.notes[0]


def test_parameters_may_be_given_where_the_config_knows_none() -> None:
    with pytest.raises(SizingError, match=r"^params: is missing: hypothetical-70b-mha has no"):
        planned("hypothetical-70b-mha", tp=8)
    made = planned("hypothetical-70b-mha", tp=8, params=70e9)
    assert made.params.value == 70_000_000_000 and made.weights.value == 140_000_000_000
    assert made.prefill.value and made.weights_nominal is None
    own = planned(params=60e9, tp=4)
    assert own.weights.value == 120_000_000_000


def test_a_model_that_keeps_only_a_state_has_no_blocks() -> None:
    state = FixedState("state_space", (("state", 1 << 20, 4),))
    model = specs.model(*(Layer(state),) * 4, params=10**7, hidden_size=1024)
    made = plan(Deployment(model, H100, max_num_seqs=10**6))
    assert made.num_blocks.value is None and made.num_blocks.notes
    assert made.fixed_state.value == 4 * 4 * 2**20
    assert made.held_paged.value == made.kv_pool_per_gpu.value // made.fixed_state.value
    assert "blocks" not in [one.rule.id for one in advise(made) if one.status != "pass"]


@pytest.mark.parametrize("name", catalog.names())
def test_every_model_of_the_catalogue_has_a_plan(name: str) -> None:
    params = {} if _knows_its_size(name) else {"params": 7e9}
    made = planned(name, weight_dtype="fp8", **params)
    out = made.to_dict()
    json.dumps(out, allow_nan=False)
    assert list(out) == [
        *("schema", "inputs", "fits", "binding", "bounds", "results", "warnings", "notes")
    ]
    assert "NaN" not in render(made, advise(made), explain=True)


def _knows_its_size(name: str) -> bool:
    model = catalog.get(name)
    return model.params is not None or model.nominal_params is not None


# ---- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"tp": 3}, "tp"),
        ({"tp": 0}, "tp"),
        ({"tp": "2"}, "tp"),
        ({"pp": 3}, "pp"),
        ({"pp": 2, "stages": [40, 41]}, "stages"),
        ({"attention_dp": 3}, "attention_dp"),
        ({"context": 0}, "context"),
        ({"context": 1.5}, "context"),
        ({"prompt": 5000}, "prompt"),
        ({"prefix_tokens": 5000}, "prefix_tokens"),
        ({"prefix_tokens": 8, "allocator": "contiguous"}, "prefix_tokens"),
        ({"max_model_len": 100}, "max_model_len"),
        ({"weight_dtype": "fp9"}, "weight_dtype"),
        ({"embedding_dtype": "fp9"}, "embedding_dtype"),
        ({"kv_dtype": "fp9"}, "kv_dtype"),
        ({"kv_dtype": {"format": "bf16", "scale": "per_head_static"}}, "kv_dtype.scale"),
        ({"gpu_memory_utilization": 1.1}, "gpu_memory_utilization"),
        ({"gpu_memory_utilization": float("nan")}, "gpu_memory_utilization"),
        ({"overhead_bytes": -1}, "overhead_bytes"),
        ({"block_size": 0}, "block_size"),
        ({"max_num_seqs": 2**40}, "max_num_seqs"),
        ({"allocator": "buddy"}, "allocator"),
        ({"eviction": "random"}, "eviction"),
        ({"prefix_cache": "yes"}, "prefix_cache"),
        ({"mfu": 0}, "mfu"),
        ({"users": 0}, "users"),
        ({"hit_rate": 1.5}, "hit_rate"),
        ({"ttft_s": 0}, "ttft_s"),
        ({"offload": "tape"}, "offload"),
        ({"params": 0.5}, "params"),
        ({"group_size": 128}, "group_size"),
        ({"gpu": "h100"}, "gpu"),
        ({"gpu": {"visible_mib": 1, "bandwidth": 1.0, "peaks": {"int8": 1.0}}}, "weight_dtype"),
        ({"n_layers": 81}, "n_layers"),
        ({"kv_dtpye": "fp8"}, "kv_dtpye"),
    ],
    ids=str,
)
def test_what_is_refused_is_named(changed: dict[str, Any], path: str) -> None:
    with pytest.raises(SizingError) as caught:
        planned(**changed)
    assert caught.value.path == path and caught.value.message


CHOICES: dict[str, list[Any]] = {
    "model": list(catalog.names()),
    "gpu": list(gpus.names()),
    "tp": [1, 2, 8, 16],
    "pp": [1, 2],
    "dp": [1, 3],
    "attention_dp": [1, 2, 8],
    "context": [1, 100, 131072],
    "prompt": [1, 50],
    "prefix_tokens": [64],
    "max_model_len": [200_000],
    "weight_dtype": ["fp8", "int4", "q4_0", "fp32"],
    "embedding_dtype": ["bf16"],
    "group_size": [128],
    "params": [7e9],
    "kv_dtype": ["fp8", "q8_0", {"format": "int4", "scale": "per_token_head"}],
    "gpu_memory_utilization": [0.5, 1],
    "overhead_bytes": [0, 1e12],
    "block_size": [1, 256],
    "max_num_seqs": [1, 100_000],
    "max_num_batched_tokens": [1],
    "allocator": ["contiguous"],
    "prefix_cache": [False],
    "eviction": ["fifo"],
    "users": [1, 100],
    "hit_rate": [0.1, 0.3, 1],
    "ttft_s": [0.1],
    "itl_s": [0.01],
    "fleet_gpus": [200],
    "disaggregated": [True],
    "offload": list(tiers.names()),
    "price_per_gpu_hour": [2.0],
}
JUNK = st.sampled_from(
    [None, True, "", "x", -1, 0, 0.5, 1e-300, 1e300, 2**63, 10**39, [], {}, {"a": 1}, float("nan")]
)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_deployment_is_planned_or_refused_at_a_field(data: st.DataObject) -> None:
    chosen = data.draw(st.sets(st.sampled_from(sorted(CHOICES)), max_size=8)) | {"model", "gpu"}
    stated = {name: data.draw(st.sampled_from(CHOICES[name])) for name in sorted(chosen)}
    if data.draw(st.booleans()):
        stated[data.draw(st.sampled_from(sorted(CHOICES)))] = data.draw(JUNK)
    try:
        made = plan(inputs.build(Deployment, stated))
    except SizingError as error:
        assert error.path.split(".")[0].split("[")[0] in CHOICES, str(error)
        assert error.message and "\n" not in str(error)
        return
    findings = advise(made)
    json.dumps({**made.to_dict(), "advice": [one.to_dict() for one in findings]}, allow_nan=False)
    render(made, findings)


# ---- speed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama-3-70b", "gemma-3-27b", "gpt-oss-120b", "deepseek-v3"])
def test_a_full_plan_takes_no_longer_than_a_millisecond_of_python(name: str) -> None:
    deployment = inputs.build(Deployment, {"model": name, "gpu": "h100-sxm5", "tp": 8})
    plan(deployment)
    assert len(plan(deployment).results()) >= 20
    assert seconds(lambda: plan(deployment)) < 1.5 * seconds(a_millisecond_of_work)
