"""The shape of a Llama-family model, read from a Hugging Face `config.json`.

What the engine does not implement is refused by name: a model that would load and quietly compute
something else is worse than none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.model.errors import ModelConfigError

MAX_CONFIG_BYTES = 1 << 20

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "int8": 1}

# Upper limits on sizes, well above any published model: a damaged file must end in an error here,
# not in an allocation of terabytes further on.
_LIMITS = {
    "vocab_size": 1 << 22,
    "hidden_size": 1 << 17,
    "intermediate_size": 1 << 20,
    "num_hidden_layers": 1 << 10,
    "num_attention_heads": 1 << 12,
    "num_key_value_heads": 1 << 12,
    "head_dim": 1 << 12,
    "max_position_embeddings": 1 << 24,
}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes of a decoder-only Llama model. Names are those of `config.json`.

    num_attention_heads: query heads. num_key_value_heads: heads of K and V; each serves
    `group_size` query heads (grouped-query attention, Ainslie et al. 2023). head_dim: numbers per
    head; not always hidden_size / num_attention_heads. rope_theta: base of the rotary angles.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    tie_word_embeddings: bool
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]
    dtype: str

    @property
    def group_size(self) -> int:
        """Query heads per KV head."""
        return self.num_attention_heads // self.num_key_value_heads

    def kv_bytes_per_token(self, dtype: str | None = None) -> int:
        """Bytes of K and V of one token, all layers.

        2 (K and V) · layers · KV heads · head_dim · bytes per number. dtype: the cache's, by
        default the model's.
        """
        name = self.dtype if dtype is None else dtype
        if name not in DTYPE_BYTES:
            raise ModelConfigError(f"unknown dtype {name!r}; known: {', '.join(DTYPE_BYTES)}")
        numbers = 2 * self.num_hidden_layers * self.num_key_value_heads * self.head_dim
        return numbers * DTYPE_BYTES[name]

    @property
    def num_parameters(self) -> int:
        """Weights, tied embeddings counted once."""
        h, d = self.hidden_size, self.head_dim
        attention = h * d * (2 * self.num_attention_heads + 2 * self.num_key_value_heads)
        layer = attention + 3 * h * self.intermediate_size + 2 * h
        embeddings = self.vocab_size * h * (1 if self.tie_word_embeddings else 2)
        return embeddings + self.num_hidden_layers * layer + h

    @classmethod
    def from_dir(cls, directory: Path) -> ModelConfig:
        """Read `config.json` (and the end-of-sequence ids of `generation_config.json`)."""
        raw = read_json_object(directory / "config.json")
        generation = directory / "generation_config.json"
        if generation.is_file():
            eos = read_json_object(generation).get("eos_token_id")
            if eos is not None:
                raw = {**raw, "eos_token_id": eos}
        return cls.from_dict(raw)

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> ModelConfig:
        """Check a parsed `config.json`. Raises ModelConfigError naming the offending field."""
        _refuse_unsupported(raw)
        heads = _size(raw, "num_attention_heads")
        hidden = _size(raw, "hidden_size")
        if raw.get("head_dim") is None and hidden % heads:
            raise ModelConfigError(
                f"config.json: hidden_size {hidden} is not a multiple of num_attention_heads "
                f"{heads}, and no head_dim is given"
            )
        config = cls(
            vocab_size=_size(raw, "vocab_size"),
            hidden_size=hidden,
            intermediate_size=_size(raw, "intermediate_size"),
            num_hidden_layers=_size(raw, "num_hidden_layers"),
            num_attention_heads=heads,
            num_key_value_heads=_size(raw, "num_key_value_heads", default=heads),
            head_dim=_size(raw, "head_dim", default=hidden // heads),
            max_position_embeddings=_size(raw, "max_position_embeddings"),
            rms_norm_eps=_positive(raw, "rms_norm_eps", 1e-6),
            rope_theta=_rope_theta(raw),
            tie_word_embeddings=_flag(raw, "tie_word_embeddings"),
            bos_token_id=_token_id(raw, "bos_token_id"),
            eos_token_ids=_token_ids(raw, "eos_token_id"),
            dtype=_dtype(raw),
        )
        if config.num_attention_heads % config.num_key_value_heads:
            raise ModelConfigError(
                f"config.json: num_attention_heads {config.num_attention_heads} is not a multiple "
                f"of num_key_value_heads {config.num_key_value_heads}"
            )
        if config.head_dim % 2:
            raise ModelConfigError(
                f"config.json: head_dim {config.head_dim} is odd; rotary embeddings pair dimensions"
            )
        return config


def read_json_object(path: Path, max_bytes: int = MAX_CONFIG_BYTES) -> dict[str, Any]:
    """A JSON object from a file of bounded size. Raises ModelConfigError."""
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise ModelConfigError(f"{path.name} cannot be read: {error.strerror or error}") from error
    if len(data) > max_bytes:
        raise ModelConfigError(f"{path.name} is larger than {max_bytes:,} bytes")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelConfigError(f"{path.name} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelConfigError(f"{path.name} must hold a JSON object")
    return value


def _refuse_unsupported(raw: dict[str, Any]) -> None:
    """Raise for anything whose mathematics this engine does not implement."""
    architectures = raw.get("architectures") or []
    model_type = raw.get("model_type")
    if model_type != "llama" or architectures not in ([], ["LlamaForCausalLM"]):
        raise ModelConfigError(
            f"config.json: model_type {model_type!r} with architectures {architectures!r} is not "
            "supported; only 'llama' (LlamaForCausalLM) is"
        )
    for field, allowed in (
        ("hidden_act", (None, "silu")),
        ("attention_bias", (None, False)),
        ("mlp_bias", (None, False)),
        ("pretraining_tp", (None, 1)),
        ("quantization_config", (None,)),
        ("sliding_window", (None,)),
        ("partial_rotary_factor", (None, 1.0)),
    ):
        if raw.get(field) not in allowed:
            raise ModelConfigError(f"config.json: {field} {raw[field]!r} is not supported")
    for field in ("rope_scaling", "rope_parameters"):
        scaling = raw.get(field)
        if scaling is None:
            continue
        if not isinstance(scaling, dict):
            raise ModelConfigError(f"config.json: {field} must be an object")
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        if kind != "default":
            raise ModelConfigError(f"config.json: {field} of type {kind!r} is not supported")


def _size(raw: dict[str, Any], field: str, default: int | None = None) -> int:
    value = raw.get(field)
    if value is None:
        value = default
    if value is None:
        raise ModelConfigError(f"config.json: {field} is missing")
    if isinstance(value, bool) or not isinstance(value, int):
        raise ModelConfigError(f"config.json: {field} must be an integer, not {value!r:.60}")
    if not 1 <= value <= _LIMITS[field]:
        raise ModelConfigError(
            f"config.json: {field} is {value}; it must be in 1 … {_LIMITS[field]:,}"
        )
    return value


def _positive(raw: dict[str, Any], field: str, default: float) -> float:
    value = raw.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise ModelConfigError(f"config.json: {field} must be a positive number, not {value!r:.60}")
    return float(value)


def _rope_theta(raw: dict[str, Any]) -> float:
    """Rotary base: at the top level, or (newer files) inside `rope_parameters`."""
    nested = raw.get("rope_parameters")
    if isinstance(nested, dict) and "rope_theta" in nested:
        return _positive(nested, "rope_theta", 10_000.0)
    return _positive(raw, "rope_theta", 10_000.0)


def _flag(raw: dict[str, Any], field: str) -> bool:
    value = raw.get(field, False)
    if not isinstance(value, bool):
        raise ModelConfigError(f"config.json: {field} must be true or false, not {value!r:.60}")
    return value


def _token_ids(raw: dict[str, Any], field: str) -> tuple[int, ...]:
    value = raw.get(field)
    ids = [] if value is None else value if isinstance(value, list) else [value]
    for item in ids:
        if isinstance(item, bool) or not isinstance(item, int) or item < 0:
            raise ModelConfigError(f"config.json: {field} must hold token ids, not {item!r:.60}")
    return tuple(ids)


def _token_id(raw: dict[str, Any], field: str) -> int | None:
    ids = _token_ids(raw, field)
    return ids[0] if ids else None


def _dtype(raw: dict[str, Any]) -> str:
    name = raw.get("dtype", raw.get("torch_dtype")) or "float32"
    if name not in ("float32", "float16", "bfloat16"):
        raise ModelConfigError(f"config.json: dtype {name!r:.60} is not supported")
    return str(name)
