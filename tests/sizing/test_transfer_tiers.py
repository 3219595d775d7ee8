"""Moving and keeping KV, swap against recompute, tiers, comparison, cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sizing import catalog, compare, compute, cost, links, recompute, tiers, transfer
from core.sizing.errors import SizingError
from core.sizing.geometry import FixedState, Layer
from core.sizing.result import ARITHMETIC, LITERATURE
from tests.sizing import specs

LLAMA, SMALL, V3 = (catalog.get(n) for n in ("llama-3.1-70b", "llama-2-7b", "deepseek-v3"))


def value(result) -> float:
    assert result.value is not None, result.notes
    return result.value


# ---- Transfer ----------------------------------------------------------------------------------


def test_time_is_size_over_rate_and_links_share_it() -> None:
    one = value(transfer.kv_transfer_time(LLAMA, 4096, "fp8", 50e9))
    assert one == 671_088_640 / 50e9
    assert value(transfer.kv_transfer_time(LLAMA, 4096, "fp8", 50e9, links=8)) == one / 8
    assert value(transfer.kv_transfer_time(LLAMA, 8192, "fp8", 50e9)) == 2 * one
    assert value(transfer.kv_transfer_time(LLAMA, 0, "fp8", 50e9, latency_s=0.5)) == 0.5


def test_a_window_bounds_what_is_moved_and_a_state_is_moved_too() -> None:
    model = specs.model(specs.attention(8, 2, 16, 100), params=1)
    times = [value(transfer.kv_transfer_time(model, n, "bf16", 1e9)) for n in (50, 100, 5000)]
    assert times[0] * 2 == times[1] == times[2]
    state = Layer(FixedState("state_space", (("ssm", 1000, 4),)))
    assert transfer.sequence_bytes(specs.model(state, params=1), 10**6, "bf16") == 4000


@given(st.floats(0, 10), st.floats(0, 10), st.integers(1, 100))
def test_layers_sent_as_they_are_done(transfer_s: float, prefill_s: float, layers: int) -> None:
    """Against a clock: the link takes a layer when it is computed and the one before is sent."""
    exposed = value(transfer.pipelined_transfer_time(transfer_s, prefill_s, layers))
    free = 0.0
    for layer in range(1, layers + 1):
        free = max(free, layer * prefill_s / layers) + transfer_s / layers
    assert exposed == pytest.approx(free - prefill_s, abs=1e-9)
    assert transfer_s / layers <= exposed + 1e-12
    assert exposed <= transfer_s + 1e-12


def test_links_for_a_load_carry_it_and_one_fewer_does_not() -> None:
    for rps in (1, 50, 74, 75, 149, 150):
        count = value(transfer.disagg_links(LLAMA, 4096, "int8", rps, 50e9))
        each = value(transfer.disagg_rps_per_link(LLAMA, 4096, "int8", 50e9))
        assert (count - 1) * each < rps <= count * each
    assert transfer.disagg_links(LLAMA, 4096, "int8", 0, 50e9).value == 0


def test_a_links_rate_says_what_it_rests_on() -> None:
    for name in links.names():
        link = links.get(name)
        assert link.source
        assert link.date
        assert link.basis in (ARITHMETIC, LITERATURE)
        assert link.low is None or link.low <= link.bytes_per_s <= link.high
    assert links.get("ndr-400").bytes_per_s == 400e9 / 8
    assert {links.get(n).basis for n in ("nixl-like", "nccl-like")} == {LITERATURE}
    for gen in (4, 5):
        rate = transfer.pcie_bandwidth(gen).value
        assert links.get(f"pcie-gen{gen}-x16").bytes_per_s == rate
        assert links.get(f"pcie-gen{gen}-x16-measured").bytes_per_s < rate
    with pytest.raises(SizingError, match="did you mean ndr-400"):
        links.get("ndr400")


def test_a_named_link_is_as_good_as_its_rate_and_makes_the_result_literature() -> None:
    by_name = transfer.kv_transfer_time(LLAMA, 4096, "int8", "nixl-like")
    by_rate = transfer.kv_transfer_time(LLAMA, 4096, "int8", 40e9)
    assert by_name.value == by_rate.value
    assert (by_name.basis, by_rate.basis) == (LITERATURE, ARITHMETIC)
    assert "35 to 45 GB/s" in by_name.notes[-1]
    raw = transfer.disagg_links(LLAMA, 4096, "int8", 100, "ndr-400")
    assert (raw.value, raw.basis) == (2, ARITHMETIC)
    for function, more in (
        (transfer.disagg_observable_latency, {"hidden_fraction": 0.7}),
        (transfer.transfer_share_of_prefill, {"flops": 1e15}),
        (recompute.swap_over_recompute, {"flops": 1e15}),
    ):
        found = function(LLAMA, 4096, "int8", "nccl-like", **more)
        assert found.basis == LITERATURE
        assert "2025" in found.source
    crossing = recompute.swap_recompute_crossover_tokens(SMALL, "bf16", "nccl-like", 4.947e14)
    assert crossing.basis == LITERATURE
    with pytest.raises(SizingError) as caught:
        transfer.disagg_links(LLAMA, 4096, "int8", 100, "carrier-pigeon")
    assert caught.value.path == "link_bytes_per_s"


# ---- Swap or recompute -------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from([None, 64, 1000, 4096]), min_size=1, max_size=4),
    st.floats(1e8, 1e12),
    st.integers(0, 10**6),
    st.booleans(),
)
def test_swap_is_quicker_just_above_the_crossover_and_slower_just_below(
    windows, bandwidth: float, state: int, clamp: bool
) -> None:
    layers = [specs.attention(8, 2, 16, w) for w in windows]
    if state:
        layers.append(Layer(FixedState("state_space", (("ssm", state, 1),))))
    model, flops = specs.model(*layers, params=10**6), 1e12
    found = recompute.swap_recompute_crossover_tokens(
        model, "bf16", bandwidth, flops, clamp_at_zero=clamp
    )

    def ratio(tokens: int) -> float:
        return value(recompute.swap_over_recompute(model, tokens, "bf16", bandwidth, flops))

    if found.value:
        if 10 < found.value < 1e7:
            assert ratio(int(found.value * 0.97)) > 1 > ratio(int(found.value * 1.03) + 1)
    elif "swap at every" in found.notes[0]:
        assert found.value == (0 if clamp else None)
        assert all(ratio(n) <= 1 + 1e-9 for n in (1, 10, 1000, 10**6))
    else:
        assert found.value is None
        assert all(ratio(n) >= 1 - 1e-9 for n in (1, 10, 1000, 10**6))


def test_no_crossover_is_said_with_the_formulas_root() -> None:
    found = recompute.swap_recompute_crossover_tokens(LLAMA, "fp8", 16e9, 989.4e12)
    assert found.value is None
    assert "-99,926.7" in found.notes[0]


def test_the_source_texts_policy_is_the_wrong_way_round() -> None:
    """At 512 tokens swapping in takes 5.24 ms and recomputing 73.4 ms."""
    ratio = recompute.swap_over_recompute(LLAMA, 512, "fp8", 16e9, 989.4e12)
    swap, again = (step.value for step in ratio.steps[:2])
    assert swap == pytest.approx(5.24e-3, abs=5e-6)
    assert again == pytest.approx(73.4e-3, abs=5e-5)


# ---- Tiers -------------------------------------------------------------------------------------


def test_a_tiers_figures_have_a_source_and_a_date_and_can_be_replaced() -> None:
    for name in tiers.names():
        tier = tiers.get(name)
        assert tier.source
        assert tier.date
        assert tier.latency_s[0] <= tier.latency_s[1]
        found = tiers.tier_reload_time(LLAMA, 65536, "fp8", name)
        assert found.basis == LITERATURE
        assert tier.date in found.source
    own = tiers.tier_reload_time(LLAMA, 65536, "fp8", "hbm", bandwidth=1e9, latency_s=0)
    assert own.value == 10_737_418_240 / 1e9
    assert own.basis == ARITHMETIC
    with pytest.raises(SizingError, match="no tier"):
        tiers.get("tape")


def test_64k_tokens_come_back_from_one_nvme_drive_in_767_ms_and_from_four_in_192() -> None:
    at = [value(tiers.tier_reload_time(LLAMA, 65536, "fp8", "nvme-gen5", n)) for n in (1, 4)]
    assert at == [pytest.approx(0.767, abs=1e-3), pytest.approx(0.192, abs=1e-3)]
    striped = value(tiers.tier_reload_time(LLAMA, 65536, "fp8", "nvme-gen5-x4"))
    assert striped == pytest.approx(at[1])


def test_a_step_of_forty_requests_is_20_ms_not_half_a_millisecond() -> None:
    reload_s = value(transfer.kv_transfer_time(LLAMA, 2000, "int8", 16e9))
    assert tiers.prefetch_steps(reload_s, 40 / 2000).value == 2
    assert tiers.prefetch_steps(0.02, 0.02).value == 1
    assert tiers.prefetch_steps(0, 0.02).value == 0


def test_keeping_for_the_break_even_interval_costs_what_recomputing_does() -> None:
    interval = value(tiers.break_even_interval(LLAMA, 4096, "fp8", 1e15, 2.0, 2, 0.01))
    kept = 671_088_640 / 1e9 * 0.01 / 3600 * interval
    assert kept == pytest.approx(compute.prefill_work(LLAMA, 4096).total / 1e15 * 2 * 2 / 3600)


# ---- Comparison --------------------------------------------------------------------------------


def test_the_memory_in_which_mla_overtakes_gqa() -> None:
    """1.12 TB with a 16-bit latent, 0.83 TB with an 8-bit one; there both hold as many tokens."""
    a = {"model": "llama-3.1-70b", "dtype": "fp8", "weights": "fp8"}
    for dtype, terabytes, ratio in (("bf16", 1.12, "2.33"), ("fp8", 0.83, "4.66")):
        b = {"model": "deepseek-v3", "dtype": dtype, "weights": "fp8"}
        tie = compare.token_capacity_tie_bytes(a, b)
        assert value(tie) / 1e12 == pytest.approx(terabytes, abs=0.005)
        assert ratio in tie.notes[0]
        assert tie.value == compare.token_capacity_tie_bytes(b, a).value
        w_a, k_a, w_b, k_b = (symbol.value for symbol in tie.symbols)
        assert (tie.value - w_a) / k_a == pytest.approx((tie.value - w_b) / k_b)
    heavier = {**a, "dtype": "bf16", "weights": "bf16"}
    assert compare.token_capacity_tie_bytes(a, heavier).value is None


def test_a_ratio_turned_round_is_its_inverse() -> None:
    a, b = {"model": "gemma-2-27b"}, {"model": "deepseek-v3", "dtype": "fp8"}
    assert value(compare.kv_ratio(a, b)) == pytest.approx(1 / value(compare.kv_ratio(b, a)))
    assert compare.kv_ratio(a, a).value == 1
    read = compare.kv_read_ratio
    assert value(read(a, b, 100_000)) < value(read(a, b, 1000)) == value(compare.kv_ratio(a, b))


def test_an_equivalent_gqa_keeps_as_much() -> None:
    heads = value(compare.mla_equivalent_gqa_heads(512, 64, 128))
    one = {"attention": "gqa", "n_layers": 61, "n_kv_heads": 9, "d_head": 128}
    assert value(compare.kv_ratio(one, {"model": "deepseek-v3"})) == 9 / heads


@pytest.mark.parametrize(
    ("side", "path"),
    [
        ({"attention": "mla", "n_layers": 2, "d_latent": 8}, "a.d_rope"),
        ({"attention": "gqa", "n_layers": 2, "n_kv_heads": 8}, "a.d_head"),
        ({"attention": "gqa", "n_kv_heads": 8, "d_head": 8}, "a.n_layers"),
        ({"attention": "mqa", "n_layers": 2, "n_kv_heads": 8, "d_head": 8}, "a.n_kv_heads"),
        ({"attention": "linear", "n_layers": 2}, "a.attention"),
        ({"model": "llama-3-70b", "n_layers": 81}, "a.n_layers"),
        ({"model": "llama-3-70b", "layers": 80}, "a.layers"),
        ({"config": {"model_type": "llama"}}, "a.config.hidden_size"),
        ({"model": "llama-3-70b", "config": {}}, "a.config"),
        ({"model": "llama-4-71b"}, "a.model"),
        ({"model": "llama-3-70b", "dtype": "fp9"}, "a.dtype"),
        ("llama-3-70b", "a"),
    ],
)
def test_a_bad_side_is_refused_at_its_field(side: object, path: str) -> None:
    with pytest.raises(SizingError) as caught:
        compare.kv_ratio(side, {"model": "deepseek-v3"})  # type: ignore[arg-type]
    assert caught.value.path == path


# ---- Money -------------------------------------------------------------------------------------


def test_a_gpu_hour_buys_an_hour_of_tokens() -> None:
    per_million = value(cost.cost_per_million_tokens(3.6, 1000))
    assert per_million == pytest.approx(1.0)
    assert value(cost.cost_per_million_tokens(3.6, 1000, 4, 0.5)) == pytest.approx(8.0)
    assert value(cost.cost_per_day(3.6, 1000 * 86400, 1000)) == pytest.approx(24 * 3.6)


def test_the_audits_saving_of_a_prefix_cache() -> None:
    """10 million requests of 1,152 tokens a day, 71.1 % saved, at 7,000 tok/s and $2: $650."""
    found = cost.prefix_cache_saving_per_day(10e6, 1152, 0.8 * 1024 / 1152, 7000, 2)
    assert value(found) == pytest.approx(650.16, abs=0.005)


def test_a_user_costs_less_the_more_there_are_and_nothing_fits_has_no_price() -> None:
    assert value(cost.cost_per_user(2, 2, 100)) * 100 == 4
    few, many = (value(cost.cost_per_user(2, 2, users)) for users in (59, 305))
    assert few / many == pytest.approx(305 / 59)
    assert cost.cost_per_user(2, 2, 0).value is None


def test_gpus_for_a_load_serve_it_and_one_replica_fewer_does_not() -> None:
    one = {"prefill_s": 0.3, "output_tokens": 201, "step_s": 0.02, "batch": 50}
    seconds = 0.3 + 200 * 0.02 / 50
    for rps in (0.1, 1, 10, 1000 / 38):
        found = value(cost.gpus_for_load(rps, **one, n_gpu=2, utilization=0.8))
        replicas = found / 2
        assert (replicas - 1) * 0.8 < rps * seconds <= replicas * 0.8 + 1e-6
    request = value(cost.cost_per_request(3.6, 2, **one))
    assert request == pytest.approx(seconds * 3.6 * 2 / 3600)
