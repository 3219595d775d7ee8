"""The `config.json` that a GGUF file's metadata describes.

GGUF's names: `<architecture>.<key>` (gguf-py, `constants.py`). A key that changes the mathematics
and has no counterpart here is refused by name.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from core.model.config import ModelConfig
from core.model.config_fields import short
from core.model.errors import ModelConfigError, ModelFileError
from core.model.families import FAMILIES

# Mistral's files say llama: the two differ in the window alone.
ARCHITECTURES = ("llama", "qwen2", "qwen3")

# Keys of other models, with the values under which they change nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "expert_count": (0,),
    "attention.causal": (True,),
    "attention.scale": (),
    "attention.clamp_kqv": (0,),
    "attention.max_alibi_bias": (0,),
    "attention.sliding_window_pattern": (),
    "attn_logit_softcapping": (0,),
    "final_logit_softcapping": (0,),
    "logit_scale": (1,),
    "embedding_scale": (1,),
    "residual_scale": (1,),
    "use_parallel_residual": (False,),
    "rope.scaling.attn_factor": (1,),
    "rope.scaling.yarn_ext_factor": (),
    "rope.scaling.yarn_attn_factor": (1,),
    "rope.scaling.yarn_log_multiplier": (),
    "rope.dimension_sections": (),
}


def hf_config(
    metadata: dict[str, Any],
    tensors: Collection[str],
    vocab_size: int,
    rope_factors: list[float] | None,
) -> dict[str, Any]:
    """The `config.json` of a GGUF file. Raises ModelFileError for a model that is not supported.

    tensors: names of the file's tensors. vocab_size: rows of its embeddings. rope_factors: the
    tensor `rope_freqs.weight`, if there is one.
    """
    architecture = metadata.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise ModelFileError(
            f"GGUF architecture {short(architecture)} is not supported, only "
            f"{', '.join(ARCHITECTURES)}"
        )
    if metadata.get("split.count", 1) not in (0, 1):
        raise ModelFileError(
            f"the GGUF file is one of {short(metadata['split.count'])} parts: join them with "
            "llama-gguf-split --merge"
        )
    for name, neutral in _NEUTRAL.items():
        value = metadata.get(f"{architecture}.{name}")
        if value is not None and value not in neutral:
            raise ModelFileError(
                f"the GGUF file has {architecture}.{name} {short(value)}, which is not supported"
            )

    def get(key: str, default: Any = None) -> Any:
        value = metadata.get(f"{architecture}.{key}", default)
        if value is None:
            raise ModelFileError(f"the GGUF file has no {architecture}.{key}")
        return value

    heads = get("attention.head_count")
    family = architecture
    window = metadata.get(f"{architecture}.attention.sliding_window")
    if window:
        if architecture != "llama":
            raise ModelFileError(
                f"the GGUF file has {architecture}.attention.sliding_window {short(window)}, but "
                "does not say which layers it is for"
            )
        family = "mistral"
    config = {
        "architectures": [FAMILIES[family].architecture],
        "model_type": family,
        "attention_bias": family != "qwen2" and "blk.0.attn_q.bias" in tensors,
        "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id"),
        "dtype": "bfloat16",
        "eos_token_id": _end_tokens(metadata),
        "head_dim": _head_dim(metadata, architecture),
        "hidden_act": "silu",
        "hidden_size": get("embedding_length"),
        "intermediate_size": get("feed_forward_length"),
        "max_position_embeddings": get("context_length"),
        "mlp_bias": "blk.0.ffn_up.bias" in tensors,
        "num_attention_heads": heads,
        "num_hidden_layers": get("block_count"),
        "num_key_value_heads": get("attention.head_count_kv", heads),
        "pad_token_id": metadata.get("tokenizer.ggml.padding_token_id"),
        "rms_norm_eps": shortest(get("attention.layer_norm_rms_epsilon")),
        "rope_theta": shortest(get("rope.freq_base", 10_000.0)),
        "tie_word_embeddings": "output.weight" not in tensors,
        "vocab_size": vocab_size,
    }
    if window:
        config["sliding_window"] = window
    scaling = _rope_scaling(metadata, architecture, rope_factors)
    if scaling:
        config["rope_scaling"] = scaling
    try:
        config["head_dim"] = ModelConfig.from_dict(config).head_dim
    except ModelConfigError as error:
        raise ModelFileError(f"the GGUF file's metadata is not usable: {error}") from error
    return config


def _end_tokens(metadata: dict[str, Any]) -> Any:
    """The ids that end an answer: of the text, the turn (eot) and the message (eom). One or a list;
    None if there is none."""
    ids: list[Any] = []
    for name in ("eos", "eot", "eom"):
        value = metadata.get(f"tokenizer.ggml.{name}_token_id")
        if value is not None and value not in ids:
            ids.append(value)
    return ids if len(ids) > 1 else ids[0] if ids else None


def _head_dim(metadata: dict[str, Any], architecture: str) -> Any:
    """`attention.key_length`; in older files the rotated dimensions, which are all of a head."""
    rotated = metadata.get(f"{architecture}.rope.dimension_count")
    key = metadata.get(f"{architecture}.attention.key_length", rotated)
    for name, value in (
        ("rope.dimension_count", rotated),
        ("attention.value_length", metadata.get(f"{architecture}.attention.value_length")),
    ):
        if value is not None and value != key:
            raise ModelFileError(
                f"the GGUF file has {architecture}.{name} {short(value)} unlike its "
                f"attention.key_length {short(key)}, which is not supported"
            )
    return key


def _rope_scaling(
    metadata: dict[str, Any], architecture: str, factors: list[float] | None
) -> dict[str, Any] | None:
    prefix = f"{architecture}.rope.scaling"
    kind = metadata.get(f"{prefix}.type", "none")
    factor = shortest(metadata.get(f"{prefix}.factor"))
    plain = kind == "none" or (kind == "linear" and factor in (None, 1.0))
    if factors is not None:
        if not plain:
            raise ModelFileError(
                f"the GGUF file has both rope_freqs.weight and {prefix}.type {short(kind)}"
            )
        # One number per frequency, whatever the length: what transformers calls longrope.
        return {
            "rope_type": "longrope",
            "short_factor": factors,
            "long_factor": factors,
            "attention_factor": 1.0,
        }
    if plain:
        return None
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    if kind != "yarn":
        raise ModelFileError(f"the GGUF file has {prefix}.type {short(kind)}, which is not known")
    scaling = {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": metadata.get(f"{prefix}.original_context_length"),
        "beta_fast": shortest(metadata.get(f"{prefix}.yarn_beta_fast")),
        "beta_slow": shortest(metadata.get(f"{prefix}.yarn_beta_slow")),
    }
    return {key: value for key, value in scaling.items() if value is not None}


def shortest(value: Any) -> Any:
    """The shortest decimal that is this float32: 1e-05, where the file gives 9.999999747e-06."""
    return float(str(np.float32(value))) if isinstance(value, float) else value
