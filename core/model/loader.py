"""Weights from safetensors files into a `Llama`.

Before anything is read, the names are compared with the configuration: every tensor must be there,
and every one must be used. A bias that nobody adds makes another model.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from core.model.attention import Attention
from core.model.checkpoint_files import tensor_files
from core.model.config import ModelConfig
from core.model.errors import ModelFileError
from core.model.int8 import int8_linear
from core.model.layers import MLP, HeadNorm, Linear, LinearMap, RMSNorm
from core.model.llama import Llama, LlamaLayer
from core.model.rope import RotaryEmbedding
from core.model.tensor_shapes import tensor_shapes

_EMBEDDINGS, _LM_HEAD = "model.embed_tokens.weight", "lm_head.weight"

# Old checkpoints carry the rotary frequencies, which follow from the configuration.
_IGNORED_SUFFIX = ".rotary_emb.inv_freq"


MakeLinear = Callable[[torch.Tensor, torch.Tensor | None], LinearMap]
"""From a weight [n_out, n_in], and a bias [n_out] or None."""


class Weights:
    """The tensors of a checkpoint directory, read when asked for.

    Raises ModelFileError if a tensor is missing, or one is there that the model has not.
    """

    def __init__(
        self, directory: Path, config: ModelConfig, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._dtype, self._device = dtype, device
        self._file_of = tensor_files(directory)
        self._shapes = tensor_shapes(config)
        for name in self._shapes:
            if name not in self._file_of:
                raise ModelFileError(f"the checkpoint has no tensor {name}")
        for name in sorted(self._file_of):
            repeated = name == _LM_HEAD and config.tie_word_embeddings
            if name not in self._shapes and not repeated and not name.endswith(_IGNORED_SUFFIX):
                raise ModelFileError(
                    f"the checkpoint holds {name!r:.80}, which a {config.model_type} model of this "
                    "config.json has not: it would compute something else than was trained"
                )
        if config.tie_word_embeddings and _LM_HEAD in self._file_of:
            self._shapes[_LM_HEAD] = self._shapes[_EMBEDDINGS]
            if not torch.equal(self.get(_LM_HEAD), self.get(_EMBEDDINGS)):
                raise ModelFileError(
                    f"config.json says tie_word_embeddings true, but {_LM_HEAD} differs from "
                    f"{_EMBEDDINGS}: set it to false if both are meant"
                )

    def get(self, name: str) -> torch.Tensor:
        """The tensor in the run's dtype, on its device. ModelFileError if it is misshapen."""
        path, shape = self._file_of[name], self._shapes[name]
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


def load_llama(
    directory: Path, dtype: torch.dtype, device: torch.device, int8: bool = False
) -> Llama:
    """Build the model of a directory; int8: with its layers' matrices in 8 bits.

    Raises ModelConfigError, ModelFileError, ModelError.
    """
    config = ModelConfig.from_dir(directory)
    weights = Weights(directory, config, dtype, device)
    embed_tokens = weights.get(_EMBEDDINGS)
    make: MakeLinear = int8_linear if int8 else Linear
    return Llama(
        config=config,
        embed_tokens=embed_tokens,
        rope=RotaryEmbedding(config.rope, config.head_dim, dtype, device),
        layers=[_layer(weights, config, i, make) for i in range(config.num_hidden_layers)],
        norm=RMSNorm(weights.get("model.norm.weight"), config.rms_norm_eps),
        lm_head=Linear(embed_tokens if config.tie_word_embeddings else weights.get(_LM_HEAD)),
    )


def _layer(weights: Weights, config: ModelConfig, index: int, make: MakeLinear) -> LlamaLayer:
    """Layer `index`, with q, k, v as one matrix, and gate and up as another."""
    eps = config.rms_norm_eps

    def get(name: str) -> torch.Tensor:
        return weights.get(f"model.layers.{index}.{name}")

    def stacked(has_bias: bool, *names: str) -> LinearMap:
        """Maps of one input as one, their outputs end to end."""
        weight = _joined([get(f"{name}.weight") for name in names])
        bias = _joined([get(f"{name}.bias") for name in names]) if has_bias else None
        return make(weight, bias)

    head_norm = None
    if config.qk_norm:
        head_norm = HeadNorm(
            get("self_attn.q_norm.weight"),
            get("self_attn.k_norm.weight"),
            config.num_attention_heads,
            config.num_key_value_heads,
            eps,
        )
    qkv = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    return LlamaLayer(
        input_norm=RMSNorm(get("input_layernorm.weight"), eps),
        attention=Attention(
            config,
            index,
            stacked(config.qkv_bias, *qkv),
            stacked(config.o_bias, "self_attn.o_proj"),
            head_norm,
        ),
        post_attention_norm=RMSNorm(get("post_attention_layernorm.weight"), eps),
        mlp=MLP(
            stacked(config.mlp_bias, "mlp.gate_proj", "mlp.up_proj"),
            stacked(config.mlp_bias, "mlp.down_proj"),
        ),
    )


def _joined(tensors: list[torch.Tensor]) -> torch.Tensor:
    """End to end along the first dimension; one alone is not copied."""
    return torch.cat(tensors) if len(tensors) > 1 else tensors[0]
