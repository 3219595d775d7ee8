"""`config.json`: what is read, and what is refused by name."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_llama import CONFIG

from core.model.config import ModelConfig
from core.model.errors import ModelConfigError, ModelError

# As published for the default model.
SMOLLM = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "rope_theta": 100000,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "vocab_size": 49152,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def test_derived_numbers():
    config = ModelConfig.from_dict(SMOLLM)
    assert config.head_dim == 64
    assert config.group_size == 3
    assert config.kv_bytes_per_token() == 23_040
    assert config.kv_bytes_per_token("float32") == 46_080
    assert config.kv_bytes_per_token("int8") == 11_520
    assert config.num_parameters == 134_515_008
    assert config.eos_token_ids == (2,)


def test_head_dim_of_the_config_wins_over_hidden_size_by_heads():
    assert ModelConfig.from_dict(CONFIG).head_dim == 16
    assert ModelConfig.from_dict({**CONFIG, "head_dim": None}).head_dim == 8


def test_defaults_and_other_spellings():
    raw = {k: v for k, v in SMOLLM.items() if k not in ("num_key_value_heads", "rope_theta")}
    config = ModelConfig.from_dict({**raw, "rope_parameters": {"rope_theta": 5e5}})
    assert config.num_key_value_heads == 9
    assert config.rope.theta == 5e5
    assert ModelConfig.from_dict({**SMOLLM, "eos_token_id": [2, 0]}).eos_token_ids == (2, 0)
    assert ModelConfig.from_dict({**SMOLLM, "eos_token_id": None}).eos_token_ids == ()


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"model_type": "qwen2"}, "qwen2"),
        ({"architectures": ["MistralForCausalLM"]}, "MistralForCausalLM"),
        ({"rope_scaling": 4}, "rope_scaling"),
        ({"attention_bias": "yes"}, "attention_bias"),
        ({"mlp_bias": 1}, "mlp_bias"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"sliding_window": 4096}, "sliding_window"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"torch_dtype": "float8"}, "dtype"),
        ({"num_key_value_heads": 4}, "num_key_value_heads"),
        ({"num_key_value_heads": 0}, "num_key_value_heads"),
        ({"hidden_size": 577}, "head_dim"),
        ({"head_dim": 63}, "odd"),
        ({"vocab_size": None}, "vocab_size is missing"),
        ({"vocab_size": "many"}, "vocab_size"),
        ({"vocab_size": True}, "vocab_size"),
        ({"num_hidden_layers": -1}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**30}, "num_hidden_layers"),
        ({"hidden_size": 1e9}, "hidden_size"),
        ({"rms_norm_eps": 0}, "rms_norm_eps"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps"),
        ({"rope_theta": -1}, "rope_theta"),
        ({"rope_theta": 10**400}, "rope_theta"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
        ({"eos_token_id": "</s>"}, "eos_token_id"),
        ({"eos_token_id": [-1]}, "eos_token_id"),
        ({"architectures": "LlamaForCausalLM"}, "architectures"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(change, names):
    with pytest.raises(ModelConfigError, match=names):
        ModelConfig.from_dict({**SMOLLM, **change})


# The fields that say what is computed, as published, and the number of parameters that is.
PUBLISHED = {
    "Llama-2-7b": (
        {
            "model_type": "llama",
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "max_position_embeddings": 4096,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 32,
            "pretraining_tp": 1,
            "rms_norm_eps": 1e-05,
            "rope_scaling": None,
            "vocab_size": 32000,
        },
        6_738_415_616,
    ),
    "Llama-3.2-1B": (
        {
            "model_type": "llama",
            "attention_bias": False,
            "eos_token_id": [128001, 128008, 128009],
            "head_dim": 64,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "max_position_embeddings": 131072,
            "mlp_bias": False,
            "num_attention_heads": 32,
            "num_hidden_layers": 16,
            "num_key_value_heads": 8,
            "rope_scaling": {
                "factor": 32.0,
                "high_freq_factor": 4.0,
                "low_freq_factor": 1.0,
                "original_max_position_embeddings": 8192,
                "rope_type": "llama3",
            },
            "rope_theta": 500000.0,
            "tie_word_embeddings": True,
            "vocab_size": 128256,
        },
        1_235_814_400,
    ),
    "Mistral-7B-v0.1": (
        {
            "model_type": "mistral",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "max_position_embeddings": 32768,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "rope_theta": 10000.0,
            "sliding_window": 4096,
            "tie_word_embeddings": False,
            "vocab_size": 32000,
        },
        7_241_732_096,
    ),
    "Qwen2.5-0.5B": (
        {
            "model_type": "qwen2",
            "hidden_size": 896,
            "intermediate_size": 4864,
            "max_position_embeddings": 32768,
            "max_window_layers": 24,
            "num_attention_heads": 14,
            "num_hidden_layers": 24,
            "num_key_value_heads": 2,
            "rms_norm_eps": 1e-06,
            "rope_theta": 1000000.0,
            "sliding_window": 32768,
            "tie_word_embeddings": True,
            "use_mrope": False,
            "use_sliding_window": False,
            "vocab_size": 151936,
        },
        494_032_768,
    ),
    "Qwen3-0.6B": (
        {
            "model_type": "qwen3",
            "attention_bias": False,
            "head_dim": 128,
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "max_position_embeddings": 40960,
            "max_window_layers": 28,
            "num_attention_heads": 16,
            "num_hidden_layers": 28,
            "num_key_value_heads": 8,
            "rope_scaling": None,
            "rope_theta": 1000000,
            "sliding_window": None,
            "tie_word_embeddings": True,
            "use_sliding_window": False,
            "vocab_size": 151936,
        },
        596_049_920,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models(name):
    raw, num_parameters = PUBLISHED[name]
    config = ModelConfig.from_dict({"hidden_act": "silu", "torch_dtype": "bfloat16", **raw})
    assert config.num_parameters == num_parameters
    assert config.kv_window == (4096 if name == "Mistral-7B-v0.1" else None)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b"[" * 100_000, b'{"a": ' * 50_000, b" " * 2**21],
    ids=["empty", "open", "list", "null", "binary", "deep list", "deep object", "huge"],
)
def test_garbage_is_one_clear_error(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ModelConfigError, match=r"config\.json"):
        ModelConfig.from_dir(tmp_path)


def test_no_file(tmp_path):
    with pytest.raises(ModelConfigError, match=r"config\.json cannot be read"):
        ModelConfig.from_dir(tmp_path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(SMOLLM)), json_values, max_size=3))
def test_any_value_in_any_field_is_read_or_refused(changes):
    message = ""
    try:
        assert ModelConfig.from_dict({**SMOLLM, **changes}).kv_bytes_per_token() > 0
    except ModelError as error:
        message = str(error)
    assert len(message) < 500


def test_generation_config_names_the_eos(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SMOLLM))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [2, 7]}')
    assert ModelConfig.from_dir(tmp_path).eos_token_ids == (2, 7)
