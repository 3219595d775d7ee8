"""What is not understood is named or refused; what contradicts itself is refused, with its path."""

from __future__ import annotations

import copy
import dataclasses

import pytest

from core.sizing import catalog
from core.sizing.architectures import BUILDERS, fields, model_from_config, supported
from core.sizing.architectures.families import FAMILIES
from core.sizing.errors import SizingError
from tests.sizing.test_geometry import LLAMA

ENTRIES = catalog.entries()


def entry(name, **changes):
    config = copy.deepcopy(ENTRIES[name].config)
    return {**config, **changes}


def refused(config):
    with pytest.raises(SizingError) as caught:
        model_from_config(config)
    assert "\n" not in caught.value.message and caught.value.message
    return caught.value.path


MISSING = ["num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size"]


@pytest.mark.parametrize("name", [*MISSING, "intermediate_size", "model_type"])
def test_a_missing_field_is_named(name):
    assert refused({key: value for key, value in LLAMA.items() if key != name}) == f"config.{name}"


def test_inside_another_object_the_path_says_so():
    text = {**LLAMA, "num_attention_heads": "32"}
    path = refused({"model_type": "llava", "text_config": text})
    assert path == "config.text_config.num_attention_heads"


CONTRADICTIONS = [
    (LLAMA, {"num_key_value_heads": 5}, "num_key_value_heads"),
    (LLAMA, {"num_key_value_heads": 64}, "num_key_value_heads"),
    (LLAMA, {"num_attention_heads": 33, "num_key_value_heads": 33}, "head_dim"),
    (LLAMA, {"n_layer": 12, "num_hidden_layers": 32}, "n_layer"),
    (LLAMA, {"layer_types": ["full_attention"] * 31}, "layer_types"),
    (LLAMA, {"layer_types": ["full_attention"] * 31 + ["magic"]}, "layer_types[31]"),
    (LLAMA, {"layer_types": ["full_attention"] * 31 + [7]}, "layer_types[31]"),
    (LLAMA, {"layer_types": ["sliding_attention"] * 32}, "sliding_window"),
    (LLAMA, {"layer_types": ["linear_attention"] * 32}, "layer_types"),
    (LLAMA, {"layer_types": ["hybrid"] * 32}, "layer_types"),
    (
        entry("gemma-2-9b"),
        {"layer_types": ["full_attention"] * 42, "sliding_window_pattern": 2},
        "layer_types[0]",
    ),
    (entry("qwen3-8b"), {"layer_types": ["sliding_attention"] * 36}, "layer_types[0]"),
    (entry("gemma-2-9b"), {"sliding_window_pattern": "LX"}, "sliding_window_pattern"),
    (entry("mixtral-8x7b"), {"num_experts_per_tok": 9}, "num_experts_per_tok"),
    (entry("deepseek-v3"), {"qk_head_dim": 128}, "qk_head_dim"),
    (entry("deepseek-v3"), {"num_experts_per_tok": 257}, "num_experts_per_tok"),
    (entry("deepseek-v3"), {"moe_layer_freq": [1] * 60}, "moe_layer_freq"),
    (entry("falcon-40b"), {"num_kv_heads": 7}, "num_kv_heads"),
    (entry("gpt-3-175b"), {"n_head": 7}, "head_dim"),
    (entry("dbrx"), {"attn_config": {"kv_n_heads": 7}}, "attn_config.kv_n_heads"),
    (entry("dbrx"), {"attn_config": None}, "attn_config"),
    (entry("dbrx"), {"num_key_value_heads": 4}, "attn_config.kv_n_heads"),
    (
        entry("kimi-linear-48b-a3b"),
        {"num_hidden_layers": 26},
        "linear_attn_config.full_attn_layers",
    ),
    (
        entry("nemotron-3-nano-30b-a3b"),
        {"hybrid_override_pattern": "M*X"},
        "hybrid_override_pattern",
    ),
    (entry("nemotron-3-nano-30b-a3b"), {"num_hidden_layers": 51}, "num_hidden_layers"),
    (entry("falcon-h1-7b"), {"mamba_d_head": 64}, "mamba_d_head"),
    (entry("falcon-h1-7b"), {"mamba_d_ssm": 3073}, ""),
    (entry("jamba-1.5-mini"), {"attn_layer_offset": 8}, "attn_layer_offset"),
    (entry("openelm-1.1b"), {"num_kv_heads": [3] * 28}, "num_kv_heads[0]"),
    (entry("openelm-1.1b"), {"num_kv_heads": [4] * 27}, "num_kv_heads"),
    (entry("mamba-2.8b"), {"d_model": 2048}, "d_model"),
    (entry("minimax-text-01"), {"attn_type_list": [1] * 79}, "attn_type_list"),
]


@pytest.mark.parametrize(("config", "changes", "path"), CONTRADICTIONS)
def test_contradictions_are_refused_at_the_field(config, changes, path):
    assert refused({**config, **changes}) == (f"config.{path}" if path else "config")


def test_contradictions_inside_a_nested_config():
    config = entry("gemma-3n-e4b")
    config["text_config"]["num_kv_shared_layers"] = 35
    assert refused(config) == "config.text_config.num_kv_shared_layers"
    config["text_config"]["num_kv_shared_layers"] = 31  # no full layer is left to share from
    assert refused(config) == "config.text_config.num_kv_shared_layers"


WRONG = [True, "8", -1, 0, 2.5, float("nan"), float("inf"), [], {}, [8], 10**30, 1 << 40]


@pytest.mark.parametrize("value", WRONG, ids=str)
@pytest.mark.parametrize("name", ["num_hidden_layers", "num_attention_heads", "hidden_size"])
def test_wrong_numbers_are_refused(name, value):
    assert refused({**LLAMA, name: value}) == f"config.{name}"


@pytest.mark.parametrize("value", ["yes", 1, 0, [True]])
def test_wrong_flags_are_refused(value):
    assert refused({**LLAMA, "attention_bias": value}) == "config.attention_bias"


@pytest.mark.parametrize("config", [None, [], "llama", 7, {1: 2}, {}])
def test_what_is_no_config_is_refused(config):
    assert refused(config).startswith("config")


@pytest.mark.parametrize("kind", [7, [], "", None, {"a": 1}])
def test_a_model_type_that_is_no_word_is_refused(kind):
    assert refused({**LLAMA, "model_type": kind}) == "config.model_type"


# What is not known


def test_an_unknown_field_is_named_not_guessed_over():
    spec = model_from_config({**LLAMA, "kv_compression_rate": 4, "rope_theta": 1e6})
    assert len(spec.warnings) == 1
    assert spec.warnings[0].startswith("config.kv_compression_rate is not known here")
    assert model_from_config({**LLAMA, "kv_compression_rate": None}).warnings == ()


def test_an_unknown_architecture_of_plain_shape_is_sized_and_named():
    spec = model_from_config({**LLAMA, "model_type": "newcomer"})
    assert spec.layers == model_from_config(LLAMA).layers
    assert spec.params is None and "newcomer" in spec.params_note
    assert spec.parts == ()
    assert any("'newcomer' is not known here" in warning for warning in spec.warnings)


@pytest.mark.parametrize(
    "name", ["cross_attention_layers", "num_state_heads", "kv_share_every", "ssm_state_size"]
)
def test_an_unknown_architecture_with_strange_shapes_is_refused(name):
    assert refused({**LLAMA, "model_type": "newcomer", name: 4}) == f"config.{name}"


def test_an_unknown_architecture_with_latents_or_windows():
    latent = {"kv_lora_rank": 64, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "v_head_dim": 32}
    spec = model_from_config({**LLAMA, "model_type": "newcomer", **latent})
    assert spec.fields["d_latent"] == 64 and spec.params is None
    spec = model_from_config({**LLAMA, "model_type": "newcomer", "sliding_window": 99})
    assert any("upper bound" in warning for warning in spec.warnings)
    assert {layer.cache.window for layer in spec.layers} == {None}
    kinds = ["sliding_attention", "full_attention"] * 16
    spec = model_from_config(
        {**LLAMA, "model_type": "newcomer", "sliding_window": 99, "layer_types": kinds}
    )
    assert [layer.cache.window for layer in spec.layers] == [99, None] * 16


def test_an_unknown_architecture_with_states_is_refused():
    kinds = ["linear_attention", "full_attention"] * 16
    path = refused({**LLAMA, "model_type": "newcomer", "layer_types": kinds})
    assert path == "config.layer_types[0]"


def test_what_generates_no_text_is_refused():
    masked = {**LLAMA, "model_type": "newcomer", "architectures": ["NewForMaskedLM"]}
    assert refused(masked) == "config.architectures"
    assert refused({**LLAMA, "model_type": "bert"}) == "config.model_type"
    assert model_from_config({**LLAMA, "model_type": "bert", "is_decoder": True}).layers
    assert refused({**LLAMA, "model_type": "whisper"}) == "config.model_type"
    assert refused({**LLAMA, "model_type": "newcomer", "is_encoder_decoder": True}) == (
        "config.is_encoder_decoder"
    )


@pytest.mark.parametrize("kind", ["LLAMA ", "Llama", "qwen-3", "minimax_M1", "DeepSeek_V3"])
def test_a_misspelled_architecture_is_not_taken_for_a_new_one(kind):
    with pytest.raises(SizingError, match="is not spelled as in any config; '") as caught:
        model_from_config({**LLAMA, "model_type": kind})
    assert caught.value.path == "config.model_type"


def test_a_refusal_of_a_known_architecture_says_why():
    text = {**LLAMA, "model_type": "mllama_text_model", "cross_attention_layers": [3, 8]}
    config = {"model_type": "mllama", "text_config": text}
    with pytest.raises(SizingError, match="keys and values of the images") as caught:
        model_from_config(config)
    assert caught.value.path == "config.text_config.model_type"
    first = {"model_type": "chatglm", "num_layers": 28, "position_encoding_2d": True}
    with pytest.raises(SizingError, match="of the first ChatGLM"):
        model_from_config(first)


MPT = {"model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 32, "vocab_size": 50432}


def test_kv_heads_that_contradict_the_kind_of_attention_are_refused():
    assert refused({**MPT, "attn_config": {"kv_n_heads": 8}}) == "config.attn_config.kv_n_heads"
    assert model_from_config({**MPT, "attn_config": {"kv_n_heads": 32}}).warnings == ()


def test_unknown_fields_of_an_inner_object_are_named():
    spec = model_from_config({**MPT, "attn_config": {"qk_ln": True, "attn_pdrop": 0.1}})
    assert spec.warnings == (
        "config.attn_config.qk_ln is not known here and was not taken into account",
    )


def test_a_cache_of_a_kind_that_is_not_modelled_is_refused():
    """DeepSeek-V4 keeps one entry for every 4 or 128 tokens."""
    deepseek = {**LLAMA, "model_type": "deepseek_v4"}
    kinds = ["compressed_sparse_attention", "sliding_attention"] * 16
    assert refused({**deepseek, "layer_types": kinds}) == "config.layer_types[0]"
    assert refused({**deepseek, "compress_ratios": [4, 0] * 16}) == "config.compress_ratios"


def test_experts_that_differ_by_layer_are_refused():
    config = entry("hunyuan-large", moe_topk=[1] * 63 + [2])
    assert refused(config) == "config.moe_topk"


def test_one_number_for_all_layers_may_be_given_in_both_ways():
    same = entry("hunyuan-large", moe_topk=[1] * 64, num_experts_per_tok=1)
    assert model_from_config(same).params == catalog.get("hunyuan-large").params
    other = entry("hunyuan-large", moe_topk=[1] * 64, num_experts_per_tok=2)
    assert refused(other) in ("config.moe_topk[0]", "config.num_experts_per_tok")


def test_an_outer_size_that_differs_is_named():
    spec = model_from_config({"model_type": "llava", "vocab_size": 9, "text_config": LLAMA})
    assert any(warning.startswith("config.vocab_size says 9") for warning in spec.warnings)


# The data behind it


@pytest.mark.parametrize("name", catalog.names())
def test_harmless_fields_are_harmless(name):
    """Without them the same layers and parameters come out."""

    def bare(config):
        kept = {k: v for k, v in config.items() if k not in fields.harmless() or k == "model_type"}
        return {k: bare(v) if k == "text_config" else v for k, v in kept.items()}

    spec = model_from_config(bare(ENTRIES[name].config))
    assert (spec.layers, spec.params) == (catalog.get(name).layers, catalog.get(name).params)


def test_defaults_are_those_of_the_published_classes():
    pytest.importorskip("transformers")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    table = fields.architectures()["defaults"]
    for kind in supported():
        if kind not in CONFIG_MAPPING:
            continue
        theirs = {field.name: field.default for field in dataclasses.fields(CONFIG_MAPPING[kind])}
        for name, value in table[kind].items():
            found = theirs[name]
            assert (list(found) if isinstance(found, tuple) else found) == value, (kind, name)
        for name in ("num_key_value_heads", "head_dim", "sliding_window", "tie_word_embeddings"):
            if theirs.get(name) is not None:
                assert table[kind][name] == theirs[name], (kind, name)


def test_no_kind_is_built_in_two_ways_unawares():
    both = FAMILIES.keys() & BUILDERS.keys()
    assert both == {"opt", "mpt"}  # whose builders start from the table


def test_a_switch_that_is_off_is_not_passed_over_in_a_newcomer():
    """What it switches may be on elsewhere, by a rule of the architecture."""
    path = refused({**LLAMA, "model_type": "newcomer", "attention_k_eq_v": False})
    assert path == "config.attention_k_eq_v"
    assert model_from_config({**LLAMA, "model_type": "newcomer", "attention_k_eq_v": None}).layers
