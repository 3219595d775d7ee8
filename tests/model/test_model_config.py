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
