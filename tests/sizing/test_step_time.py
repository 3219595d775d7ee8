"""FLOPs, rooflines, step times: figures worked out elsewhere, and laws that hold for any model."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sizing import (
    catalog,
    chunks,
    compute,
    gpus,
    intensity,
    kv,
    roofline,
    saturation,
    step_setup,
    step_time,
    stored,
    traffic,
    utilization,
    weight_shares,
)
from core.sizing.compare import attention_flops_ratio, mla_expansion_flops
from core.sizing.errors import SizingError
from core.sizing.geometry import FixedState, Layer, ModelSpec, SharedKV
from tests.sizing import derivation, specs

LLAMA, V3 = catalog.get("llama-3.1-70b"), catalog.get("deepseek-v3")
H100, H200, A100 = (gpus.get(n) for n in ("h100-sxm5", "h200-sxm", "a100-sxm4-80"))
WINDOWS = st.lists(st.sampled_from([None, 1, 7, 128, 4096]), min_size=1, max_size=5)
LENGTHS = st.integers(0, 20_000)


def value(result) -> float:
    assert result.value is not None, result.notes
    return result.value


def windowed(windows: list[int | None], params: int = 10**6) -> ModelSpec:
    return specs.model(*[specs.attention(8, 2, 16, w) for w in windows], params=params)


def mixture(experts: int, visited: int, each: int = 1000, rest: int = 5000) -> ModelSpec:
    """A layer of attention and `experts` experts of `each` parameters."""
    model = specs.model(
        specs.attention(8, 2, 16), params=rest + experts * each, active=rest + visited * each
    )
    return replace(model, fields={"n_experts": experts, "n_active_experts": visited})


# ---- FLOPs -------------------------------------------------------------------------------------


@given(WINDOWS, LENGTHS, LENGTHS)
def test_a_prompt_in_two_parts_is_as_much_work_as_in_one(
    windows: list[int | None], first: int, rest: int
) -> None:
    model = windowed(windows)
    whole = compute.prefill_work(model, first + rest)
    parts = compute.prefill_work(model, first), compute.prefill_work(model, rest, first)
    assert whole.total == sum(part.total for part in parts)


@given(WINDOWS, st.integers(1, 3000))
def test_pairs_are_those_of_the_mask_less_half_a_token_each(
    windows: list[int | None], tokens: int
) -> None:
    """N² / 2 for N · (N + 1) / 2: exactly half a pair per token less, in windows too."""
    exact = sum(512 * sum(min(t, w) if w else t for t in range(1, tokens + 1)) for w in windows)
    ours = compute.prefill_work(windowed(windows), tokens).attention
    missing = sum(512 * min(tokens, w or tokens) // 2 for w in windows)
    assert exact - ours == missing


@given(WINDOWS, st.integers(1, 20_000))
def test_a_window_as_long_as_the_context_is_no_window(windows, tokens: int) -> None:
    wide = [tokens if w is None else w for w in windows]
    assert (
        compute.prefill_work(windowed(wide), tokens)[:3]
        == (compute.prefill_work(windowed([None if w == tokens else w for w in wide]), tokens)[:3])
    )


@given(st.integers(1, 10_000))
def test_twice_the_tokens_is_twice_the_matrices_and_four_times_attention(tokens: int) -> None:
    one, two = compute.prefill_work(LLAMA, tokens), compute.prefill_work(LLAMA, 2 * tokens)
    assert two.linear == 2 * one.linear
    assert two.attention == 4 * one.attention


def test_without_a_mask_attention_is_twice_as_much() -> None:
    causal, full = (compute.prefill_work(LLAMA, 4096, causal=c).attention for c in (True, False))
    assert full == 2 * causal


@given(WINDOWS.filter(lambda w: None in w), st.integers(1, 10**9))
def test_attention_equals_the_matrices_where_it_says(windows, params: int) -> None:
    model = windowed(windows, params)
    tokens = value(compute.attention_equals_linear_tokens(model))
    below, above = (compute.prefill_work(model, round(tokens * f)) for f in (0.9, 1.1))
    if tokens > 100:
        assert below.attention < below.linear
        assert above.attention > above.linear


def test_windows_in_every_layer_keep_attention_below_the_matrices_for_ever() -> None:
    model = catalog.get("mistral-7b-v0.1")
    assert compute.attention_equals_linear_tokens(model).value is None
    assert value(compute.attention_flop_share(model, 10**6)) < 0.5


def test_experts_that_a_token_does_not_visit_cost_no_flops() -> None:
    assert compute.prefill_work(mixture(8, 2), 10).linear == 2 * 7000 * 10
    assert compute.prefill_work(mixture(64, 2), 10).linear == 2 * 7000 * 10


def test_a_nominal_count_is_used_with_a_note_but_never_that_of_a_mixture() -> None:
    model = specs.model(specs.attention(8, 2, 16), nominal=40e9)
    result = compute.prefill_flops(model, 10)
    assert result.value == 2 * 40 * 10**10 + 512 * 50
    assert "nominal" in result.notes[0]
    with pytest.raises(SizingError, match="not known"):
        compute.prefill_flops(replace(model, fields={"n_experts": 8}), 10)


def test_mla_attends_to_the_latent_or_to_expanded_heads() -> None:
    """2 · 128 · (576 + 512) FLOPs per cached token and layer, or 2 · 128 · (192 + 128) expanded; to
    expand a whole cache of 128K costs 268 TFLOP a step."""
    side = {"model": V3}
    assert value(attention_flops_ratio(side, side, 9, "absorbed", "expanded")) == 3.4
    assert mla_expansion_flops(V3, 131072).value == 268_280_837_177_344
    naive = compute.decode_work(V3, 131072, mla="expanded")
    assert naive.attention == 268_280_837_177_344 + 61 * 2 * 128 * 320 * 131072


V32 = catalog.get("deepseek-v3.2")


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_every_gpu_scores_all_keys_for_its_own_indexer(groups: int) -> None:
    """Heads are split over GPUs, an indexer is not: its 64 heads of 128 are on each."""
    scores, batch, split = 61 * 2 * 64 * 128, 16, 8 // groups
    heads = 61 * 2 * 128 * (576 + 512) * 2048
    step = step_time.decode_step_time(V32, H200, 8, batch, 131072, "fp8", attention_dp=groups)
    local = batch // groups
    busiest = local * (heads / split + scores * 131072)
    (said,) = (s for s in step.steps if "peak₁₆ · MFU" in s.formula)
    assert said.value == pytest.approx(busiest / H200.peaks["bf16"])
    prompt = step_time.prefill_time(V32, 131072, H200, 8, "fp8", attention_dp=groups)
    assert value(prompt) > scores * 131072**2 / 2 / H200.peaks["fp8"]
    full = chunks.full_step_time(V32, 8192, 131072, H200, 8, "fp8", attention_dp=groups)
    assert value(full) > scores * 8192 * (131072 - 8192 / 2) / H200.peaks["fp8"]


def test_the_intensity_of_an_indexer_does_not_fall_with_the_split() -> None:
    one, eight = (
        traffic.arithmetic_intensity_attention_decode(V32, "bf16", 131072, tp=tp) for tp in (1, 8)
    )
    # 131,072 keys scored by 64 heads of 128 weigh more than 2,048 attended to by 128 of 1,088.
    assert value(one) / 8 < 0.25 * value(eight) < value(one)
    dense = [value(traffic.arithmetic_intensity_attention_decode(V3, tp=tp)) for tp in (1, 8)]
    assert dense[0] == 8 * dense[1]


def test_a_sparse_layer_attends_to_its_top_k_and_scores_every_key() -> None:
    """DeepSeek-V3.2's way: 4 heads of 16 choose 100 of the tokens; all stay in the cache."""
    dense = specs.attention(8, 2, 16)
    sparse = replace(dense, indexer_dim=16, indexer_heads=4, top_k=100)
    one, two = (specs.model(layer, params=1) for layer in (dense, sparse))
    for context in (50, 100, 5000):
        picked = compute.decode_work(one, min(context, 100)).attention
        assert compute.decode_work(two, context).attention == picked + 2 * 4 * 16 * context
        read = traffic.kv_read(one, min(context, 100), "bf16") + context * 16 * 2
        assert traffic.kv_read(two, context, "bf16") == read
    kept = [kv.kv_bytes_sequence(m, 5000).value for m in (one, two)]
    assert kept[1] - kept[0] == 5000 * 16 * 2
    follower = replace(dense, top_k=100)  # uses the choice of the layer below
    work = compute.decode_work(specs.model(follower, params=1), 5000)
    assert work.attention == compute.decode_work(one, 100).attention


def test_deepseek_v32_stops_growing_where_v3_goes_on() -> None:
    """2,048 of 128K tokens attended to; 64 heads of 128 score all of them, in each of 61 layers."""
    model = catalog.get("deepseek-v3.2")
    work = compute.decode_work(model, 131072)
    assert work.attention == 61 * (2 * 128 * (576 + 512) * 2048 + 2 * 64 * 128 * 131072)
    assert work.attention < compute.decode_work(V3, 131072).attention / 10
    read = traffic.kv_read(model, 131072, "bf16")
    assert read == 61 * (1152 * 2048 + 256 * 131072)


# ---- Intensity and ridge -----------------------------------------------------------------------


@given(st.integers(1, 10**6))
def test_a_layer_is_bound_by_compute_from_the_stated_batch_on(d: int) -> None:
    least = roofline.min_compute_bound_batch(H100, d=d)
    ridge = value(roofline.ridge_point(H100))
    if least.value is None:
        assert d <= 2 * ridge
        return
    at, below = (
        value(roofline.arithmetic_intensity_linear(b, d, d))
        for b in (least.value, least.value - 1 or 1)
    )
    assert at >= ridge * (1 - 1e-12)
    assert least.value == 1 or below < ridge


def test_eight_bit_weights_halve_the_batch_only_if_the_math_stays_in_16_bits() -> None:
    batch = roofline.min_compute_bound_batch
    assert batch(H100).value == 296
    assert batch(H100, weight_bytes=1).value == 148
    assert batch(H100, weight_bytes=1, compute="fp8").value == 296
    with pytest.raises(SizingError, match="compute"):
        batch(A100, weight_bytes=1, compute="fp8")


def test_the_roofline_has_its_bend_at_the_ridge() -> None:
    ridge = value(roofline.ridge_point(A100))
    peak = A100.peaks["bf16"]
    assert value(roofline.attainable_flops(A100, ridge)) == pytest.approx(peak)
    assert value(roofline.attainable_flops(A100, 2 * ridge)) == peak
    assert value(roofline.attainable_flops(A100, ridge / 2)) == pytest.approx(peak / 2)


@given(st.integers(1, 8), st.integers(1, 16), st.sampled_from(["fp32", "bf16", "fp8"]))
def test_attentions_intensity_is_that_of_the_group(kv_heads: int, group: int, dtype: str) -> None:
    """2 · n_q / (n_kv · b): 1 for MHA in 16 bits, whatever the depth, the width and the context."""
    b = {"fp32": 4, "bf16": 2, "fp8": 1}[dtype]
    for layers, dim, context in ((1, 64, None), (3, 128, 777)):
        model = specs.uniform(layers, kv_heads * group, kv_heads, dim)
        found = traffic.arithmetic_intensity_attention_decode(model, dtype, context)
        assert found.value == 2 * group / b


def test_a_replicated_kv_head_serves_fewer_query_heads() -> None:
    model = specs.uniform(2, 16, 2, 64)
    at = traffic.arithmetic_intensity_attention_decode
    assert [at(model, tp=tp).value for tp in (1, 2, 4, 8)] == [8, 8, 4, 2]
    assert at(V3, tp=8).value == value(at(V3)) / 8
    assert value(at(V3)) == pytest.approx(241.78, abs=0.01)


# ---- What a step reads -------------------------------------------------------------------------


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 500))
def test_a_batch_reads_the_experts_it_visits(experts: int, visited: int, batch: int) -> None:
    visited = min(visited, experts)
    model = mixture(experts, visited)
    read = traffic.weights_read(model, batch).params
    expected = 5000 + 1000 * experts * (1 - (1 - visited / experts) ** batch)
    assert model.active_params <= read <= model.params
    assert abs(read - expected) <= 1
    assert traffic.weights_read(model, 1).params == model.active_params
    assert traffic.weights_read(model, 10**6).params in (model.params, model.params - 1)


@given(WINDOWS, LENGTHS, st.sampled_from(["bf16", "fp8", "int4"]))
def test_what_is_read_is_what_is_kept(windows, context: int, dtype: str) -> None:
    model = windowed(windows)
    assert (
        traffic.kv_read(model, context, dtype) == kv.kv_bytes_sequence(model, context, dtype).value
    )


def test_a_layer_that_shares_a_cache_reads_it_again() -> None:
    own, shared = specs.attention(8, 2, 16, 100), Layer(SharedKV(0), 8, 16, 16)
    one, two = specs.model(own, params=1), specs.model(own, shared, params=1)
    for length in (1, 500):
        assert traffic.kv_read(two, length, "bf16") == 2 * traffic.kv_read(one, length, "bf16")
        assert (
            compute.decode_work(two, length).attention
            == 2 * compute.decode_work(one, length).attention
        )
    assert kv.kv_bytes_sequence(two, 500).value == kv.kv_bytes_sequence(one, 500).value


def test_a_state_is_read_and_written_whatever_the_context() -> None:
    state = FixedState("state_space", (("ssm", 1000, 4), ("conv", 30, 2)))
    model = specs.model(Layer(state), params=1)
    assert [traffic.kv_read(model, n, "bf16") for n in (0, 10**6)] == [2 * 4060] * 2
    both = specs.model(replace(specs.attention(8, 2, 16), state=state), params=1)
    assert traffic.arithmetic_intensity_attention_decode(both).value == 4


def test_latents_are_read_whole_by_every_gpu_unless_attention_is_data_parallel() -> None:
    one = value(traffic.decode_kv_bytes(V3, 4096, batch=8))
    assert value(traffic.decode_kv_bytes(V3, 4096, batch=8, tp=8)) == one
    assert value(traffic.decode_kv_bytes(V3, 4096, batch=8, tp=8, attention_dp=8)) == one / 8
    llama = value(traffic.decode_kv_bytes(LLAMA, 4096, batch=8))
    assert value(traffic.decode_kv_bytes(LLAMA, 4096, batch=8, tp=8)) == llama / 8


def test_a_step_with_data_parallel_attention_reads_each_groups_own_caches() -> None:
    time = step_time.decode_step_time
    shown = [
        {
            symbol.symbol: symbol.value
            for symbol in time(V3, H100, 8, 20, 4096, attention_dp=dp).symbols
        }
        for dp in (1, 8)
    ]
    each = 4096 * 70_272
    assert [one["K"] for one in shown] == [
        20 * each,
        3 * each,
    ]  # 20 over 8 groups: 3 in the fullest


NODE = gpus.get("h200-sxm")


def test_groups_read_all_of_their_attentions_weights() -> None:
    """Llama 3 70B in eight groups: a GPU holds 38.78 GB, and to read them takes 8.08 ms."""
    model = catalog.get("llama-3-70b")
    held = weight_shares.weight_bytes_per_gpu(model, "bf16", tp=8, attention_dp=8).value
    assert held == 38_777_718_784
    alone, apart = (step_time.decode_step_time(model, NODE, 8, 8, attention_dp=n) for n in (1, 8))
    derivation.check(apart)
    read = {symbol.symbol: symbol.value for symbol in apart.symbols}["W_gpu"]
    assert read == held
    assert value(apart) >= held / NODE.bandwidth > 2 * value(alone)
    found = utilization.achieved_mbu(model, NODE, value(apart), 8, 8, 1, attention_dp=8)
    assert found.value == pytest.approx(1, abs=1e-6)


def test_a_sequence_is_computed_by_its_group_alone() -> None:
    """DeepSeek-V3 at 128K tokens, in eight groups of one GPU: 2.4 ms for attention's weights, and
    attention over a whole context on one GPU, 4.5 ms at half the peak."""
    step = step_time.decode_step_time
    made = step(V3, NODE, 8, 1, 131072, "fp8", "fp8", mfu=0.5, attention_dp=8)
    derivation.check(made)
    times = {one.formula: one.value for one in made.steps}
    flops = 61 * 2 * 128 * (576 + 512) * 131072
    assert times["A / (g · peak₁₆ · MFU)"] == pytest.approx(flops / (NODE.peaks["bf16"] * 0.5))
    assert times["A / (g · peak₁₆ · MFU)"] == pytest.approx(4.5e-3, rel=0.01)
    attention = sum(part.params for part in V3.parts if part.name == "attention")
    assert attention / NODE.bandwidth == pytest.approx(2.4e-3, rel=0.01)
    assert times["W_gpu / (BW · MBU)"] > attention / NODE.bandwidth
    # Eight sequences fill the groups: each GPU does what one of them asks, in no more time.
    full = step(V3, NODE, 8, 8, 131072, "fp8", "fp8", mfu=0.5, attention_dp=8)
    parts = {one.formula: one.value for one in full.steps}
    assert parts["A / (g · peak₁₆ · MFU)"] == times["A / (g · peak₁₆ · MFU)"]
    prompt = [step_time.prefill_time(V3, 8192, NODE, 8, attention_dp=n) for n in (1, 8)]
    own = 2 * attention * 8192 + compute.prefill_work(V3, 8192).attention
    more = own * (1 - 1 / 8) / NODE.peaks["bf16"]
    assert value(prompt[1]) == pytest.approx(value(prompt[0]) + more)


@given(st.sampled_from([2, 4, 8]), st.integers(1, 64), st.integers(0, 5000))
def test_groups_that_are_full_compute_what_all_gpus_would(groups: int, each: int, context) -> None:
    """If the batch divides, FLOPs are the same however they are divided; an uneven one costs."""
    step = step_time.decode_step_time
    whole, apart, odd = (
        step(LLAMA, H100, 8, batch, context, attention_dp=dp)
        for batch, dp in ((groups * each, 1), (groups * each, groups), (groups * each - 1, groups))
    )
    linear = [next(s.value for s in one.steps if "P · B" in s.formula) for one in (whole, apart)]
    of_16 = [next(s.value for s in one.steps if "peak₁₆" in s.formula) for one in (whole, apart)]
    assert linear[0] == pytest.approx(linear[1]) and of_16[0] == pytest.approx(of_16[1])
    assert value(odd) <= value(apart) * (1 + 1e-9)


def test_copied_projections_are_read_too() -> None:
    """On 16 GPUs each holds a whole KV head, where its even share were half of one."""
    model = catalog.get("llama-3-70b")
    held = weight_shares.weight_bytes_per_gpu(model, "bf16", tp=16).value
    made = step_time.decode_step_time(model, H100, 16)
    assert {symbol.symbol: symbol.value for symbol in made.symbols}["W_gpu"] == held


def test_tables_that_are_looked_up_are_neither_computed_nor_read() -> None:
    """Gemma-3n's table of inputs to every layer is a third of its parameters; a token takes a row
    of it. The embedding is counted as the sources count it, and the symbol says so."""
    model = catalog.get("gemma-3n-e4b")
    tables = next(part.params for part in model.parts if part.name == "per-layer embedding")
    assert model.params is not None and 2.3e9 < tables < 2.4e9
    met = model.params - tables
    assert compute.params_per_token(model)[0] == met
    assert traffic.decode_weight_bytes(model).value == 2 * met
    assert compute.prefill_work(model, 100).linear == 2 * 100 * met
    first = compute.decode_flops(model, 10).symbols[0]
    assert first.symbol == "P" and "the embedding counted" in first.meaning
    exact = compute.decode_flops(model, 10, count="matmul").symbols[0]
    assert exact.value == model.matmul_params and "matrices" in exact.meaning
    positions = catalog.get("gpt-3-175b")
    rows = next(part.params for part in positions.parts if part.name == "position embedding")
    assert compute.params_per_token(positions)[0] == positions.active_params - rows


def test_weights_in_several_formats_are_multiplied_at_their_own_peaks() -> None:
    """The rate of all together is the harmonic mean: time adds up, not rates."""
    b200 = gpus.get("b200-sxm")
    kept = stored.of("checkpoint", V3)
    top, words, _ = step_setup.mean_peak(V3, b200, kept, "weights")
    assert words == "mean of fp8 and bf16"
    read = traffic.weights_read(V3, 1)
    numbers = traffic.numbers_read(V3, read, kept)
    assert sum(numbers.values()) == V3.active_params
    spent = sum(n / b200.peaks[fmt.name] for fmt, n in numbers.items())
    assert top == pytest.approx(V3.active_params / spent)


@given(st.integers(1, 20_000), st.integers(1, 5_000), st.integers(1, 64))
def test_a_full_step_takes_as_long_as_its_prompts(budget: int, tokens: int, most: int) -> None:
    """One prompt after the other and the last part of one more, if computing sets the pace."""
    made = chunks.full_step_time(LLAMA, budget, tokens, H100, 8, "fp8", mfu=0.01, prompts=most)
    number = min(budget // tokens, most)
    rest = min(budget - number * tokens, tokens) if number < most else 0
    one = value(step_time.prefill_time(LLAMA, tokens, H100, 8, "fp8", 0.01))
    last = value(step_time.prefill_time(LLAMA, rest, H100, 8, "fp8", 0.01, computed=tokens - rest))
    reading = value(step_time.decode_step_time(LLAMA, H100, 8, weights="fp8"))
    assert number * one + last <= value(made) * (1 + 1e-9)
    assert value(made) <= max(number * one + last, reading) * (1 + 1e-9)


# ---- Time --------------------------------------------------------------------------------------


def test_the_audits_fleet() -> None:
    """A mix of prompts on two H100 in FP8 at half the peak: 1.63/s, 61 % of it the longest."""
    mix = {512: 0.2, 2048: 0.5, 8192: 0.25, 65536: 0.05}
    spent = {
        n: share * value(step_time.prefill_time(LLAMA, n, H100, 2, "fp8", 0.5))
        for n, share in mix.items()
    }
    assert 1 / sum(spent.values()) == pytest.approx(1.63, abs=0.005)
    assert spent[65536] / sum(spent.values()) == pytest.approx(0.61, abs=0.005)
    assert value(step_time.prefill_time(LLAMA, 2048, H100, 2, "fp8", 0.5)) == pytest.approx(
        0.149, abs=5e-4
    )


@given(st.floats(0.01, 1), st.floats(0.01, 1), st.integers(1, 4096), st.integers(0, 10**5))
def test_a_step_is_no_faster_than_its_floor(
    mfu: float, mbu: float, batch: int, context: int
) -> None:
    floor = value(step_time.decode_step_time(LLAMA, H100, 8, batch, context))
    real = value(step_time.decode_step_time(LLAMA, H100, 8, batch, context, mfu=mfu, mbu=mbu))
    assert floor <= real <= floor / min(mfu, mbu) * (1 + 1e-9)


@given(st.integers(1, 500), st.integers(1, 500), st.integers(0, 50_000))
def test_more_sequences_never_take_less_time_nor_give_fewer_tokens(
    a: int, b: int, context: int
) -> None:
    small, large = sorted((a, b))
    for model, gpu in ((LLAMA, H100), (mixture(64, 4, 10**8, 10**9), A100)):
        t_s, t_l = (
            value(step_time.decode_step_time(model, gpu, 1, n, context)) for n in (small, large)
        )
        assert t_s <= t_l
        assert small / t_s <= large / t_l * (1 + 1e-9)


def test_measured_times_give_back_the_shares_they_were_made_with() -> None:
    seconds = value(step_time.prefill_time(LLAMA, 4096, H100, 8, mfu=0.43))
    assert value(utilization.achieved_mfu(LLAMA, 4096, H100, seconds, 8)) == pytest.approx(0.43)
    seconds = value(step_time.decode_step_time(LLAMA, H100, 8, 16, 4096, mbu=0.61))
    found = utilization.achieved_mbu(LLAMA, H100, seconds, 8, 16, 4096)
    assert found.value == pytest.approx(0.61)
    assert utilization.achieved_mbu(LLAMA, H100, seconds / 2, 8, 16, 4096).notes


def test_a_dense_model_saturates_at_the_ridge_and_a_mixture_later() -> None:
    assert saturation.batch_to_saturate(LLAMA, H100).value == 296
    dense, sparse = mixture(8, 8, 10**8), mixture(8, 2, 10**8)
    one = value(saturation.batch_to_saturate(dense, H100))
    four = value(saturation.batch_to_saturate(sparse, H100))
    assert one == 296
    assert four == pytest.approx(4 * 296, rel=0.01)


def test_weights_are_widened_where_the_units_for_them_are_missing() -> None:
    result = step_time.decode_step_time(LLAMA, A100, weights="fp8")
    assert any("widened to bf16" in note for note in result.notes)
    assert saturation.batch_to_saturate(LLAMA, A100, weights="fp8").value == math.ceil(153.02 / 2)


def test_a_short_prompt_is_bound_by_reading_the_weights() -> None:
    alone = value(step_time.prefill_time(LLAMA, 16, H100))
    with_reads = value(step_time.prefill_time(LLAMA, 16, H100, weights="bf16"))
    assert alone < with_reads == pytest.approx(141_107_412_992 / 3.35e12)
    long = [value(step_time.prefill_time(LLAMA, 4096, H100, weights=w)) for w in (None, "bf16")]
    assert long[0] == long[1]


def test_what_does_not_divide_is_refused_at_the_parameter_that_was_given() -> None:
    with pytest.raises(SizingError) as caught:
        step_time.decode_step_time(specs.uniform(2, 12, 4, 64, params=9), H100, n_gpu=5)
    assert caught.value.path == "n_gpu"


# ---- Where a model's work stands on a roofline -------------------------------------------------


@given(st.integers(1, 5000), st.sampled_from(["fp32", "bf16", "fp8"]))
def test_a_dense_model_s_matrices_stand_at_two_tokens_over_a_weight_s_bytes(
    tokens: int, dtype: str
) -> None:
    b = {"fp32": 4, "bf16": 2, "fp8": 1}[dtype]
    model = specs.uniform(3, 16, 4, 64)
    assert value(intensity.arithmetic_intensity_matrices(LLAMA, tokens, dtype)) == 2 * tokens / b
    at = value(intensity.arithmetic_intensity_attention_prefill(model, tokens, 0, dtype))
    assert at == pytest.approx(2 * 16 / (4 * b) * tokens / 2), "N/2 times as much as in decode"


def test_a_mixture_s_matrices_lag_behind_and_get_there_where_a_batch_saturates() -> None:
    at = [value(intensity.arithmetic_intensity_matrices(V3, n, "fp8")) for n in (1, 16, 4096)]
    assert at[0] == 2 and 2 < at[1] < 32 and at[2] < 8192
    for model in (LLAMA, V3):
        reach = value(saturation.batch_to_saturate(model, H100, "bf16"))
        ridge = value(roofline.ridge_point(H100))
        below, there = (
            value(intensity.arithmetic_intensity_matrices(model, n)) for n in (reach - 1, reach)
        )
        assert below < ridge <= there


def test_a_prompt_s_attention_reads_what_is_cached_and_writes_what_is_new() -> None:
    model = specs.uniform(2, 8, 2, 64)
    per_token = 2 * 2 * 2 * 64 * 2
    found = intensity.arithmetic_intensity_attention_prefill(model, 100, 50)
    pairs = (150**2 - 50**2) / 2
    assert value(found) == pytest.approx(4 * 2 * 8 * 64 * pairs / (150 * per_token))
