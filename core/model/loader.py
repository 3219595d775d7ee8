"""Weights from safetensors files into a `Llama`.

Before anything is read, the names are compared with the configuration: every tensor must be there,
and every one must be used. A bias that nobody adds makes another model.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from core.model.attention import Attention, AttentionCore
from core.model.checkpoint_files import tensor_files
from core.model.compiled import CompiledHead, CompiledLayer, CompiledNorm, compiled_kernels
from core.model.config import ModelConfig
from core.model.errors import ModelFileError
from core.model.int8 import int8_linear, packed_int8
from core.model.layers import MLP, HeadNorm, Linear, LinearMap, RMSNorm, stack_head_norms
from core.model.llama import Llama, LlamaLayer
from core.model.paged_model import PagedLayer, PagedLlama, PagedNorm
from core.model.rope import RotaryEmbedding
from core.model.tensor_shapes import tensor_shapes
from kernels.cpu import CpuKernels, PackedWeight, pack
from kernels.dispatch import Backend, choose

_EMBEDDINGS, _LM_HEAD = "model.embed_tokens.weight", "lm_head.weight"

# Old checkpoints carry the rotary frequencies, which follow from the configuration.
_IGNORED_SUFFIX = ".rotary_emb.inv_freq"


_Map = tuple[torch.Tensor, torch.Tensor | None]
"""A weight [n_out, n_in], and a bias [n_out] or None."""

MakeLinear = Callable[[torch.Tensor, torch.Tensor | None], LinearMap]

LayOut = Callable[[torch.Tensor, torch.Tensor | None, bool], PackedWeight]
"""Weight, bias, and whether it is a gate and its up (see `kernels.cpu.pack`)."""


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
    directory: Path,
    dtype: torch.dtype,
    device: torch.device,
    int8: bool = False,
    paged: Backend | None = None,
) -> Llama | PagedLlama:
    """Build the model of a directory; int8: with its layers' matrices in 8 bits.

    paged: the backend of the kernels for GPUs, wherever it runs; None: Triton where
    `kernels.dispatch` says so, and otherwise what there is for a CPU.

    Raises ModelConfigError, ModelFileError, ModelError.
    """
    config = ModelConfig.from_dir(directory)
    weights = Weights(directory, config, dtype, device)
    embed_tokens = weights.get(_EMBEDDINGS)
    norm, eps = weights.get("model.norm.weight"), config.rms_norm_eps
    head = embed_tokens if config.tie_word_embeddings else weights.get(_LM_HEAD)
    rope = RotaryEmbedding(config.rope, config.head_dim, dtype, device)
    layers = [_LayerWeights(weights, config, i) for i in range(config.num_hidden_layers)]
    make: MakeLinear = int8_linear if int8 else Linear
    if paged is None:
        chosen = choose(device, dtype, config.head_dim)
        paged = chosen if chosen.name == "triton" else None
    if paged is not None:
        return PagedLlama(
            config=config,
            embed_tokens=embed_tokens,
            rope=rope,
            layers=[layer.paged(make, paged.name) for layer in layers],
            norm=PagedNorm(norm, eps, paged.name),
            lm_head=Linear(head),
            backend=paged,
        )
    kernels = compiled_kernels(config, dtype, device)
    if kernels is not None:
        lay_out: LayOut = packed_int8 if int8 else pack
        return Llama(
            config=config,
            embed_tokens=embed_tokens,
            rope=rope,
            layers=[layer.compiled(kernels, lay_out) for layer in layers],
            norm=CompiledNorm(kernels, norm, eps),
            lm_head=CompiledHead(kernels, head),
        )
    return Llama(
        config=config,
        embed_tokens=embed_tokens,
        rope=rope,
        layers=[layer.plain(make) for layer in layers],
        norm=RMSNorm(norm, eps),
        lm_head=Linear(head),
    )


class _LayerWeights:
    """The tensors of layer `index`: q, k, v as one matrix, and gate and up as another."""

    def __init__(self, weights: Weights, config: ModelConfig, index: int) -> None:
        self._weights, self._config, self._index = weights, config, index

    def plain(self, make: MakeLinear) -> LlamaLayer:
        """The layer by torch's operators. make: its linear maps."""
        config, eps = self._config, self._config.rms_norm_eps
        n_q, n_kv = config.num_attention_heads, config.num_key_value_heads
        norms = self._head_norms()
        return LlamaLayer(
            input_norm=RMSNorm(self._get("input_layernorm.weight"), eps),
            attention=Attention(
                AttentionCore(config, self._index),
                make(*self._qkv()),
                make(*self._out()),
                None if norms is None else HeadNorm(*norms, n_q, n_kv, eps),
            ),
            post_attention_norm=RMSNorm(self._get("post_attention_layernorm.weight"), eps),
            mlp=MLP(make(*self._gate_up()), make(*self._down())),
        )

    def compiled(self, kernels: CpuKernels, lay_out: LayOut) -> CompiledLayer:
        """The layer by the compiled kernels. lay_out: its matrices."""
        config, eps = self._config, self._config.rms_norm_eps
        norms = self._head_norms()
        heads = (config.num_attention_heads, config.num_key_value_heads)
        return CompiledLayer(
            kernels=kernels,
            attention=AttentionCore(config, self._index),
            input_norm=CompiledNorm(kernels, self._get("input_layernorm.weight"), eps),
            qkv=lay_out(*self._qkv(), False),
            head_norm=None if norms is None else stack_head_norms(*norms, *heads).float(),
            out=lay_out(*self._out(), False),
            post_attention_norm=CompiledNorm(
                kernels, self._get("post_attention_layernorm.weight"), eps
            ),
            gate_up=lay_out(*self._gate_up(), True),
            down=lay_out(*self._down(), False),
            eps=eps,
        )

    def paged(self, make: MakeLinear, backend: str) -> PagedLayer:
        """The layer by the kernels for GPUs. make: its linear maps."""
        config, eps = self._config, self._config.rms_norm_eps
        norms = self._head_norms()
        heads = (config.num_attention_heads, config.num_key_value_heads)
        return PagedLayer(
            attention=AttentionCore(config, self._index),
            input_norm=PagedNorm(self._get("input_layernorm.weight"), eps, backend),
            qkv=make(*self._qkv()),
            head_norm=None if norms is None else stack_head_norms(*norms, *heads).float(),
            out=make(*self._out()),
            post_attention_norm=PagedNorm(
                self._get("post_attention_layernorm.weight"), eps, backend
            ),
            gate_up=make(*self._gate_up()),
            down=make(*self._down()),
            eps=eps,
            backend=backend,
        )

    def _qkv(self) -> _Map:
        names = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        return self._stacked(self._config.qkv_bias, *names)

    def _out(self) -> _Map:
        return self._stacked(self._config.o_bias, "self_attn.o_proj")

    def _gate_up(self) -> _Map:
        return self._stacked(self._config.mlp_bias, "mlp.gate_proj", "mlp.up_proj")

    def _down(self) -> _Map:
        return self._stacked(self._config.mlp_bias, "mlp.down_proj")

    def _head_norms(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        if not self._config.qk_norm:
            return None
        return self._get("self_attn.q_norm.weight"), self._get("self_attn.k_norm.weight")

    def _stacked(self, has_bias: bool, *names: str) -> _Map:
        """Maps of one input as one, their outputs end to end."""
        weight = _joined([self._get(f"{name}.weight") for name in names])
        bias = _joined([self._get(f"{name}.bias") for name in names]) if has_bias else None
        return weight, bias

    def _get(self, name: str) -> torch.Tensor:
        return self._weights.get(f"model.layers.{self._index}.{name}")


def _joined(tensors: list[torch.Tensor]) -> torch.Tensor:
    """End to end along the first dimension; one alone is not copied."""
    return torch.cat(tensors) if len(tensors) > 1 else tensors[0]
