"""Weights from safetensors files into a `Llama`.

Every tensor's presence and shape is checked against the configuration before anything is computed.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from core.model.config import ModelConfig
from core.model.errors import ModelFileError
from core.model.layers import MLP, Attention, Linear, RMSNorm, RotaryEmbedding
from core.model.llama import Llama, LlamaLayer

_MAX_HEADER_BYTES = 64 << 20


class Weights:
    """Named tensors of one or several safetensors files in a directory, read when asked for."""

    def __init__(self, directory: Path, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device = dtype, device
        self._file_of: dict[str, Path] = {}
        files = sorted(directory.glob("*.safetensors"))
        if not files:
            raise ModelFileError(f"{directory.name} holds no .safetensors file")
        for path in files:
            for name in check_safetensors(path):
                self._file_of[name] = path

    def __contains__(self, name: str) -> bool:
        return name in self._file_of

    def get(self, name: str, *shape: int) -> torch.Tensor:
        """The tensor in the run's dtype, on its device. ModelFileError if absent or misshapen."""
        path = self._file_of.get(name)
        if path is None:
            raise ModelFileError(f"the checkpoint has no tensor {name}")
        try:
            with safe_open(path, framework="pt") as file:
                tensor: torch.Tensor = file.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise ModelFileError(f"{path.name} cannot be read: {error}") from error
        if tuple(tensor.shape) != shape:
            raise ModelFileError(
                f"{name} has shape {list(tensor.shape)}, config.json implies {list(shape)}"
            )
        if not tensor.is_floating_point() or tensor.itemsize < 2:
            raise ModelFileError(f"{name} holds {tensor.dtype}, which is not supported")
        return tensor.to(device=self._device, dtype=self._dtype)


def check_safetensors(path: Path) -> list[str]:
    """The names in a safetensors file whose header and length agree. Raises ModelFileError.

    Reads only the header, and never more than the file holds, whatever the length field says.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _MAX_HEADER_BYTES):
                raise ModelFileError(
                    f"{path.name} is damaged or truncated: {size:,} bytes cannot hold its header"
                )
            names, data_bytes = _parse_header(file.read(length))
    except OSError as error:
        raise ModelFileError(f"{path.name} cannot be read: {error.strerror or error}") from error
    except _MALFORMED as error:
        raise ModelFileError(f"{path.name} has a damaged header") from error
    if 8 + length + data_bytes != size:
        raise ModelFileError(
            f"{path.name} is truncated or damaged: its header describes "
            f"{8 + length + data_bytes:,} bytes, the file has {size:,}"
        )
    return names


_MALFORMED = (UnicodeDecodeError, json.JSONDecodeError, RecursionError, AttributeError, TypeError,
              LookupError)  # fmt: skip


def _parse_header(text: bytes) -> tuple[list[str], int]:
    """Tensor names, and where the last tensor's bytes end. Raises one of _MALFORMED."""
    header = json.loads(text)
    header.pop("__metadata__", None)
    if not header:
        raise LookupError("no tensors")
    ends = [entry["data_offsets"][1] for entry in header.values()]
    if not all(isinstance(end, int) for end in ends):
        raise TypeError("data_offsets")
    return list(header), max(ends)


def load_llama(directory: Path, dtype: torch.dtype, device: torch.device) -> Llama:
    """Build the model of a directory. Raises ModelConfigError, ModelFileError."""
    config = ModelConfig.from_dir(directory)
    weights = Weights(directory, dtype, device)
    vocab, h = config.vocab_size, config.hidden_size
    embed_tokens = weights.get("model.embed_tokens.weight", vocab, h)
    if config.tie_word_embeddings:
        lm_head = embed_tokens
    else:
        lm_head = weights.get("lm_head.weight", vocab, h)
    return Llama(
        config=config,
        embed_tokens=embed_tokens,
        rope=RotaryEmbedding(config, dtype, device),
        layers=[_layer(weights, config, i) for i in range(config.num_hidden_layers)],
        norm=RMSNorm(weights.get("model.norm.weight", h), config.rms_norm_eps),
        lm_head=Linear(lm_head),
    )


def _layer(weights: Weights, config: ModelConfig, index: int) -> LlamaLayer:
    """Layer `index`, with q, k, v as one matrix, and gate and up as another."""
    h, m, d = config.hidden_size, config.intermediate_size, config.head_dim
    q_rows, kv_rows = config.num_attention_heads * d, config.num_key_value_heads * d

    def get(name: str, *shape: int) -> torch.Tensor:
        return weights.get(f"model.layers.{index}.{name}.weight", *shape)

    qkv = torch.cat(
        (
            get("self_attn.q_proj", q_rows, h),
            get("self_attn.k_proj", kv_rows, h),
            get("self_attn.v_proj", kv_rows, h),
        )
    )
    gate_up = torch.cat((get("mlp.gate_proj", m, h), get("mlp.up_proj", m, h)))
    return LlamaLayer(
        input_norm=RMSNorm(get("input_layernorm", h), config.rms_norm_eps),
        attention=Attention(config, index, Linear(qkv), Linear(get("self_attn.o_proj", h, q_rows))),
        post_attention_norm=RMSNorm(get("post_attention_layernorm", h), config.rms_norm_eps),
        mlp=MLP(Linear(gate_up), Linear(get("mlp.down_proj", h, m))),
    )
