"""Finds the language model in a `config.json`: at the top, or nested beside vision and audio."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from core.sizing import checks
from core.sizing.architectures.fields import Fields, architectures
from core.sizing.errors import SizingError

NESTED = ("text_config", "llm_config", "language_config", "language_model", "thinker_config")
"""Names of the object that holds the language model, by different authors."""

SAME_KIND = {
    "qwen2_vl": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "gemma3": "gemma3_text",
    "llama4": "llama4_text",
    "kimi_k2": "deepseek_v3",
    "hunyuan": "hunyuan_v1_moe",
    "minimax_text_01": "minimax",
    "minimax_m1": "minimax",
    "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon",
}
"""Kinds whose language model is another kind's, field for field."""

_TIED = "tie_word_embeddings"


@dataclass
class Found:
    """fields: of the language model. kind: its model_type. outer: the top-level object."""

    fields: Fields
    kind: str
    outer: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def language_model(config: object) -> Found:
    """Raises SizingError if there is none, or if its `model_type` is not said."""
    outer = _object(config, "config")
    data, path, kind = outer, "config", _kind(outer, "config")
    while True:
        name = next((n for n in NESTED if isinstance(data.get(n), dict)), None)
        if name is None:
            break
        inner = data[name]
        path = f"{path}.{name}"
        kind = _kind(inner, path) or architectures()["nested"].get(kind, "")
        data = inner
    if not kind:
        raise SizingError(f"{path}.model_type", "is missing; it says how the fields are meant")
    kind = SAME_KIND.get(kind, kind)
    defaults = dict(architectures()["defaults"].get(kind, {}))
    if data is not outer and data.get(_TIED) is None and outer.get(_TIED) is not None:
        defaults[_TIED] = outer[_TIED]
    found = Found(Fields(data, path, defaults, nested=data is not outer), kind, outer)
    _set_aside(found, data, path)
    return found


def _object(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SizingError(path, f"must be an object, not {checks.shown(value)}")
    for key in value:
        if not isinstance(key, str):
            raise SizingError(path, "must have names as keys")
    return value


def _kind(data: dict[str, Any], path: str) -> str:
    kind = data.get("model_type")
    if kind is None:
        return ""
    if not isinstance(kind, str) or not kind:
        raise SizingError(f"{path}.model_type", f"must be a word, not {checks.shown(kind)}")
    return kind


def _set_aside(found: Found, data: dict[str, Any], path: str) -> None:
    """Names what is not part of the language model, and fields that say otherwise further out."""
    outer = found.outer
    for name, value in outer.items():
        tower = name.endswith(("_config", "_cfg")) and isinstance(value, dict)
        if tower and name not in NESTED and name != "quantization_config":
            if name in _PARTS:
                continue
            found.fields.skip(name)
            found.notes.append(
                f"config.{name} is set aside: neither its weights nor its work count"
            )
        elif data is not outer and name in data and name in _SIZES and value != data[name]:
            found.warnings.append(
                f"config.{name} says {checks.shown(value)}, {path}.{name} "
                f"{checks.shown(data[name])}: the latter is used"
            )
    extra = next((name for name in _AHEAD if data.get(name)), None)
    if extra is not None:
        found.fields.skip(*_AHEAD)
        found.notes.append(
            f"{path}.{extra}: the layers that predict further tokens ahead are set aside"
        )


_AHEAD = (
    "num_nextn_predict_layers",
    "mtp_num_hidden_layers",
    "num_mtp_layers",
    "mtp_num_layers",
    "num_mtp_modules",
    "use_mtp",
    "mtp_transformer_layers",
    "mtp_use_dedicated_embeddings",
)
"""Multi-token prediction: a draft head in the checkpoint, which plain decoding does not load."""

_PARTS = frozenset({"attn_config", "ffn_config", "linear_attn_config", "ssm_cfg", "rope_config"})
"""Objects that belong to the language model."""

_SIZES = frozenset(
    "hidden_size num_hidden_layers num_attention_heads num_key_value_heads head_dim vocab_size "
    "intermediate_size sliding_window max_position_embeddings".split()
)
