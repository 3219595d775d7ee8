"""A tiny configuration of every architecture that both `transformers` and the sizing know.

Sizes are small, uneven and mostly different, so that a width taken for another shows.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

SIZES: dict[str, Any] = {
    "vocab_size": 320,
    "hidden_size": 96,
    "intermediate_size": 144,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    # experts
    "moe_intermediate_size": 40,
    "num_experts": 8,
    "num_local_experts": 8,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "shared_expert_intermediate_size": 56,
    "shared_intermediate_size": 56,
    "n_shared_experts": 2,
    "num_shared_experts": 2,
    "moe_num_experts": 8,
    "moe_k": 2,
    "moe_num_shared_experts": 2,
    "moe_layer_end_index": 5,
    "first_k_dense_replace": 2,
    "num_dense_layers": 2,
    "intermediate_size_mlp": 136,
    "interleave_moe_layer_step": 2,
    "n_group": 1,
    "topk_group": 1,
    # windows
    "sliding_window": 8,
    "attention_chunk_size": 8,
    "attention_window_size": 8,
    # latents and indexers
    "q_lora_rank": 28,
    "kv_lora_rank": 20,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
    "index_head_dim": 24,
    "index_n_heads": 3,
    "index_topk": 64,
    # linear attention, state spaces, convolutions
    "linear_key_head_dim": 12,
    "linear_value_head_dim": 20,
    "linear_num_key_heads": 3,
    "linear_num_value_heads": 6,
    "linear_num_heads": 3,
    "linear_head_dim": 12,
    "layer_group_size": 3,
    "attn_layer_period": 3,
    "attn_layer_offset": 1,
    "attn_layer_indices": [1, 4],
    "full_attn_idxs": [2, 5],
    "mamba_n_heads": 6,
    "mamba_d_head": 32,
    "mamba_d_state": 10,
    "mamba_n_groups": 2,
    "mamba_num_heads": 6,
    "mamba_head_dim": 20,
    "ssm_state_size": 10,
    "n_groups": 2,
    "state_size": 10,
}
"""Taken wherever the configuration class has a field of the name."""

_LATENT = {"num_key_value_heads": 12}
_GPT = {"n_embd": 96, "n_layer": 4, "n_head": 12, "n_positions": 512}
_SHARED = {
    "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 12,
    "vocab_size_per_layer_input": 310,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
}

OWN: dict[str, dict[str, Any]] = {
    "bailing_hybrid": _LATENT,
    "bloom": {"hidden_size": 96, "n_layer": 4, "n_head": 12},
    "codegen": {**_GPT, "rotary_dim": 4},
    "dbrx": {
        "d_model": 96,
        "n_heads": 12,
        "n_layers": 4,
        "max_seq_len": 512,
        "attn_config": {"kv_n_heads": 4, "rope_theta": 1e4, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": 40, "moe_num_experts": 8, "moe_top_k": 2},
    },
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "deepseek_v32": _LATENT,
    "falcon": {"num_kv_heads": 4},
    "falcon_h1": {"mamba_d_ssm": 192},
    "gemma3n_text": {**_SHARED, "laurel_rank": 7, "activation_sparsity_pattern": [0.0] * 6},
    "gemma4_text": {
        **_SHARED,
        "attention_k_eq_v": True,
        "num_global_key_value_heads": 2,
        "global_head_dim": 32,
        "enable_moe_block": True,
        "top_k_experts": 2,
        "use_double_wide_mlp": True,
    },
    "glm4_moe_lite": _LATENT,
    "glm_moe_dsa": {
        **_LATENT,
        "indexer_types": ["full", "full", "shared", "full", "shared", "shared"],
    },
    "gpt2": _GPT,
    "gpt_bigcode": _GPT,
    "gpt_neo": {
        "num_layers": 4,
        "num_heads": 12,
        "attention_types": [[["global", "local"], 2]],
        "window_size": 8,
    },
    "gptj": {**_GPT, "rotary_dim": 4},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 3},
    "helium": {"head_dim": 8},
    "kimi_linear": _LATENT,
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 3},
    "longcat_flash": {
        "num_layers": 3,
        "num_key_value_heads": 12,
        "head_dim": 8,
        "moe_topk": 3,
        "zero_expert_num": 0,
        "ffn_hidden_size": 144,
        "expert_ffn_hidden_size": 40,
    },
    "mamba2": {"num_heads": 6, "head_dim": 32},
    "mimo_v2_flash": {"num_key_value_heads": 2},
    "minicpm3": _LATENT,
    "mpt": {"d_model": 96, "n_heads": 12, "n_layers": 4, "max_seq_len": 512},
    "nemotron_h": {
        "layers_block_type": ["mamba", "moe", "attention", "mlp", "mamba", "moe"],
        "moe_shared_expert_intermediate_size": 52,
    },
    "opt": {"ffn_dim": 144, "word_embed_proj_dim": 48, "do_layer_norm_before": False},
    "xglm": {"d_model": 96, "ffn_dim": 144, "num_layers": 4, "attention_heads": 12},
    "youtu": _LATENT,
    "zamba": {"num_hidden_layers": 8, "num_key_value_heads": 12, "n_mamba_heads": 2},
    "zamba2": {
        "layers_block_type": ["mamba", "hybrid"] * 3,
        "num_key_value_heads": 12,
        "n_mamba_heads": 6,
        "mamba_ngroups": 2,
        "num_mem_blocks": 2,
        "adapter_rank": 9,
        "use_shared_attention_adapter": True,
    },
}
"""What an architecture needs beside, or under another name."""


def known() -> list[str]:
    """Every `model_type` that both know."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    from core.sizing.architectures import supported

    return [kind for kind in supported() if kind in CONFIG_MAPPING]


def fields_of(kind: str, **more: Any) -> dict[str, Any]:
    """The arguments of the tiny configuration."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    names = {field.name for field in dataclasses.fields(CONFIG_MAPPING[kind])}
    shared = {name: value for name, value in SIZES.items() if name in names}
    return {**shared, **OWN.get(kind, {}), **more}


def config_of(kind: str, **more: Any) -> Any:
    """The `transformers` configuration object."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return CONFIG_MAPPING[kind](**fields_of(kind, **more))


def as_published(config: Any) -> dict[str, Any]:
    """What `save_pretrained` writes: the parsed config.json."""
    out: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    return out


def empty_model(config: Any) -> Any:
    """The model without memory for its weights."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)
