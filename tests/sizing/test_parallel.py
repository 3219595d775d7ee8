"""Over several GPUs: what is split, what is copied, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sizing import kv, kv_layers, layout, parallel
from core.sizing.errors import SizingError
from core.sizing.geometry import FixedState, KVHeads, Layer, ModelSpec, SharedKV
from tests.sizing import derivation, specs

POWERS = st.sampled_from([1, 2, 4, 8, 16, 32])


def per_gpu(model: ModelSpec, dtype: str = "bf16", **options: object) -> int:
    result = parallel.kv_bytes_per_token_per_gpu(model, dtype, **options)  # type: ignore[arg-type]
    derivation.check(result)
    assert isinstance(result.value, int)
    return result.value


def test_heads_divide_and_past_their_number_are_copied() -> None:
    assert [per_gpu(specs.LLAMA_70B, tp=tp) for tp in (1, 2, 4, 8, 16, 64)] == [
        327_680,
        163_840,
        81_920,
        40_960,
        40_960,
        40_960,
    ]
    factors = [parallel.kv_replication_factor(specs.LLAMA_70B, tp).value for tp in (1, 8, 16, 64)]
    assert factors == [1.0, 1.0, 2.0, 8.0]
    note = parallel.kv_replication_factor(specs.LLAMA_70B, 16).notes[0]
    assert note == "8 KV heads over 16 GPUs: each head is kept 2 times"


def test_one_kv_head_is_copied_from_the_start() -> None:
    result = parallel.kv_bytes_per_token_per_gpu(specs.FALCON_7B, tp=2)
    assert result.value == 8192
    assert (
        result.notes[-1] == "71 query heads do not divide over 2 GPUs: an engine refuses this split"
    )
    with pytest.raises(SizingError, match="71 query heads do not divide over 2 GPUs; 1 would"):
        layout.check(specs.FALCON_7B, layout.of(tp=2))


def test_a_latent_is_kept_whole_unless_attention_is_data_parallel() -> None:
    model = specs.DEEPSEEK_V3
    assert per_gpu(model, tp=8) == per_gpu(model) == 70_272
    assert parallel.kv_replication_factor(model, 8).value == 8.0
    # Each group of tp / attention_dp GPUs serves requests of its own.
    assert parallel.kv_replication_factor(model, 8, attention_dp=8).value == 1.0
    assert parallel.kv_replication_factor(model, 8, attention_dp=2).value == 4.0
    assert per_gpu(specs.LLAMA_70B, tp=8, attention_dp=4) == 163_840


def test_stages_keep_their_own_layers() -> None:
    assert per_gpu(specs.LLAMA_70B, tp=2, pp=4) == 327_680 // 8
    # 62 layers over two stages: local and global ones, the stage that keeps most is the answer.
    halves = kv_layers.of_stages(specs.GEMMA_3_27B, kv.kv_format.of("bf16"), layout.of(pp=2))
    assert [kv_layers.per_sequence(rows, 8192) for rows in halves] == [
        8192 * (26 * 1024 + 5 * 8192)
    ] * 2
    assert per_gpu(specs.DEEPSEEK_V3, pp=2, stages=[31, 30]) == 31 * 1152


@pytest.mark.parametrize(
    ("model", "options", "path", "words"),
    [
        (specs.LLAMA_70B, {"tp": 3}, "tp", "8 KV heads do not divide over 3 GPUs"),
        (specs.LLAMA_70B, {"tp": 12}, "tp", "nor 12 GPUs over 8 heads"),
        (specs.DEEPSEEK_V3, {"pp": 2}, "pp", "61 layers do not divide over 2 stages"),
        (specs.LLAMA_70B, {"pp": 81}, "pp", "81 stages are more than the 80 layers"),
        (specs.LLAMA_70B, {"pp": 2, "stages": [40, 41]}, "stages", "adds up to 81 layers"),
        (specs.LLAMA_70B, {"pp": 2, "stages": [80]}, "stages", "names 1 stages, but pp is 2"),
        (specs.LLAMA_70B, {"pp": 2, "stages": [80, 0]}, "stages[1]", "at least 1"),
        (specs.LLAMA_70B, {"tp": 4, "attention_dp": 3}, "attention_dp", "do not divide tp 4"),
        (specs.LLAMA_70B, {"tp": 0}, "tp", "must be"),
        (specs.LLAMA_70B, {"tp": "2"}, "tp", "must be a whole number"),
        (specs.LLAMA_70B, {"tp": True}, "tp", "must be a whole number"),
        (specs.LLAMA_70B, {"pp": 2, "stages": "ab"}, "stages", "must be a list"),
    ],
)
def test_what_does_not_divide_is_refused_with_the_numbers(
    model: ModelSpec, options: dict[str, object], path: str, words: str
) -> None:
    with pytest.raises(SizingError, match=words.replace("[", r"\[")) as caught:
        parallel.kv_bytes_per_token_per_gpu(model, **options)  # type: ignore[arg-type]
    assert caught.value.path == path


def test_a_stage_cannot_read_keys_of_another() -> None:
    model = specs.model(*[specs.attention(4, 4, 8)] * 3, Layer(SharedKV(0)))
    assert per_gpu(model, pp=1) == 3 * 128
    with pytest.raises(SizingError, match="layer 3 reads the keys and values of layer 0"):
        parallel.kv_bytes_per_token_per_gpu(model, pp=2)


def test_a_fixed_state_divides_or_is_refused() -> None:
    model = specs.model(specs.stateful(FixedState("state_space", (("state", 96, 4),))))
    assert kv.fixed_state_bytes(model, scope="gpu", tp=8).value == 48
    with pytest.raises(SizingError, match="96 numbers of state_space state"):
        kv.fixed_state_bytes(model, scope="gpu", tp=64)


@given(POWERS, POWERS, st.sampled_from(["bf16", "int8", "int4"]))
def test_as_many_gpus_as_kv_heads_copy_nothing(heads: int, tp: int, dtype: str) -> None:
    model = specs.uniform(4, 32, heads, 16)
    whole, one = kv.kv_bytes_per_token(model, dtype).value, per_gpu(model, dtype, tp=tp)
    assert isinstance(whole, int)
    factor = parallel.kv_replication_factor(model, tp).value
    assert factor == max(1, tp / heads)
    assert one * tp == whole * factor


@given(
    st.lists(
        st.builds(specs.attention, st.just(8), st.sampled_from([1, 2, 4, 8]), st.integers(1, 64)),
        min_size=2,
        max_size=8,
    ),
    POWERS,
    st.data(),
)
def test_gpus_together_keep_at_least_the_whole(
    layers: list[Layer], tp: int, data: st.DataObject
) -> None:
    model = specs.model(*layers)
    cut = data.draw(st.integers(1, len(layers) - 1))
    where = layout.of(tp=tp, pp=2, stages=[cut, len(layers) - cut])
    fmt = kv.kv_format.of("bf16")
    stages = kv_layers.of_stages(model, fmt, where)
    held = sum(tp * kv_layers.per_token(rows) for rows in stages)
    whole = kv_layers.per_token(kv_layers.of_model(model, fmt))
    assert held >= whole
    copied = any(
        isinstance(layer.cache, KVHeads) and layer.cache.num_kv_heads < tp for layer in layers
    )
    assert (held > whole) == copied
