"""Bytes of weights: exact, nominal, of mixed formats, on one GPU."""

import pytest

from core.sizing import catalog, layout, stored, weight_shares, weights
from core.sizing.errors import SizingError
from tests.sizing import derivation, specs


def size(*arguments: object, **options: object) -> int | float:
    result = weights.weight_bytes(*arguments, **options)  # type: ignore[arg-type]
    derivation.check(result)
    assert result.value is not None
    return result.value


def on_gpu(**options: object) -> int:
    result = weight_shares.weight_bytes_per_gpu(specs.LLAMA_70B, **options)  # type: ignore[arg-type]
    derivation.check(result)
    assert isinstance(result.value, int)
    return result.value


def test_exact_and_nominal_are_different_numbers() -> None:
    assert size(specs.LLAMA_70B) == 141_107_412_992
    assert size(specs.LLAMA_70B, count="nominal") == 140_000_000_000
    assert size(params=70e9, count="nominal", out="GiB") == pytest.approx(130.385160446167)


def test_a_four_bit_checkpoint_is_more_than_half_a_byte_per_parameter() -> None:
    tables = 2 * 128256 * 8192
    matrices = 70_553_706_496 - tables
    found = size(
        specs.LLAMA_70B,
        "int4",
        embedding_dtype="fp16",
        group_size=128,
        scale_bytes=2,
        zero_bytes=0.5,
    )
    groups = matrices // 128
    assert found == matrices // 2 + 2 * tables + groups * 5 // 2
    assert round(found / 1e9, 1) == 39.8


def test_block_formats_count_whole_blocks() -> None:
    assert size(params=100, dtype="q8_0") == 4 * 34
    assert size(params=70_553_706_496, dtype="q4_k") == 70_553_706_496 // 256 * 144


def test_weights_divide_over_the_gpus_of_a_replica() -> None:
    whole = 70_553_706_496
    assert on_gpu(dtype="fp8", tp=2) == whole // 2
    assert on_gpu(dtype="fp8", tp=2, pp=4) == whole // 8
    longest = on_gpu(dtype="fp8", pp=2, stages=[50, 30])
    assert longest == -(-whole * 50 // 80)


def test_projections_of_copied_heads_are_copied_too() -> None:
    even = -(-2 * 70_553_706_496 // 16)
    # Each of 16 GPUs holds one whole KV head where its even share were half of one.
    assert on_gpu(tp=16) == even + 80 * 8192 * 256 // 2 * 2
    assert on_gpu(tp=16, replicated_params=1000) == on_gpu(tp=16) + 2000


def test_parts_in_formats_of_their_own() -> None:
    # The published gpt-oss-120b holds its experts in mxfp4 and the rest in bf16: 65.2 GB.
    model = catalog.get("gpt-oss-120b")
    found = size(model, "bf16", part_dtypes={"experts": "mxfp4"})
    assert 65.0e9 < found < 65.4e9
    assert size(model, "bf16", part_dtypes={"experts": "bf16"}) == size(model, "bf16")
    with pytest.raises(SizingError, match="it has embedding, output head, attention") as caught:
        weights.weight_bytes(model, part_dtypes={"expert": "mxfp4"})
    assert caught.value.path == "part_dtypes.expert"


def test_data_parallel_attention_holds_its_weights_in_every_group() -> None:
    model = catalog.get("deepseek-v3")
    (attention,) = (part.params for part in model.parts if part.name == "attention")
    sliced = weight_shares.weight_bytes_per_gpu(model, "fp8", tp=8)
    whole = weight_shares.weight_bytes_per_gpu(model, "fp8", tp=8, attention_dp=8)
    derivation.check(whole)
    assert isinstance(sliced.value, int)
    assert whole.value == sliced.value + attention * 7 // 8


STAGES = [
    ("deepseek-v3", [3, 58]),
    ("deepseek-v3", [58, 3]),
    ("gemma-3-4b", [17, 17]),
    ("gemma-3-4b", [1] * 34),
    ("gpt-oss-20b", [10, 14]),
]


@pytest.mark.parametrize(("name", "stages"), STAGES, ids=lambda value: str(value)[:20])
def test_a_stage_holds_what_its_layers_have(name: str, stages: list[int]) -> None:
    """Counted again by hand: embedding first, head last, a tied table at both ends, and of a
    mixture whose first layers are dense the others hold nearly all."""
    model = catalog.get(name)
    held = []
    for i, size in enumerate(stages):
        start = sum(stages[:i])
        number = 0
        for part in model.parts:
            if part.name == "embedding and output head (tied)":
                number += part.params if i in (0, len(stages) - 1) else 0
            elif part.name == "embedding":
                number += part.params if i == 0 else 0
            elif part.name == "output head":
                number += part.params if i == len(stages) - 1 else 0
            elif part.name == "norms":
                each = (part.params - model.hidden_size) // model.num_layers
                number += each * size + (model.hidden_size if i == len(stages) - 1 else 0)
            elif part.name == "MLP" and name == "deepseek-v3":
                number += part.params // 3 * len({0, 1, 2} & set(range(start, start + size)))
            elif part.name in ("experts", "router") and name == "deepseek-v3":
                number += part.params // 58 * len(set(range(start, start + size)) - {0, 1, 2})
            else:
                number += part.params // model.num_layers * size
        held.append(number)
    result = weight_shares.weight_bytes_per_gpu(model, "bf16", pp=len(stages), stages=stages)
    derivation.check(result)
    assert result.value == 2 * max(held) and result.basis == "arithmetic"
    kept = stored.of("bf16")
    where = layout.of(1, len(stages), 1, 1, stages)
    assert model.params is not None
    assert weight_shares.per_stage(model, kept, where, model.params) == [2 * n for n in held]
    fp8 = weight_shares.weight_bytes_per_gpu(model, "fp8", tp=2, pp=len(stages), stages=stages)
    assert fp8.value == -(-max(held) // 2)


def test_stages_of_a_number_that_is_given_differ_by_their_layers_alone() -> None:
    model = catalog.get("deepseek-v3")
    result = weight_shares.weight_bytes_per_gpu(
        model, "fp8", params=671e9, pp=2, stages=[3, 58], attention_dp=2, tp=2
    )
    derivation.check(result)
    assert result.basis == "convention" and "taken as alike" in " ".join(result.notes)


@pytest.mark.parametrize("name", catalog.names())
def test_every_model_of_the_catalogue_has_a_weight(name: str) -> None:
    model = catalog.get(name)
    if model.params is None:
        with pytest.raises(SizingError, match="is not known"):
            weights.weight_bytes(model)
    else:
        assert size(model, "q8_0", embedding_dtype="fp16") < size(model, "fp16") == 2 * model.params
        derivation.check(weights.param_count(model, "matmul"))


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, "model"),
        ({"model": specs.DEEPSEEK_V3}, "count"),
        ({"model": specs.FALCON_7B, "count": "nominal"}, "count"),
        ({"model": specs.LLAMA_70B, "count": "about"}, "count"),
        ({"model": specs.LLAMA_70B, "out": "GiBs"}, "out"),
        ({"model": specs.LLAMA_70B, "dtype": "fp9"}, "dtype"),
        ({"params": 0}, "params"),
        ({"params": 1.5}, "params"),
        ({"params": float("nan")}, "params"),
        ({"params": 10, "embedding_dtype": "bf16"}, "embedding_dtype"),
        ({"params": 10, "dtype": "q8_0", "group_size": 128}, "group_size"),
        ({"params": 10, "dtype": "bf16", "group_size": 128}, "group_size"),
        ({"params": 10, "dtype": "int4", "group_size": 0}, "group_size"),
        ({"params": 10, "dtype": "int4", "group_size": 8, "scale_bytes": "2"}, "scale_bytes"),
        ({"params": 10, "dtype": "int4", "group_size": 8, "zero_bytes": -1}, "zero_bytes"),
    ],
)
def test_what_cannot_be_weighed_is_refused(options: dict[str, object], path: str) -> None:
    with pytest.raises(SizingError) as caught:
        weights.weight_bytes(**options)  # type: ignore[arg-type]
    assert caught.value.path == path


def test_parameter_counts_name_what_they_count() -> None:
    assert weights.param_count(specs.LLAMA_70B).value == 70_553_706_496
    assert weights.param_count(specs.LLAMA_70B, "matmul").value == 69_501_714_432
    with pytest.raises(SizingError, match="its nominal number can be used"):
        weights.param_count(specs.DEEPSEEK_V3)
