"""Which tensors a checkpoint of a configuration has, and their shapes. No torch."""

from __future__ import annotations

from core.model.config import ModelConfig


def tensor_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name → shape, in transformers' names; `lm_head.weight` only if it is not the embeddings."""
    h, m, d = config.hidden_size, config.intermediate_size, config.head_dim
    q_rows, kv_rows = config.num_attention_heads * d, config.num_key_value_heads * d
    maps = (
        ("self_attn.q_proj", (q_rows, h), config.qkv_bias),
        ("self_attn.k_proj", (kv_rows, h), config.qkv_bias),
        ("self_attn.v_proj", (kv_rows, h), config.qkv_bias),
        ("self_attn.o_proj", (h, q_rows), config.o_bias),
        ("mlp.gate_proj", (m, h), config.mlp_bias),
        ("mlp.up_proj", (m, h), config.mlp_bias),
        ("mlp.down_proj", (h, m), config.mlp_bias),
    )
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (h,),
        "post_attention_layernorm.weight": (h,),
    }
    for name, shape, has_bias in maps:
        layer[f"{name}.weight"] = shape
        if has_bias:
            layer[f"{name}.bias"] = shape[:1]
    if config.qk_norm:
        layer |= {"self_attn.q_norm.weight": (d,), "self_attn.k_norm.weight": (d,)}
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config.vocab_size, h)}
    for index in range(config.num_hidden_layers):
        shapes |= {f"model.layers.{index}.{name}": shape for name, shape in layer.items()}
    shapes["model.norm.weight"] = (h,)
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, h)
    return shapes
