"""Other models, and fields that change mathematics, are refused by name and value."""

import families
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.model.config import ModelConfig
from core.model.errors import ModelConfigError, ModelError

LLAMA, MISTRAL = families.CONFIGS["llama2-mha"], families.CONFIGS["mistral"]
QWEN2, QWEN3 = families.CONFIGS["qwen2"], families.CONFIGS["qwen3"]


def rope(**parameters):
    return {"rope_scaling": parameters}


@pytest.mark.parametrize(
    ("model_type", "architecture"),
    [
        ("gemma", "GemmaForCausalLM"),
        ("gemma2", "Gemma2ForCausalLM"),
        ("phi3", "Phi3ForCausalLM"),
        ("mixtral", "MixtralForCausalLM"),
        ("qwen2_moe", "Qwen2MoeForCausalLM"),
        ("qwen3_moe", "Qwen3MoeForCausalLM"),
        ("qwen3_next", "Qwen3NextForCausalLM"),
        ("mllama", "MllamaForConditionalGeneration"),
        ("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration"),
        ("deepseek_v3", "DeepseekV3ForCausalLM"),
        ("ministral", "MinistralForCausalLM"),
        ("gpt2", "GPT2LMHeadModel"),
        ("llama", "LlamaForSequenceClassification"),
        ("qwen2", "Qwen2ForRewardModel"),
    ],
)
def test_other_models_are_named(model_type, architecture):
    raw = {**LLAMA, "model_type": model_type, "architectures": [architecture]}
    with pytest.raises(ModelConfigError, match=f"{model_type}.*{architecture}.*not supported"):
        ModelConfig.from_dict(raw)


@pytest.mark.parametrize("model_type", [None, 3, ["llama"], {}, True])
def test_a_model_type_that_is_no_name(model_type):
    with pytest.raises(ModelConfigError, match="model_type"):
        ModelConfig.from_dict({**LLAMA, "model_type": model_type})


@pytest.mark.parametrize(
    ("base", "change", "names"),
    [
        # RoPE
        (LLAMA, rope(rope_type="dynamic", factor=2.0), "dynamic.*longest text in the batch"),
        (LLAMA, rope(rope_type="su"), "rope_type 'su' is not known"),
        (LLAMA, rope(type="mrope", mrope_section=[1, 2]), "mrope"),
        (LLAMA, rope(rope_type=None), "rope_type None"),
        (LLAMA, rope(rope_type=["yarn"]), "rope_type"),
        (LLAMA, rope(rope_type="linear"), r"rope_scaling\.factor is missing"),
        (LLAMA, rope(rope_type="linear", factor="2"), r"factor.*'2'"),
        (LLAMA, rope(rope_type="linear", factor=0), "factor"),
        (LLAMA, rope(rope_type="linear", factor=float("nan")), "factor"),
        (LLAMA, rope(rope_type="linear", factor=True), "factor"),
        (
            LLAMA,
            rope(rope_type="llama3", factor=8, low_freq_factor=4, high_freq_factor=1),
            "high_freq_factor 1.0",
        ),
        (LLAMA, rope(rope_type="llama3", factor=8, low_freq_factor=1), "high_freq_factor is miss"),
        (
            LLAMA,
            rope(
                rope_type="llama3",
                factor=8,
                low_freq_factor=1,
                high_freq_factor=4,
                original_max_position_embeddings=-1,
            ),
            "original_max_position_embeddings",
        ),
        (QWEN2, rope(type="yarn", factor=4, original_max_position_embeddings=1.5), "1.5"),
        (QWEN2, rope(type="yarn"), "factor is missing"),
        (QWEN2, rope(type="yarn", factor=4, truncate="no"), "truncate"),
        (QWEN2, rope(type="yarn", factor=4, beta_fast=1, beta_slow=2), "beta_fast"),
        (QWEN2, rope(type="yarn", factor=4, attention_factor=-1), "attention_factor"),
        (QWEN2, {**rope(type="yarn", factor=4), "rope_theta": 1}, "rope_theta"),
        (
            LLAMA,
            rope(rope_type="longrope", short_factor=[1.0] * 4, long_factor=[2.0] * 4),
            "longrope.*cached",
        ),
        (LLAMA, rope(rope_type="longrope", short_factor=[1.0], long_factor=[1.0]), "4 numbers"),
        (LLAMA, rope(rope_type="longrope"), "short_factor"),
        (
            LLAMA,
            rope(rope_type="longrope", short_factor=[1, 1, 1, 0], long_factor=[1, 1, 1, 0]),
            "short_factor",
        ),
        (LLAMA, rope(rope_type="default", partial_rotary_factor=0.5), "partial_rotary_factor 0.5"),
        (QWEN2, {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}, "full_attention"),
        (LLAMA, {"rope_parameters": []}, "rope_parameters must be an object"),
        # windows
        (LLAMA, {"sliding_window": 8}, "sliding_window 8.*LlamaForCausalLM has no window"),
        (MISTRAL, {"sliding_window": 0}, "sliding_window is 0"),
        (MISTRAL, {"sliding_window": "wide"}, "sliding_window"),
        (MISTRAL, {"sliding_window": 10**30}, "sliding_window"),
        (
            MISTRAL,
            {"sliding_window": 8, "layer_types": ["full_attention"] * 3},
            "all layers of MistralForCausalLM are alike",
        ),
        (QWEN2, {"use_sliding_window": 1}, "use_sliding_window"),
        (QWEN2, {"use_sliding_window": True, "max_window_layers": -1}, "max_window_layers is -1"),
        (QWEN2, {"layer_types": ["full_attention"] * 2}, "layer_types must be a list of 3"),
        (QWEN2, {"layer_types": "full_attention"}, "layer_types"),
        (QWEN2, {"layer_types": ["full_attention", "sliding_attention", None]}, r"types\[1\]"),
        (QWEN2, {"layer_types": ["chunked_attention"] * 3}, "chunked_attention"),
        (QWEN3, {"layer_types": ["linear_attention"] * 3}, "linear_attention"),
        # what other architectures have
        (MISTRAL, {"attention_bias": True}, "attention_bias true: MistralForCausalLM"),
        (QWEN3, {"mlp_bias": True}, "mlp_bias true: Qwen3ForCausalLM"),
        (LLAMA, {"hidden_act": "gelu_pytorch_tanh"}, "hidden_act 'gelu_pytorch_tanh'"),
        (LLAMA, {"pretraining_tp": 2}, "pretraining_tp 2"),
        (QWEN2, {"quantization_config": {"quant_method": "gptq"}}, "quantization_config.*gptq"),
        (LLAMA, {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping 50.0"),
        (LLAMA, {"final_logit_softcapping": 30.0}, "final_logit_softcapping 30.0"),
        (LLAMA, {"num_local_experts": 8}, "num_local_experts 8"),
        (QWEN3, {"num_experts": 128}, "num_experts 128"),
        (LLAMA, {"is_causal": False}, "is_causal False"),
        (LLAMA, {"residual_multiplier": 0.22}, "residual_multiplier"),
        (QWEN2, {"vision_config": {}}, "vision_config"),
        (QWEN2, {"dual_chunk_attention_config": {"chunk_size": 8}}, "dual_chunk_attention_config"),
        (LLAMA, {"no_rope_layers": [1, 1, 0]}, "no_rope_layers"),
    ],
)
def test_refused_by_name_and_value(base, change, names):
    with pytest.raises(ModelConfigError, match=names):
        ModelConfig.from_dict({**base, **change})


FIELDS = sorted(
    set().union(*families.CONFIGS.values())
    | {"layer_types", "rope_parameters", "generation", "original_max_position_embeddings"}
)
ROPE_FIELDS = [
    *("factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "mscale"),
    *("mscale_all_dim", "attention_factor", "truncate", "original_max_position_embeddings"),
    *("short_factor", "long_factor", "rope_theta", "partial_rotary_factor"),
]
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, -1, 2**31, 10**400, 1e-300, 1e300, float("inf"), float("nan")])
    | st.floats()
    | st.text(max_size=5)
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
ropes = st.builds(
    lambda kind, values: {"rope_type": kind, "factor": 2.0, **values},
    st.sampled_from(["linear", "llama3", "yarn", "longrope", "dynamic", "default"]),
    st.dictionaries(st.sampled_from(ROPE_FIELDS), json_values, max_size=5),
)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(sorted(families.CONFIGS)),
    st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=3),
    st.none() | ropes,
)
def test_any_value_in_any_field_is_read_or_refused(name, changes, scaling):
    if scaling is not None:
        changes = {**changes, "rope_scaling": scaling}
    message = ""
    try:
        config = ModelConfig.from_dict({**families.CONFIGS[name], **changes})
        assert config.num_parameters > 0
        assert len(config.layer_windows) == config.num_hidden_layers
    except ModelError as error:
        message = str(error)
    assert len(message) < 500


@settings(max_examples=200, deadline=None)
@given(ropes)
def test_what_is_read_gives_frequencies(scaling):
    torch = pytest.importorskip("torch")
    from core.model.rope import inverse_frequencies

    raw = {**QWEN2, "rope_scaling": scaling}
    try:
        config = ModelConfig.from_dict(raw)
    except ModelError:
        return
    assert inverse_frequencies(config.rope, config.head_dim).dtype == torch.float32
