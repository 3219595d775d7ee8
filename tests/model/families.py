"""A tiny random checkpoint of every family and feature that is supported, made in milliseconds.

`FAMILIES`: name → function(directory) that writes config.json, model.safetensors and the tokenizer.
Realistic odd values: head_dim ≠ hidden_size / heads, three query heads per KV head, biases that are
not 0, norms that are not 1. All have a vocabulary of 320 and the tokenizer of `tiny_llama`.
"""

import functools
from pathlib import Path

import numpy as np
from tiny_llama import write_files

_BASE = {
    "bos_token_id": 1,
    "dtype": "float32",
    "eos_token_id": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "hidden_size": 48,
    "intermediate_size": 72,
    "max_position_embeddings": 512,
    "num_attention_heads": 6,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000.0,
    "tie_word_embeddings": False,
    "vocab_size": 320,
}
_LLAMA = {**_BASE, "architectures": ["LlamaForCausalLM"], "model_type": "llama"}
_MISTRAL = {**_BASE, "architectures": ["MistralForCausalLM"], "model_type": "mistral"}
_QWEN2 = {
    **_BASE,
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "tie_word_embeddings": True,
    "rms_norm_eps": 1e-6,
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 28,
}
_QWEN3 = {
    **_BASE,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "attention_bias": False,
    "rms_norm_eps": 1e-6,
}

CONFIGS = {
    "llama2-mha": {**_LLAMA, "num_key_value_heads": 6, "head_dim": None, "rope_theta": 10000.0},
    "llama-mqa-tied": {**_LLAMA, "num_key_value_heads": 1, "tie_word_embeddings": True},
    "llama-biases": {**_LLAMA, "attention_bias": True, "mlp_bias": True},
    "llama3.1": {
        **_LLAMA,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    },
    "llama-linear": {**_LLAMA, "rope_scaling": {"type": "linear", "factor": 2.5}},
    "llama-longrope": {
        **_LLAMA,
        "rope_scaling": {
            "rope_type": "longrope",
            "short_factor": [1.0, 1.1, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0],
            "long_factor": [1.0, 1.1, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0],
            "factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    },
    "mistral": {**_MISTRAL, "sliding_window": None},
    "mistral-window": {**_MISTRAL, "sliding_window": 8},
    "qwen2": _QWEN2,
    "qwen2-window": {
        **_QWEN2,
        "num_hidden_layers": 4,
        "use_sliding_window": True,
        "sliding_window": 8,
        "max_window_layers": 2,
    },
    "qwen2.5-yarn": {
        **_QWEN2,
        "rope_scaling": {
            "type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    },
    "qwen3": _QWEN3,
    "qwen3-biases-yarn": {
        **{k: v for k, v in _QWEN3.items() if k != "rope_theta"},
        "attention_bias": True,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1000.0,
            "factor": 3.0,
            "original_max_position_embeddings": 32,
            "beta_fast": 8.0,
            "beta_slow": 0.5,
            "mscale": 1.5,
            "mscale_all_dim": 0.5,
            "truncate": False,
        },
    },
    "qwen3-layer-types": {
        **_QWEN3,
        "use_sliding_window": True,
        "sliding_window": 5,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    },
}


def tensor_shapes(config):
    """name → shape of every tensor that a checkpoint of this configuration has."""
    h, m, n_q = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    d = config.get("head_dim") or h // n_q
    q, kv = n_q * d, config["num_key_value_heads"] * d
    kind = config["model_type"]
    qkv_bias = kind == "qwen2" or config.get("attention_bias", False)
    o_bias = kind != "qwen2" and config.get("attention_bias", False)
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], h), "model.norm.weight": (h,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], h)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        for name, n_out, n_in, bias in (
            ("self_attn.q_proj", q, h, qkv_bias),
            ("self_attn.k_proj", kv, h, qkv_bias),
            ("self_attn.v_proj", kv, h, qkv_bias),
            ("self_attn.o_proj", h, q, o_bias),
            ("mlp.gate_proj", m, h, config.get("mlp_bias", False)),
            ("mlp.up_proj", m, h, config.get("mlp_bias", False)),
            ("mlp.down_proj", h, m, config.get("mlp_bias", False)),
        ):
            shapes[f"{layer}.{name}.weight"] = (n_out, n_in)
            if bias:
                shapes[f"{layer}.{name}.bias"] = (n_out,)
        shapes[f"{layer}.input_layernorm.weight"] = (h,)
        shapes[f"{layer}.post_attention_layernorm.weight"] = (h,)
        if kind == "qwen3":
            shapes[f"{layer}.self_attn.q_norm.weight"] = (d,)
            shapes[f"{layer}.self_attn.k_norm.weight"] = (d,)
    return shapes


def random_tensors(config, seed=0):
    """name → float32 array, large enough that attention is far from uniform."""
    rng = np.random.default_rng(seed)
    out = {}
    for name, shape in tensor_shapes(config).items():
        norm = len(shape) == 1 and not name.endswith(".bias")
        scale = 0.2 if len(shape) == 2 else 0.3
        out[name] = (norm + scale * rng.standard_normal(shape)).astype(np.float32)
    return out


def write(config, directory, seed=0):
    """A whole checkpoint directory of a configuration."""
    return write_files(Path(directory), config, random_tensors(config, seed))


FAMILIES = {name: functools.partial(write, config) for name, config in CONFIGS.items()}
