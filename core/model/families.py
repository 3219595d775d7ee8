"""The model families that are run, and everything that is refused because it is another.

They differ in little: which maps have a bias, whether queries and keys are normalised per head,
which layers see a window only, and what an absent field means. Source of all four: their
`configuration_*.py` and `modeling_*.py` in transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.model.config_fields import flag, short, size
from core.model.errors import ModelConfigError


@dataclass(frozen=True, slots=True)
class Family:
    """architecture: the name under `architectures`. defaults: what absent fields stand for.

    attention_bias: (q, k, v have a bias, o has one); None: as the field `attention_bias` says, all
    four or none. mlp_bias: whether the field `mlp_bias` counts. qk_norm: RMSNorm of every query and
    key head. windows: how a window is described: "none", "all" (of every layer, by `sliding_window`
    alone) or "switched" (`use_sliding_window`, from layer `max_window_layers` on).
    """

    architecture: str
    attention_bias: tuple[bool, bool] | None
    mlp_bias: bool
    qk_norm: bool
    windows: str
    defaults: Mapping[str, int] = field(default_factory=dict)


FAMILIES = {
    "llama": Family(
        "LlamaForCausalLM", None, True, False, "none", {"bos_token_id": 1, "eos_token_id": 2}
    ),
    "mistral": Family(
        "MistralForCausalLM",
        (False, False),
        False,
        False,
        "all",
        {
            "bos_token_id": 1,
            "eos_token_id": 2,
            "num_key_value_heads": 8,
            "sliding_window": 4096,
        },
    ),
    "qwen2": Family(
        "Qwen2ForCausalLM",
        (True, False),
        False,
        False,
        "switched",
        {"num_key_value_heads": 32, "sliding_window": 4096, "max_window_layers": 28},
    ),
    "qwen3": Family(
        "Qwen3ForCausalLM",
        None,
        False,
        True,
        "switched",
        {
            "num_key_value_heads": 32,
            "head_dim": 128,
            "sliding_window": 4096,
            "max_window_layers": 28,
        },
    ),
}

# Fields of other architectures, with the values under which they change nothing. A checkpoint that
# carries one under a family's name computes something that the family does not.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "hidden_act": (None, "silu"),
    "pretraining_tp": (None, 1),
    "quantization_config": (None,),
    "is_causal": (None, True),
    "is_encoder_decoder": (None, False),
    "add_cross_attention": (None, False),
    "use_bidirectional_attention": (None, False),
    "attn_logit_softcapping": (None,),
    "final_logit_softcapping": (None,),
    "query_pre_attn_scalar": (None,),
    "attention_multiplier": (None, 1.0),
    "embedding_multiplier": (None, 1.0),
    "residual_multiplier": (None, 1.0),
    "logits_scaling": (None, 1.0),
    "logit_scale": (None, 1.0),
    "scale_emb": (None, 1.0),
    "scale_depth": (None,),
    "clip_qkv": (None,),
    "qk_layernorm": (None, False),
    "use_qk_norm": (None, False),
    "alibi": (None, False),
    "no_rope_layers": (None, []),
    "rope_interleaved": (None, False),
    "attention_chunk_size": (None,),
    "attention_sinks": (None, False),
    "dual_chunk_attention_config": (None,),
    "kv_lora_rank": (None,),
    "cross_attention_layers": (None, []),
    "num_experts": (None, 0),
    "num_local_experts": (None, 0),
    "n_routed_experts": (None, 0),
    "moe_intermediate_size": (None, 0),
    "vision_config": (None,),
    "audio_config": (None,),
}


def family_of(raw: dict[str, Any]) -> Family:
    """The family of a parsed `config.json`. Raises ModelConfigError for anything else, by name."""
    model_type = raw.get("model_type")
    architectures = raw.get("architectures") or []
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None or architectures not in ([], [family.architecture]):
        known = ", ".join(f"{name} ({f.architecture})" for name, f in FAMILIES.items())
        raise ModelConfigError(
            f"config.json: model_type {short(model_type)} with architectures "
            f"{short(architectures)} is not supported; these are: {known}"
        )
    for name, neutral in _NEUTRAL.items():
        if not _is_one_of(raw.get(name), neutral):
            raise ModelConfigError(
                f"config.json: {name} {short(raw[name])} is not supported: no {model_type} model "
                "computes that"
            )
    return family


def with_defaults(family: Family, raw: dict[str, Any]) -> dict[str, Any]:
    """The configuration with the family's values for fields that are absent (null is not absent).

    Except `head_dim`, for which null is as good as absent.
    """
    filled = {**family.defaults, **raw}
    if raw.get("head_dim") is None:
        filled["head_dim"] = family.defaults.get("head_dim")
    return filled


def biases(family: Family, raw: dict[str, Any]) -> tuple[bool, bool, bool]:
    """Whether there is a bias on (q, k and v; the attention's output; the MLP's three maps)."""
    mlp = flag(raw, "mlp_bias")
    if mlp and not family.mlp_bias:
        raise ModelConfigError(f"config.json: mlp_bias true: {family.architecture} has no such")
    attention = flag(raw, "attention_bias")
    if family.attention_bias is None:
        return attention, attention, mlp
    # Qwen2's bias is there whatever the field says, as in transformers.
    if attention and not any(family.attention_bias):
        raise ModelConfigError(
            f"config.json: attention_bias true: {family.architecture} has no such"
        )
    return (*family.attention_bias, mlp)


def layer_windows(family: Family, raw: dict[str, Any], num_layers: int) -> tuple[int | None, ...]:
    """Each layer's window W: the token at p sees those at p − W + 1 … p. None: all before it."""
    window = _window(family, raw)
    slides = [window is not None] * num_layers
    if family.windows == "switched" and window is not None:
        first = size(raw, "max_window_layers", smallest=0)
        slides = [layer >= first for layer in range(num_layers)]
    types = raw.get("layer_types")
    if types is not None:
        if not isinstance(types, list) or len(types) != num_layers:
            raise ModelConfigError(
                f"config.json: layer_types must be a list of {num_layers} names, one per layer"
            )
        given = [_slides(layer, kind, window) for layer, kind in enumerate(types)]
        if family.windows != "switched" and given != slides:
            raise ModelConfigError(
                f"config.json: layer_types {short(types)} is not supported: all layers of "
                f"{family.architecture} are alike"
            )
        slides = given
    return tuple(window if slide else None for slide in slides)


def _window(family: Family, raw: dict[str, Any]) -> int | None:
    """The window, if any layer has one."""
    value = raw.get("sliding_window")
    if family.windows == "switched" and not flag(raw, "use_sliding_window"):
        return None
    if value is None:
        return None
    window = size(raw, "sliding_window")
    if family.windows == "none":
        raise ModelConfigError(
            f"config.json: sliding_window {window} is not supported: {family.architecture} has no "
            "window"
        )
    return window


def _slides(layer: int, kind: Any, window: int | None) -> bool:
    if kind == "full_attention":
        return False
    if kind != "sliding_attention":
        raise ModelConfigError(
            f"config.json: layer_types[{layer}] {short(kind)} is not supported; it may be "
            "full_attention or sliding_attention"
        )
    if window is None:
        raise ModelConfigError(
            f"config.json: layer_types[{layer}] is sliding_attention, but there is no "
            "sliding_window (or use_sliding_window is false)"
        )
    return True


def _is_one_of(value: Any, neutral: tuple[Any, ...]) -> bool:
    """Equality that tells true from 1."""
    return any(value == n and isinstance(value, bool) == isinstance(n, bool) for n in neutral)
