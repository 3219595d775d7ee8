"""Weights from safetensors files into a `Llama`.

Every tensor's presence and shape is checked against the configuration before anything is computed,
and every tensor must be one that the model uses: a bias that nobody adds makes another model.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from core.model.checkpoint_files import tensor_files
from core.model.config import ModelConfig
from core.model.errors import ModelFileError
from core.model.layers import MLP, Attention, HeadNorm, Linear, RMSNorm
from core.model.llama import Llama, LlamaLayer
from core.model.rope import RotaryEmbedding

# Old checkpoints carry the rotary frequencies, which follow from the configuration.
_IGNORED_SUFFIX = ".rotary_emb.inv_freq"


class Weights:
    """Named tensors of one or several safetensors files in a directory, read when asked for."""

    def __init__(self, directory: Path, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device = dtype, device
        self._file_of = tensor_files(directory)
        self._unused = {n for n in self._file_of if not n.endswith(_IGNORED_SUFFIX)}

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
        self._unused.discard(name)
        return tensor.to(device=self._device, dtype=self._dtype)

    def check_all_used(self, config: ModelConfig) -> None:
        """Raises ModelFileError naming a tensor that nobody asked for."""
        if self._unused:
            name = min(self._unused)
            raise ModelFileError(
                f"the checkpoint holds {name!r:.80}, which a {config.model_type} model of this "
                "config.json has not: it would compute something else than was trained"
            )


def load_llama(directory: Path, dtype: torch.dtype, device: torch.device) -> Llama:
    """Build the model of a directory. Raises ModelConfigError, ModelFileError."""
    config = ModelConfig.from_dir(directory)
    weights = Weights(directory, dtype, device)
    h = config.hidden_size
    embed_tokens = weights.get("model.embed_tokens.weight", config.vocab_size, h)
    model = Llama(
        config=config,
        embed_tokens=embed_tokens,
        rope=RotaryEmbedding(config.rope, config.head_dim, dtype, device),
        layers=[_layer(weights, config, i) for i in range(config.num_hidden_layers)],
        norm=RMSNorm(weights.get("model.norm.weight", h), config.rms_norm_eps),
        lm_head=Linear(_lm_head(weights, config, embed_tokens)),
    )
    weights.check_all_used(config)
    return model


def _lm_head(weights: Weights, config: ModelConfig, embed_tokens: torch.Tensor) -> torch.Tensor:
    """The output matrix [vocab_size, h]: the embeddings again, if they are tied."""
    name = "lm_head.weight"
    if config.tie_word_embeddings and name not in weights:
        return embed_tokens
    lm_head = weights.get(name, config.vocab_size, config.hidden_size)
    if not config.tie_word_embeddings:
        return lm_head
    if not torch.equal(lm_head, embed_tokens):
        raise ModelFileError(
            "config.json says tie_word_embeddings true, but lm_head.weight differs from "
            "model.embed_tokens.weight: set it to false if both are meant"
        )
    return embed_tokens


def _layer(weights: Weights, config: ModelConfig, index: int) -> LlamaLayer:
    """Layer `index`, with q, k, v as one matrix, and gate and up as another."""
    h, m, d = config.hidden_size, config.intermediate_size, config.head_dim
    n_q, n_kv, eps = config.num_attention_heads, config.num_key_value_heads, config.rms_norm_eps

    def get(name: str, *shape: int) -> torch.Tensor:
        return weights.get(f"model.layers.{index}.{name}", *shape)

    def stacked(has_bias: bool, *parts: tuple[str, int, int]) -> Linear:
        """Maps of one input (name, n_out, n_in) as one, their outputs end to end."""
        weights = [get(f"{name}.weight", n_out, n_in) for name, n_out, n_in in parts]
        biases = [get(f"{name}.bias", n_out) for name, n_out, _ in parts if has_bias]
        return Linear(_joined(weights), _joined(biases) if has_bias else None)

    head_norm = None
    if config.qk_norm:
        query, key = get("self_attn.q_norm.weight", d), get("self_attn.k_norm.weight", d)
        head_norm = HeadNorm(query, key, n_q, n_kv, eps)
    return LlamaLayer(
        input_norm=RMSNorm(get("input_layernorm.weight", h), eps),
        attention=Attention(
            config,
            index,
            stacked(
                config.qkv_bias,
                ("self_attn.q_proj", n_q * d, h),
                ("self_attn.k_proj", n_kv * d, h),
                ("self_attn.v_proj", n_kv * d, h),
            ),
            stacked(config.o_bias, ("self_attn.o_proj", h, n_q * d)),
            head_norm,
        ),
        post_attention_norm=RMSNorm(get("post_attention_layernorm.weight", h), eps),
        mlp=MLP(
            stacked(config.mlp_bias, ("mlp.gate_proj", m, h), ("mlp.up_proj", m, h)),
            stacked(config.mlp_bias, ("mlp.down_proj", h, m)),
        ),
    )


def _joined(tensors: list[torch.Tensor]) -> torch.Tensor:
    """End to end along the first dimension; one alone is not copied."""
    return torch.cat(tensors) if len(tensors) > 1 else tensors[0]
