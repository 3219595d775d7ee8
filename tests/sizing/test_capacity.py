"""How many sequences fit: known figures, the engine's own block pool, and what must hold."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.kv.block_pool import BlockPool
from core.sizing import balance, blocks, capacity, gpus, kv, kv_format, kv_layers, pool
from core.sizing.errors import SizingError
from core.sizing.geometry import FixedState, KVHeads, Layer, ModelSpec
from tests.sizing import derivation, specs

SMALL = specs.uniform(2, 4, 2, 8)
"""128 bytes per token in bf16."""

MIXED = specs.model(
    specs.attention(4, 2, 8, window=10),
    specs.attention(4, 4, 8),
    specs.stateful(FixedState("state_space", (("state", 25, 4),))),
)
"""64 bytes per token under a window of 10, 128 without, and 100 bytes of state."""


def streams(model: ModelSpec, tokens: int, **options: object) -> int:
    result = capacity.max_streams(model, tokens, **options)  # type: ignore[arg-type]
    derivation.check(result)
    assert isinstance(result.value, int)
    return result.value


def binding(model: ModelSpec, tokens: int, **options: object) -> object:
    result = capacity.max_streams(model, tokens, **options)  # type: ignore[arg-type]
    (name,) = (s.value for s in result.symbols if s.symbol == "binding")
    assert result.notes[0] == f"bound by {name}"
    return name


# Known figures


def test_policies_on_one_pool() -> None:
    node = {"pool_gib": 481.61, "dtype": "bf16"}
    assert streams(specs.LLAMA_70B, 4096, policy="contiguous", **node) == 385
    assert streams(specs.LLAMA_70B, 1500, policy="fractional", **node) == 1052
    assert streams(specs.LLAMA_70B, 1500, policy="paged", **node) == 1049
    reserved = streams(specs.LLAMA_70B, 1500, policy="contiguous", max_model_len=4096, **node)
    assert reserved == 385


def test_a_common_prefix_lies_in_the_pool_once() -> None:
    forty = {"dtype": "fp8", "per_gpu_pool_bytes": 35e9}
    assert streams(specs.CUSTOM_40B, 8192, **forty) == 37
    assert streams(specs.CUSTOM_40B, 8192, prefix_tokens=2048, **forty) == 49
    # Only whole blocks are shared.
    part = capacity.max_streams(SMALL, 100, per_gpu_pool_bytes=128 * 1000, prefix_tokens=17)
    assert part.value == (1000 - 16) // 96
    assert "1 tokens of the prefix fill no whole block" in part.notes[1]


def test_a_copied_latent_takes_its_room_on_every_gpu() -> None:
    long = {"tokens": 131_072, "per_gpu_pool_bytes": 80e9, "tp": 8}
    assert streams(specs.DEEPSEEK_V3, **long) == 8
    assert streams(specs.DEEPSEEK_V3, attention_dp=8, **long) == 8 * 8
    assert streams(specs.DEEPSEEK_V3, dp=3, **long) == 3 * 8


def test_the_tightest_stage_counts() -> None:
    uneven = {"tokens": 160, "per_gpu_pool_bytes": 64 * 1600, "pp": 2}
    assert streams(specs.uniform(3, 4, 2, 8), stages=[1, 2], **uneven) == 5
    assert streams(specs.uniform(2, 4, 2, 8), **uneven) == 10


def test_the_binding_limit_is_named() -> None:
    room = {"per_gpu_pool_bytes": 128 * 16 * 10}
    assert binding(SMALL, 16, **room) == "blocks"
    assert binding(SMALL, 16, policy="fractional", **room) == "memory"
    assert binding(SMALL, 16, max_num_seqs=9, max_num_batched_tokens=64, **room) == "max_num_seqs"
    assert binding(SMALL, 16, max_num_batched_tokens=8, **room) == "max_num_batched_tokens"
    # Each replica has a scheduler of its own.
    assert streams(SMALL, 16, max_num_seqs=3, dp=4, **room) == 12


def test_not_even_one() -> None:
    result = capacity.max_streams(SMALL, 100, per_gpu_pool_bytes=1000)
    assert result.value == 0
    assert result.notes[1].startswith("not one sequence fits: 13,336 B short")


def test_windows_and_states_are_in_the_sum() -> None:
    # 100 tokens, blocks of 4: 25 of them without a window, under one what 10 tokens can touch.
    each = 25 * 4 * 128 + 4 * 4 * 64 + 100
    assert streams(MIXED, 100, block_size=4, per_gpu_pool_bytes=each * 7) == 7
    assert streams(MIXED, 100, block_size=4, per_gpu_pool_bytes=each * 7 - 1) == 6


def test_static_scales_are_kept_once() -> None:
    dtype = {"format": "fp8", "scale": "per_tensor", "scale_bytes": 4}
    room = 64 * 16 * 10
    assert streams(SMALL, 16, dtype=dtype, per_gpu_pool_bytes=room + 16) == 10
    assert streams(SMALL, 16, dtype=dtype, per_gpu_pool_bytes=room + 15) == 9


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, "per_gpu_pool_bytes"),
        ({"pool_gib": 1, "per_gpu_pool_bytes": 1}, "pool_gib"),
        ({"pool_gib": 1, "weights_gib": 1}, "weights_gib"),
        ({"total_gib": 1}, "weights_gib"),
        ({"pool_gib": float("nan")}, "pool_gib"),
        ({"pool_gib": -1}, "pool_gib"),
        ({"pool_gib": 1, "policy": "slab"}, "policy"),
        ({"pool_gib": 1, "block_size": 0}, "block_size"),
        ({"pool_gib": 1, "tokens": 0}, "tokens"),
        ({"pool_gib": 1, "tokens": 1.5}, "tokens"),
        ({"pool_gib": 1, "prefix_tokens": 101}, "prefix_tokens"),
        ({"pool_gib": 1, "prefix_tokens": 1, "policy": "contiguous"}, "prefix_tokens"),
        ({"pool_gib": 1, "max_model_len": 99}, "max_model_len"),
        ({"pool_gib": 1, "max_num_seqs": 0}, "max_num_seqs"),
        ({"pool_gib": 1, "tp": 3}, "tp"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(options: dict[str, object], path: str) -> None:
    with pytest.raises(SizingError) as caught:
        capacity.max_streams(SMALL, **{"tokens": 100, **options})  # type: ignore[arg-type]
    assert caught.value.path == path


# Against real allocation


@given(st.integers(0, 60), st.integers(1, 40), st.integers(1, 16))
def test_the_engines_block_pool_holds_as_many(num_blocks: int, tokens: int, size: int) -> None:
    block = blocks.block_bytes(SMALL, "bf16", size).value
    assert isinstance(block, int)
    room = num_blocks * block + block // 2
    assert blocks.num_blocks(room, SMALL, "bf16", size).value == num_blocks
    held = 0
    if num_blocks:
        free = BlockPool(num_blocks)
        need = blocks.blocks_for_tokens(tokens, size).value
        assert isinstance(need, int)
        while free.num_free >= need:
            free.allocate(need)
            held += 1
    assert streams(SMALL, tokens, block_size=size, per_gpu_pool_bytes=room) == held


@given(st.integers(1, 40), st.integers(1, 80), st.integers(1, 9))
def test_a_window_touches_no_more_blocks_than_are_counted(
    window: int, tokens: int, size: int
) -> None:
    layer = specs.model(specs.attention(1, 1, 1, window=window))
    rows = kv_layers.of_model(layer, kv_format.of("int8"))
    (held,) = (count for count, _ in capacity.demand(rows, tokens, size).own)
    touched = max(
        len({token // size for token in range(max(0, end - window), end)})
        for end in range(1, tokens + 1)
    )
    assert touched <= held <= math.ceil(tokens / size)
    if tokens >= window + size:  # every start was seen
        assert touched == held


@given(st.integers(1, 40), st.integers(1, 80), st.integers(0, 80), st.integers(1, 9))
def test_a_prefix_is_shared_as_far_as_windows_reach(
    window: int, tokens: int, prefix: int, size: int
) -> None:
    prefix = min(prefix, tokens)
    rows = kv_layers.of_model(
        specs.model(specs.attention(1, 1, 1, window=window)), kv_format.of("int8")
    )
    reach = math.ceil((window - 1) / size) + 1
    common = range(prefix // size)
    kept = range(math.ceil(tokens / size))[-reach:]
    need = capacity.demand(rows, tokens, size, prefix)
    assert need.each == 2 * size * len(set(kept) - set(common))
    # The pool keeps what a newcomer, who has the prefix and nothing more, will read.
    assert need.once == 2 * size * len(common[-reach:])


# What must hold


pools = st.integers(0, 10**7)
MODELS = st.sampled_from([SMALL, MIXED, specs.GPT_OSS_20B])


@given(MODELS, pools, st.integers(1, 300), st.integers(1, 40), st.data())
def test_what_fits_fits_and_one_more_does_not(
    model: ModelSpec, room: int, tokens: int, size: int, data: st.DataObject
) -> None:
    prefix = data.draw(st.integers(0, tokens))
    rows = kv_layers.of_model(model, kv_format.of("bf16"))
    need = capacity.demand(rows, tokens, size, prefix)
    options = {"block_size": size, "prefix_tokens": prefix}
    if not need.each:
        return
    count = streams(model, tokens, per_gpu_pool_bytes=room, **options)
    assert need.once + (count + 1) * need.each > room
    assert count == 0 or need.once + count * need.each <= room


@given(MODELS, pools, st.integers(1, 300), st.integers(1, 40))
def test_finer_blocks_and_wider_windows(
    model: ModelSpec, room: int, tokens: int, size: int
) -> None:
    paged = streams(model, tokens, block_size=size, per_gpu_pool_bytes=room)
    exact = streams(model, tokens, policy="fractional", per_gpu_pool_bytes=room)
    assert paged <= exact
    assert exact == streams(model, tokens, block_size=1, per_gpu_pool_bytes=room)
    whole = kv.kv_bytes_sequence(model, tokens).value
    state = kv.fixed_state_bytes(model).value
    assert isinstance(whole, int)
    assert isinstance(state, int)
    assert exact == room // (whole + state)
    everything = streams(model, tokens, n_local_layers=0, block_size=size, per_gpu_pool_bytes=room)
    assert everything <= paged


@given(MODELS, pools, st.integers(1, 200), st.integers(1, 40), st.integers(0, 200))
def test_sharing_a_prefix_pays_from_the_second_sequence_on(
    model: ModelSpec, room: int, tokens: int, size: int, prefix: int
) -> None:
    prefix = min(prefix, tokens)
    rows = kv_layers.of_model(model, kv_format.of("bf16"))
    alone = capacity.demand(rows, tokens, size)
    shared = capacity.demand(rows, tokens, size, prefix)
    if all(row.window is None for row in rows):
        assert shared.once + shared.each == alone.each
    assert shared.each <= alone.each


@given(MODELS, st.integers(1, 4), st.integers(10**4, 10**7), st.integers(1, 200))
def test_twice_the_pool_twice_the_sequences(
    model: ModelSpec, times: int, room: int, tokens: int
) -> None:
    one = streams(model, tokens, per_gpu_pool_bytes=room)
    many = streams(model, tokens, per_gpu_pool_bytes=times * room)
    assert times * one <= many < times * (one + 1)


# Blocks, pools, balance


def test_the_last_block_is_half_empty_on_average() -> None:
    for size in (1, 8, 16, 32):
        result = blocks.expected_last_block_waste(specs.LLAMA_70B, "fp8", size, tokens=1500)
        derivation.check(result)
        empty = [-tokens % size for tokens in range(1000, 1000 + size)]
        assert result.value == sum(empty) * 163_840 / size
    said = blocks.expected_last_block_waste(specs.LLAMA_70B, "fp8", 16, 1500).notes[1]
    assert said == "0.500% of the 245,760,000 B that 1,500 tokens take"


def test_empty_slots_weigh_more_where_windows_keep_the_cache_small() -> None:
    """7.5 of 8,191 tokens are 0.09 %, but 52 of Gemma's 62 layers keep 1,024 of them."""
    result = blocks.expected_last_block_waste(specs.GEMMA_3_27B, "bf16", 16, 8191)
    each = 2 * 16 * 128 * 2
    kept = each * (10 * 8191 + 52 * 1024)
    assert result.value == 3_809_280 and kept == 1_107_214_336
    assert result.notes[1] == f"0.344% of the {kept:,} B that 8,191 tokens take"
    state = FixedState("state_space", (("state", 1 << 20, 4),))
    bare = specs.model(*(Layer(state),) * 4)
    assert "no layer caches" in blocks.expected_last_block_waste(bare, tokens=100).notes[1]


def test_blocks_are_of_a_layer_a_gpu_or_a_model() -> None:
    for scope, tp, expected in (
        ("layer", 1, 32_768),
        ("gpu", 2, 1_310_720),
        ("model", 1, 2_621_440),
    ):
        result = blocks.block_bytes(specs.LLAMA_70B, "fp8", 16, scope, tp)
        derivation.check(result)
        assert result.value == expected
    counted = blocks.num_blocks(40 * 2**30 + 5, specs.LLAMA_70B, "fp8")
    derivation.check(counted)
    assert counted.value == 16_384
    assert counted.notes[-1] == "5 B of the pool are less than a block"


def test_a_reservation_wastes_what_is_not_used() -> None:
    result = blocks.contiguous_waste_fraction(250, 4096)
    derivation.check(result)
    assert result.value == pytest.approx(0.93896484375)
    with pytest.raises(SizingError, match="more than the 100"):
        blocks.contiguous_waste_fraction(101, 100)


def test_what_is_left_of_a_gpu() -> None:
    h100 = gpus.get("h100-sxm5")
    result = pool.kv_pool_bytes_per_gpu(h100, specs.LLAMA_70B, "fp8", overhead_bytes=5e9, tp=2)
    derivation.check(result)
    assert result.value == 81_559 * 2**20 * 92 // 100 - 70_553_706_496 // 2 - 5 * 10**9
    budgeted = pool.kv_pool_bytes_per_gpu(
        h100, specs.LLAMA_70B, "fp8", tp=2, overhead_bytes=5e9, max_num_batched_tokens=8192
    )
    derivation.check(budgeted)
    bound = pool.activation_bytes_bound(specs.LLAMA_70B, 8192, tp=2)
    derivation.check(bound)
    assert isinstance(result.value, int)
    assert isinstance(bound.value, int)
    assert budgeted.value == result.value - bound.value


def test_weights_that_do_not_fit_leave_nothing_and_say_what_is_short() -> None:
    result = pool.kv_pool_bytes_per_gpu(gpus.get("h100-sxm5"), specs.LLAMA_70B, "bf16")
    assert result.value == 0
    assert result.notes[0] == (
        "does not fit: 62,428,267,807 B short (62.43 GB = 58.14 GiB) on each GPU"
    )


def test_a_layers_matrices_bound_its_activations() -> None:
    # One layer: q, k, v, o and gate, up, down; nothing else is multiplied but the head.
    hidden, q, kv_width, ff, vocab = 64, 64, 32, 96, 1000
    matrices = hidden * (2 * q + 2 * kv_width + 3 * ff)
    model = specs.model(
        Layer(KVHeads(2, 16, 16), 4, 16, 16),
        hidden_size=hidden,
        vocab_size=vocab,
        params=matrices + vocab * hidden,
    )
    written = 2 * q + 2 * kv_width + 3 * ff
    result = pool.activation_bytes_bound(model, 10, 4)
    assert result.value == 10 * (2 * hidden + written) * 2 + 4 * vocab * (4 + 2)
    assert result.basis == "convention"


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"gpu_memory_utilization": 0}, "gpu_memory_utilization"),
        ({"gpu_memory_utilization": 1.2}, "gpu_memory_utilization"),
        ({"gpu_memory_utilization": "0.9"}, "gpu_memory_utilization"),
        ({"overhead_bytes": -1}, "overhead_bytes"),
        ({"gpu_total_mib": 0}, "gpu_total_mib"),
        ({"tp": 7}, "tp"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens"),
        ({"weight_dtype": "fp5"}, "weight_dtype"),
        ({"count": "guess"}, "count"),
    ],
)
def test_a_pool_of_nonsense_is_refused(options: dict[str, object], path: str) -> None:
    with pytest.raises(SizingError) as caught:
        pool.kv_pool_bytes_per_gpu(gpus.get("l40s"), specs.LLAMA_70B, **options)  # type: ignore[arg-type]
    assert caught.value.path == path


def test_where_the_cache_outgrows_the_weights() -> None:
    at = balance.kv_weights_balance(specs.LLAMA_70B, "fp8", "fp8", tokens=4096, count="nominal")
    derivation.check(at)
    assert at.value == pytest.approx(104.3081283569336)
    with pytest.raises(SizingError, match="give one"):
        balance.kv_weights_balance(specs.LLAMA_70B)
    with pytest.raises(SizingError, match="give one"):
        balance.kv_weights_balance(specs.LLAMA_70B, tokens=1, batch=1)


@given(
    st.integers(1, 200), st.integers(1, 10**6), st.sampled_from([SMALL, MIXED, specs.GEMMA_3_27B])
)
def test_batch_and_context_balance_at_the_same_points(
    batch: int, params: int, model: ModelSpec
) -> None:
    found = balance.kv_weights_balance(model, batch=batch, params=params)
    derivation.check(found)
    assert found.value is not None
    below, above = math.floor(found.value), math.ceil(found.value)
    state = kv.fixed_state_bytes(model).value
    held = [kv.kv_bytes_sequence(model, length).value for length in (below, above)]
    assert isinstance(state, int)
    if found.value > 0:
        assert (
            batch * (int(held[0] or 0) + state) <= 2 * params <= batch * (int(held[1] or 0) + state)
        )
    else:
        assert batch * state >= 2 * params


def test_some_caches_never_outgrow_the_weights() -> None:
    model = specs.model(specs.attention(1, 1, 8, window=100))
    result = balance.kv_weights_balance(model, batch=1, params=10**6)
    assert result.value is None
    assert result.notes[0] == (
        "no context is long enough: a sequence never keeps more than 3,200 B"
    )


def test_every_combination_of_policy_and_sharing_explains_itself() -> None:
    for policy, prefix, limit, tp, dp in itertools.product(
        capacity.POLICIES, (0, 33), (None, 5), (1, 2), (1, 2)
    ):
        if policy == "contiguous" and prefix:
            continue
        for model in (SMALL, specs.GPT_OSS_20B):
            streams(
                model,
                100,
                policy=policy,
                prefix_tokens=prefix,
                max_num_seqs=limit,
                tp=tp,
                dp=dp,
                pool_gib=0.01,
            )
