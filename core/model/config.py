"""The shape of a Llama-family model, read from a Hugging Face `config.json`.

What the engine does not implement is refused by name: a model that would load and quietly compute
something else is worse than none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.model import config_fields as fields
from core.model import families
from core.model.config_fields import read_json_object
from core.model.errors import ModelConfigError
from core.model.rope_config import RopeConfig

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "int8": 1}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes and features of a decoder-only Llama-family model. Names are those of `config.json`.

    num_attention_heads: query heads. num_key_value_heads: heads of K and V; each serves
    `group_size` query heads (grouped-query attention, Ainslie et al. 2023). head_dim: numbers per
    head; not always hidden_size / num_attention_heads. rope: the rotary angles.
    layer_windows: for each layer the window W of its attention (the token at p sees those at
    p − W + 1 … p), None where it sees all. qkv_bias, o_bias, mlp_bias: whether those maps add one.
    qk_norm: RMSNorm over head_dim of every query and key head, before it is turned.
    """

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope: RopeConfig
    layer_windows: tuple[int | None, ...]
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool
    tie_word_embeddings: bool
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]
    dtype: str

    @property
    def group_size(self) -> int:
        """Query heads per KV head."""
        return self.num_attention_heads // self.num_key_value_heads

    @property
    def kv_window(self) -> int | None:
        """W if every layer slides with the same window: then no token older than the last W is
        read again, and its block may be given back. None if any layer sees everything."""
        windows = set(self.layer_windows)
        return windows.pop() if len(windows) == 1 else None

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
        """Weights, biases and norms; tied embeddings counted once."""
        h, d, m = self.hidden_size, self.head_dim, self.intermediate_size
        q_rows = self.num_attention_heads * d
        qkv_rows = q_rows + 2 * self.num_key_value_heads * d
        layer = h * (qkv_rows + q_rows) + 3 * h * m + 2 * h
        layer += qkv_rows * self.qkv_bias + h * self.o_bias
        layer += (2 * m + h) * self.mlp_bias + 2 * d * self.qk_norm
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
        family = families.family_of(raw)
        raw = families.with_defaults(family, raw)
        heads = fields.size(raw, "num_attention_heads")
        hidden = fields.size(raw, "hidden_size")
        if raw.get("head_dim") is None and hidden % heads:
            raise ModelConfigError(
                f"config.json: hidden_size {hidden} is not a multiple of num_attention_heads "
                f"{heads}, and no head_dim is given"
            )
        head_dim = fields.size(raw, "head_dim", default=hidden // heads)
        if head_dim % 2:
            raise ModelConfigError(
                f"config.json: head_dim {head_dim} is odd; rotary embeddings pair dimensions"
            )
        kv_heads = fields.size(raw, "num_key_value_heads", default=heads)
        if heads % kv_heads:
            raise ModelConfigError(
                f"config.json: num_attention_heads {heads} is not a multiple of "
                f"num_key_value_heads {kv_heads}"
            )
        num_layers = fields.size(raw, "num_hidden_layers")
        qkv_bias, o_bias, mlp_bias = families.biases(family, raw)
        bos = fields.token_ids(raw, "bos_token_id")
        return cls(
            model_type=raw["model_type"],
            vocab_size=fields.size(raw, "vocab_size"),
            hidden_size=hidden,
            intermediate_size=fields.size(raw, "intermediate_size"),
            num_hidden_layers=num_layers,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            head_dim=head_dim,
            max_position_embeddings=fields.size(raw, "max_position_embeddings"),
            rms_norm_eps=fields.number(raw, "rms_norm_eps", 1e-6),
            rope=RopeConfig.from_dict(raw, head_dim),
            layer_windows=families.layer_windows(family, raw, num_layers),
            qkv_bias=qkv_bias,
            o_bias=o_bias,
            mlp_bias=mlp_bias,
            qk_norm=family.qk_norm,
            tie_word_embeddings=fields.flag(raw, "tie_word_embeddings"),
            bos_token_id=bos[0] if bos else None,
            eos_token_ids=fields.token_ids(raw, "eos_token_id"),
            dtype=fields.dtype_name(raw),
        )
