"""Weights as their checkpoints hold them: what a quantization_config says, in bytes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sizing import calls, catalog, gpus, stored, traffic, weight_shares, weights
from core.sizing.architectures import model_from_config
from core.sizing.deployment import Deployment
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec
from core.sizing.plan import plan
from core.sizing.plan_text import render
from tests.sizing import derivation

LLAMA = catalog.entries()["llama-3-8b"].config
MATRICES, TABLE, NORMS = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336), 128256 * 4096, 65


def llama(**quantised: Any) -> ModelSpec:
    """Llama 3 8B, published with this quantization_config."""
    return model_from_config({**copy.deepcopy(LLAMA), "quantization_config": quantised})


def size(model: ModelSpec, dtype: stored.WeightDtype = "checkpoint", **options: Any) -> int:
    result = weights.weight_bytes(model, dtype, **options)
    derivation.check(result)
    assert isinstance(result.value, int)
    return result.value


@pytest.mark.parametrize(
    ("name", "published"),
    [
        # Bytes of all tensors, as the index of the published files gives them.
        ("gpt-oss-120b", 65_248_815_744),
        ("gpt-oss-20b", 13_761_264_768),
    ],
)
def test_gpt_oss_is_as_large_as_its_files(name: str, published: int) -> None:
    """Experts' matrices in mxfp4; their biases, the router and all else in 16 bits."""
    assert size(catalog.get(name)) == published


GROUPED = {"bits": 4, "group_size": 128}
CASES: list[tuple[dict[str, Any], float, float]] = [
    ({"quant_method": "awq", "zero_point": True, **GROUPED}, 0.5, 2.5 / 128),
    ({"quant_method": "awq", "zero_point": False, **GROUPED}, 0.5, 2 / 128),
    ({"quant_method": "gptq", "sym": True, **GROUPED}, 0.5, 2.5 / 128),
    ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 1, 0),
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 1, 4 / 128**2),
    ({"quant_method": "fp8", "activation_scheme": "static"}, 1, 0),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 9 / 16, 0),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 0.5, 4 / 64),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 1, 0),
    (
        {
            "quant_method": "compressed-tensors",
            "config_groups": {
                "group_0": {
                    "targets": ["Linear"],
                    "weights": {
                        "num_bits": 4,
                        "type": "int",
                        "strategy": "group",
                        "group_size": 32,
                        "symmetric": True,
                    },
                }
            },
            "ignore": ["lm_head"],
        },
        0.5,
        2 / 32,
    ),
]


@pytest.mark.parametrize(("config", "each", "scales"), CASES, ids=lambda value: str(value)[:40])
def test_matrices_are_in_the_format_and_all_else_in_16_bits(
    config: dict[str, Any], each: float, scales: float
) -> None:
    rest = 2 * (2 * TABLE + NORMS * 4096)
    assert size(llama(**config)) == MATRICES * each + MATRICES * scales + rest


def test_an_awq_checkpoint_of_llama_3_8b_is_5_7_gb() -> None:
    model = llama(**{"quant_method": "awq", "zero_point": True, **GROUPED})
    assert round(size(model) / 1e9, 1) == 5.7
    # What is said beside it stands above what the config says.
    assert size(model, embedding_dtype="int4") < size(model) < size(model, group_size=32)
    assert size(model, "int4") == model.params // 2  # a format that is named is that of everything


PARTLY = [
    (["model.layers.*.self_attn"], "attention", False),
    (["re:.*self_attn.*"], "attention", False),
    ([f"model.layers.{i}.self_attn" for i in range(32)], "attention", False),
    ([f"model.layers.{i}.self_attn" for i in range(31)], "", True),
    (["model.layers.*.mlp"], "MLP", False),
    (["re:.*mlp\\.(gate|up|gate_up|down)_proj.*"], "MLP", False),
    (["model.layers.3.self_attn.q_proj"], "", True),
    (["model.embed_tokens", "lm_head", "vision_tower", 7, None], "", False),
    ("lm_head", "", False),
]


@pytest.mark.parametrize(("listed", "part", "said"), PARTLY, ids=str)
def test_parts_that_a_config_names_keep_16_bits(listed: object, part: str, said: bool) -> None:
    plain = llama(quant_method="fp8")
    model = llama(quant_method="fp8", modules_to_not_convert=listed)
    wide = sum(one.params - one.vectors for one in model.parts if one.name == part)
    assert size(model) == size(plain) + wide
    notes = weights.weight_bytes(model, "checkpoint").notes
    assert any("counted as quantised" in note for note in notes) == said


UNKNOWN = [
    {"quant_method": "quip"},
    {"quant_method": "awq", "bits": 3},
    {"quant_method": "awq", "bits": "4"},
    {"quant_method": "gptq", "bits": 4, "group_size": 0.5},
    {"quant_method": "fp8", "weight_block_size": [128]},
    {"quant_method": "fp8", "weight_block_size": "128"},
    {"quant_method": "compressed-tensors"},
    {"quant_method": "compressed-tensors", "config_groups": {"a": {}, "b": {}}},
    {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": []}}}},
    {"quant_method": "bitsandbytes"},
    {"quant_method": ["awq"]},
    {"bits": 4},
]


@pytest.mark.parametrize("config", UNKNOWN, ids=str)
def test_what_is_not_understood_is_said_and_sized_in_16_bits(config: dict[str, Any]) -> None:
    model = llama(**config)
    assert size(model) == 2 * model.params
    said = " ".join(weights.weight_bytes(model, "checkpoint").notes)
    assert "not understood here: name their format" in said


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(
    "quant_method bits group_size weight_block_size config_groups ignore modules_to_not_convert "
    "zero_point load_in_4bit quant_algo".split()
)
METHODS = st.sampled_from(["awq", "gptq", "fp8", "mxfp4", "compressed-tensors", "bitsandbytes"])


@given(METHODS, st.dictionaries(NAMES, JUNK, max_size=5))
def test_any_quantisation_is_read_or_said_not_to_be(method: str, rest: dict[str, Any]) -> None:
    model = llama(**{"quant_method": method, **rest})
    assert MATRICES // 2 < size(model) <= 2 * model.params + MATRICES


def test_a_plan_takes_the_checkpoints_formats_unless_it_is_told_others() -> None:
    h100 = gpus.get("h100-sxm5")
    model = catalog.get("gpt-oss-120b")
    made = plan(Deployment(model, h100))
    assert made.weights.value == made.weights_per_gpu.value == 65_248_815_744
    text = render(made, [])
    assert "weights mxfp4 and bf16," in text and "the published weights are quantised" in text
    assert "give their format" not in text
    told = plan(Deployment(model, h100, tp=4, weight_dtype="bf16"))
    assert told.weights.value == 2 * model.params
    assert "the format 'checkpoint' counts those" in render(told, [])
    parts = plan(Deployment(model, h100, weight_dtype="bf16", part_dtypes={"experts": "mxfp4"}))
    assert 0 < made.weights.value - parts.weights.value < 2e8  # biases of the experts in 16 bits
    assert plan(Deployment(catalog.get("llama-3-8b"), h100)).weights.value == 2 * 8_030_261_248


def test_int4_without_scales_says_so_where_it_is_read() -> None:
    """4.0 GB of numbers; what a real checkpoint has beside them is named in the plain text."""
    made = plan(Deployment(catalog.get("llama-3-8b"), gpus.get("h100-sxm5"), weight_dtype="int4"))
    text = render(made, [])
    assert made.weights.value == 4_015_130_624
    assert "without scales: give group_size" in text and "(embedding_dtype)" in text
    assert "without scales" not in render(
        plan(Deployment(catalog.get("llama-3-8b"), gpus.get("h100-sxm5"), weight_dtype="bf16")), []
    )


def test_a_step_reads_each_part_in_its_format() -> None:
    model = catalog.get("gpt-oss-120b")
    result = traffic.decode_weight_bytes(model, "checkpoint", batch=1)
    derivation.check(result)
    experts = next(part for part in model.parts if part.name == "experts")
    visited = experts.active - (experts.active - experts.matmul)
    others = model.active_params - visited
    assert result.value == visited // 32 * 17 + 2 * others
    whole = traffic.decode_weight_bytes(model, "checkpoint", batch=10**6).value
    assert abs(whole - 65_248_815_744) < 10


def test_formats_as_an_object() -> None:
    model = catalog.get("llama-3-8b")
    given = {"format": "int4", "parts": {"output head": "fp16"}, "vectors": "fp16"}
    scales = {"group_size": 128, "scale_bytes": 2, "zero_bytes": 0.5}
    assert size(model, {**given, **scales}) == 5_727_854_592
    answer = calls.call(
        "decode_step_time",
        {"model": "llama-3-8b", "gpu": "h100-sxm5", "weights": {**given, **scales}},
    )
    assert answer.value == pytest.approx(5_727_854_592 / 3.35e12, rel=1e-3)
    shared = weight_shares.weight_bytes_per_gpu(model, {**given, **scales}, tp=2)
    derivation.check(shared)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({}, "dtype.format"),
        ({"format": "int9"}, "dtype.format"),
        ({"format": "int4", "part": {}}, "dtype.part"),
        ({"format": "int4", "parts": {"heads": "bf16"}}, "dtype.parts.heads"),
        ({"format": "int4", "parts": 3}, "dtype.parts"),
        ({"format": "int4", "vectors": "x"}, "dtype.vectors"),
        ({"format": "bf16", "group_size": 128}, "dtype.group_size"),
        ({"format": "int4", "group_size": 0}, "dtype.group_size"),
        ({"format": "int4", "group_size": 8, "scale_bytes": 0}, "dtype.scale_bytes"),
        ({"format": "int4", "group_size": 8, "zero_bytes": "1"}, "dtype.zero_bytes"),
        (7, "dtype"),
    ],
    ids=str,
)
def test_a_bad_object_is_refused_at_its_field(given: Any, path: str) -> None:
    with pytest.raises(SizingError) as caught:
        weights.weight_bytes(catalog.get("llama-3-8b"), given)
    assert caught.value.path == path


def test_a_checkpoint_needs_a_model() -> None:
    with pytest.raises(SizingError, match="needs a model"):
        weights.weight_bytes(params=10, dtype="checkpoint")
