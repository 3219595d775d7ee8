"""KV bytes: known figures, and what must hold of any model."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sizing import kv, kv_format, scales
from core.sizing.errors import SizingError
from core.sizing.geometry import FixedState, KVHeads, Latent, Layer, ModelSpec, SharedKV
from tests.sizing import derivation, specs

PLAIN = ("fp32", "bf16", "fp16", "fp8", "int8", "int4")

windows = st.none() | st.integers(1, 300)
caches = st.one_of(
    st.builds(KVHeads, st.integers(1, 16), st.integers(1, 128), st.integers(1, 128), windows),
    st.builds(Latent, st.integers(1, 512), st.integers(1, 64), windows),
    st.builds(
        FixedState,
        st.just("state_space"),
        st.just((("state", 640, 4), ("conv", 96, None))),
    ),
    st.none(),
)
layers = st.builds(
    Layer, caches, st.just(0), st.just(0), st.just(0), st.none(), st.sampled_from([0, 128])
)
models = st.lists(layers, min_size=1, max_size=6).map(lambda some: specs.model(*some))
dtypes = st.sampled_from(PLAIN) | st.fixed_dictionaries(
    {
        "format": st.sampled_from(("fp8", "int8", "int4")),
        "scale": st.sampled_from(("per_tensor", "per_head_static", "per_token", "per_token_head")),
        "scale_bytes": st.sampled_from((1, 2, 4)),
        "zero_bytes": st.sampled_from((0, 1, 2)),
    }
)


def per_token(model: ModelSpec, dtype: kv_format.KVDtype = "bf16", **options: object) -> int:
    result = kv.kv_bytes_per_token(model, dtype, **options)  # type: ignore[arg-type]
    derivation.check(result)
    assert isinstance(result.value, int)
    return result.value


def sequence(model: ModelSpec, tokens: int, dtype: kv_format.KVDtype = "bf16", **o: object) -> int:
    result = kv.kv_bytes_sequence(model, tokens, dtype, **o)  # type: ignore[arg-type]
    derivation.check(result)
    assert isinstance(result.value, int)
    return result.value


# Known figures


def test_llama_70b_keeps_320_kib_per_token() -> None:
    result = kv.kv_bytes_per_token(specs.LLAMA_70B)
    assert result.value == 327_680
    assert result.steps[0].formula == "2 · L · n_kv · d_head · b"
    assert result.steps[0].substituted == "2 · 80 · 8 · 128 · 2"
    assert per_token(specs.LLAMA_70B, scope="layer") == 4096


def test_mla_keeps_one_latent_and_one_rotary_key() -> None:
    result = kv.kv_bytes_per_token(specs.DEEPSEEK_V3)
    assert result.value == 61 * (512 + 64) * 2
    assert result.steps[0].formula == "L · (d_latent + d_rope) · b"
    # The layout of FlashMLA's sparse kernel: 512 in fp8, 4 fp32 scales, 64 rotary numbers in bf16.
    assert per_token(specs.DEEPSEEK_V3, "fp8_ds_mla") == 61 * 656


def test_keys_and_values_may_differ_in_width_and_format() -> None:
    model = specs.model(specs.attention(16, 16, 192, value_dim=128))
    assert per_token(model) == 16 * (192 + 128) * 2
    assert per_token(model, {"format": "int8", "value": "int4"}) == 16 * (192 + 64)


@pytest.mark.parametrize(
    ("scale", "zero", "expected"), [(2, 0, 84_480), (2, 2, 87_040), (4, 0, 87_040)]
)
def test_scales_per_token_and_head_are_counted(scale: int, zero: int, expected: int) -> None:
    result = kv.kv_bytes_per_token_quantized(specs.LLAMA_70B, "int4", "per_token_head", scale, zero)
    assert result.value == expected
    derivation.check(result)


def test_layouts_of_vllm() -> None:
    base = 2 * 80 * 8
    assert per_token(specs.LLAMA_70B, "int8_per_token_head") == base * (128 + 4)
    assert per_token(specs.LLAMA_70B, "int4_per_token_head") == base * (64 + 2)


def test_a_layout_that_is_nearly_spelled_is_hinted_at() -> None:
    with pytest.raises(SizingError, match="did you mean int8_per_token_head"):
        kv.kv_bytes_per_token(specs.LLAMA_70B, "int8_per_token_heads")


def test_groups_of_a_vector_that_do_not_fill_the_last_one() -> None:
    model = specs.uniform(1, 4, 4, 80)
    quantised = kv.kv_bytes_per_token_quantized(model, "int4", "per_group", 2, 0, 32)
    assert quantised.value == 2 * 4 * (40 + 3 * 2)


def test_static_scales_cost_nothing_per_token() -> None:
    for scale, expected in (("per_tensor", 2 * 80 * 2), ("per_head_static", 2 * 640 * 2)):
        result = kv.kv_static_scale_bytes(specs.LLAMA_70B, scale, 2)
        assert result.value == expected
        derivation.check(result)
        beside = kv.kv_bytes_per_token_quantized(specs.LLAMA_70B, "fp8", scale, 2)
        assert beside.value == 163_840
    with pytest.raises(SizingError, match="grow with each token"):
        kv.kv_static_scale_bytes(specs.LLAMA_70B, "per_token_head")


def test_layers_in_a_format_of_their_own() -> None:
    dtype = {"format": "int4", "layers": {"0": "bf16", "78-79": "int8"}}
    assert per_token(specs.LLAMA_70B, dtype) == 2 * 8 * 128 * (77 // 2 + 2 + 2) + 2 * 8 * 64
    listed = {"format": "bf16", "layers": ["fp8"] * 80}
    assert per_token(specs.LLAMA_70B, listed) == 163_840
    scaled = {**dtype, "scale": "per_token_head", "scale_bytes": 2}
    # Layer 0 is not quantised and has no scales.
    extra = per_token(specs.LLAMA_70B, scaled) - per_token(specs.LLAMA_70B, dtype)
    assert extra == 2 * 79 * 8 * 2
    assert per_token(specs.LLAMA_70B, scaled, scope="layer", layer=0) == 4096


def test_a_block_format_packs_whole_vectors_only() -> None:
    assert per_token(specs.LLAMA_70B, "q8_0") == 2 * 80 * 8 * 128 // 32 * 34
    with pytest.raises(SizingError, match="32 numbers to a block, and a vector of 80"):
        kv.kv_bytes_per_token(specs.uniform(1, 4, 4, 80), "q8_0")


def test_the_last_byte_of_a_vector_may_be_half_empty() -> None:
    result = kv.kv_bytes_per_token(specs.uniform(2, 3, 3, 5), "int4")
    assert result.value == 2 * 3 * (3 + 3)
    derivation.check(result)


def test_windows_hold_at_most_their_width() -> None:
    result = kv.kv_bytes_sequence(specs.GEMMA_3_27B, 8192)
    assert result.value == 52 * 8192 * 1024 + 10 * 8192 * 8192
    derivation.check(result)
    assert "436,207,616 B, constant from here on" in result.notes[0]
    assert kv.kv_growth_bytes_per_token(specs.GEMMA_3_27B, 1024).value == 81_920
    assert kv.kv_growth_bytes_per_token(specs.GEMMA_3_27B, 1023).value == 507_904


def test_windows_can_be_overridden() -> None:
    assert sequence(specs.LLAMA_70B, 5000, window=4096, n_local_layers=80) == 327_680 * 4096
    half = sequence(specs.LLAMA_70B, 5000, window=4096, n_local_layers=40)
    assert half == 163_840 * (4096 + 5000)
    assert sequence(specs.GEMMA_3_27B, 5000, n_local_layers=0) == 507_904 * 5000
    own = sequence(specs.GEMMA_3_27B, 5000, window=2048, n_local_layers=52)
    assert own == 8192 * (52 * 2048 + 10 * 5000)


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"window": 4096}, "n_local_layers"),
        ({"n_local_layers": 3}, "window"),
        ({"window": 8, "n_local_layers": 81}, "n_local_layers"),
        ({"window": 0, "n_local_layers": 1}, "window"),
        ({"scope": "layer"}, "scope"),
        ({"tp": 2}, "tp"),
        ({"scope": "gpu", "tp": 3}, "tp"),
    ],
)
def test_overrides_that_contradict_are_refused(options: dict[str, object], path: str) -> None:
    with pytest.raises(SizingError) as caught:
        kv.kv_bytes_sequence(specs.LLAMA_70B, 100, **options)  # type: ignore[arg-type]
    assert caught.value.path == path


def test_which_layers_are_local_is_not_guessed() -> None:
    mixed = specs.model(specs.attention(8, 8, 64), specs.attention(8, 4, 64))
    with pytest.raises(SizingError, match="is ambiguous"):
        kv.kv_bytes_sequence(mixed, 100, window=10, n_local_layers=1)


def test_layers_that_differ_are_named_one_by_one() -> None:
    mixed = specs.model(specs.attention(8, 8, 64), specs.attention(8, 4, 64), Layer(SharedKV(0)))
    with pytest.raises(SizingError, match=r"1 keep 2,048 B, 1 keep 1,024 B"):
        kv.kv_bytes_per_token(mixed, scope="layer")
    assert per_token(mixed, scope="layer", layer=1) == 1024
    shared = kv.kv_bytes_per_token(mixed, scope="layer", layer=2)
    assert shared.value == 0
    assert shared.notes == ("layer 2 reads the keys and values of layer 0",)
    assert per_token(mixed) == 3072


def test_fixed_state_is_apart_from_what_grows() -> None:
    state = FixedState("linear_attention", (("state", 1000, 4), ("conv", 100, None)))
    model = specs.model(specs.attention(2, 2, 8), specs.stateful(state), Layer(None))
    assert sequence(model, 10) == 10 * 2 * 2 * 8 * 2
    result = kv.fixed_state_bytes(model, "bf16")
    derivation.check(result)
    assert result.value == 4200
    assert (
        kv.fixed_state_bytes(model, "fp8").value == 4200
    )  # a state is not quantised with the cache
    assert kv.fixed_state_bytes(model, {"format": "fp8", "state": "fp32"}).value == 4400
    note = kv.kv_bytes_sequence(model, 10).notes[-1]
    assert "fixed state of 4,200 B" in note


def test_a_hybrid_layer_keeps_both() -> None:
    state = FixedState("state_space", (("state", 50, 4),))
    model = specs.model(specs.stateful(KVHeads(2, 8, 8), state=state))
    assert per_token(model) == 64
    assert kv.fixed_state_bytes(model).value == 200


def test_an_indexer_adds_its_keys() -> None:
    layer = Layer(Latent(512, 64), indexer_dim=128)
    model = specs.model(layer)
    assert per_token(model) == (576 + 128) * 2
    assert per_token(model, "fp8_ds_mla") == 656 + 132, "vLLM's layout has a format for them"
    mixed = {"format": "bf16", "indexer": "fp8_g128"}
    assert per_token(model, mixed) == 576 * 2 + 132


def test_indexer_keys_in_the_format_of_the_cache_are_said_to_be() -> None:
    model = specs.model(Layer(Latent(512, 64), indexer_dim=128))
    for result in (
        kv.kv_bytes_per_token(model),
        kv.kv_bytes_sequence(model, 100),
        kv.kv_bytes_per_token(model, scope="gpu", tp=1),
    ):
        (note,) = (note for note in result.notes if "indexer keys" in note)
        assert "counted in bf16, 256 B" in note and '"indexer": "fp8_g128"' in note
    chosen = kv.kv_bytes_per_token(model, {"format": "bf16", "indexer": "fp8_g128"})
    assert not any("indexer keys" in note for note in chosen.notes)


# What must hold of any model


@given(models, dtypes, st.integers(0, 1000))
def test_a_sequence_grows_by_what_is_said(model: ModelSpec, dtype: object, length: int) -> None:
    here = sequence(model, length, dtype)  # type: ignore[arg-type]
    after = sequence(model, length + 1, dtype)  # type: ignore[arg-type]
    growth = kv.kv_growth_bytes_per_token(model, length, dtype)  # type: ignore[arg-type]
    assert after - here == growth.value
    derivation.check(growth)


@given(models, dtypes)
def test_the_name_of_a_model_does_not_matter(model: ModelSpec, dtype: object) -> None:
    other = replace(model, name="llama-3-8b-gqa-sliding", architecture="deepseek_v3")
    for function in (kv.kv_bytes_per_token, kv.kv_bytes_sequence, kv.fixed_state_bytes):
        arguments = (77,) if function is kv.kv_bytes_sequence else ()
        assert function(model, *arguments, dtype=dtype) == function(other, *arguments, dtype=dtype)


@given(models, dtypes, st.integers(0, 1000))
def test_twice_the_tokens_twice_the_growing_term(model: ModelSpec, dtype: object, n: int) -> None:
    unbounded = replace(
        model,
        layers=tuple(
            replace(layer, cache=replace(layer.cache, window=None))
            if isinstance(layer.cache, KVHeads | Latent)
            else layer
            for layer in model.layers
        ),
    )
    one, two = sequence(unbounded, n, dtype), sequence(unbounded, 2 * n, dtype)  # type: ignore[arg-type]
    assert two == 2 * one == 2 * n * per_token(unbounded, dtype)  # type: ignore[arg-type]
    assert sequence(model, n, dtype) <= one  # type: ignore[arg-type]


@given(st.integers(1, 8), st.integers(1, 64), st.integers(1, 128), st.sampled_from(PLAIN))
def test_as_many_kv_heads_as_heads_is_mha(n: int, heads: int, dim: int, dtype: str) -> None:
    grouped = per_token(specs.uniform(n, heads, 1, dim), dtype)
    full = per_token(specs.uniform(n, heads, heads, dim), dtype)
    assert full == heads * grouped


@given(st.integers(1, 500), st.integers(0, 500), st.integers(0, 5))
def test_a_window_as_wide_as_the_context_is_full_attention(
    window: int, tokens: int, local: int
) -> None:
    model = specs.uniform(5, 4, 2, 16)
    held = sequence(model, tokens, window=window, n_local_layers=local)
    assert (held == sequence(model, tokens)) == (tokens <= window or local == 0)


@given(models)
def test_half_the_width_is_half_the_bytes(model: ModelSpec) -> None:
    assert per_token(model, "fp32") == 2 * per_token(model, "bf16") == 4 * per_token(model, "fp8")


@given(models, dtypes)
def test_layers_add_up(model: ModelSpec, dtype: object) -> None:
    total = sum(
        per_token(model, dtype, scope="layer", layer=i)  # type: ignore[arg-type]
        for i in range(model.num_layers)
    )
    assert total == per_token(model, dtype)  # type: ignore[arg-type]


# What is refused


@pytest.mark.parametrize(
    ("dtype", "path"),
    [
        ("fp9", "dtype"),
        (8, "dtype"),
        (None, "dtype"),
        ({}, "dtype.format"),
        ({"format": "fp9"}, "dtype.format"),
        ({"format": 8}, "dtype.format"),
        ({"format": "fp8", "scales": "per_tensor"}, "dtype.scales"),
        ({"format": "fp8", "scale": "per_block"}, "dtype.scale"),
        ({"format": "fp8", "scale": "per_group"}, "dtype.group_size"),
        ({"format": "fp8", "scale": "per_token", "group_size": 8}, "dtype.group_size"),
        ({"format": "fp8", "scale": "per_token", "scale_bytes": 0}, "dtype.scale_bytes"),
        ({"format": "fp8", "scale_bytes": 2}, "dtype.scale_bytes"),
        ({"format": "bf16", "scale": "per_token"}, "dtype.scale"),
        ({"format": "q8_0", "scale": "per_token"}, "dtype.scale"),
        ({"format": "fp8", "layers": {"80": "bf16"}}, "dtype.layers"),
        ({"format": "fp8", "layers": {"3-1": "bf16"}}, "dtype.layers.3-1"),
        ({"format": "fp8", "layers": {"-1": "bf16"}}, "dtype.layers.-1"),
        ({"format": "fp8", "layers": {"1": "bf16", "0-2": "int8"}}, "dtype.layers.0-2"),
        ({"format": "fp8", "layers": {"1": 3}}, "dtype.layers.1"),
        ({"format": "fp8", "layers": "bf16"}, "dtype.layers"),
    ],
)
def test_a_format_that_means_nothing_is_refused_at_its_field(dtype: object, path: str) -> None:
    with pytest.raises(SizingError) as caught:
        kv.kv_bytes_per_token(specs.LLAMA_70B, dtype)  # type: ignore[arg-type]
    assert caught.value.path == path


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["format", "scale", "layers", "group_size", "value", "0", "1-2"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(anything, anything, anything, anything)
def test_no_input_is_worse_than_a_sizing_error(
    dtype: object, tokens: object, window: object, local: object
) -> None:
    for arguments in (
        {"tokens": 10, "dtype": dtype},
        {"tokens": tokens},
        {"tokens": 10, "window": window, "n_local_layers": local},
        {"tokens": 10, "scope": window, "tp": local},
    ):
        try:
            result = kv.kv_bytes_sequence(specs.LLAMA_70B, **arguments)  # type: ignore[arg-type]
        except SizingError as error:
            assert error.path
        else:
            assert isinstance(result.value, int)


def test_scales_have_a_meaning_each() -> None:
    assert set(scales.MEANING) == set(scales.KINDS) - {"none"}
