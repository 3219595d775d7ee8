"""A layer by the compiled kernels (`kernels.cpu`): the same mathematics in a third of the passes.

Eight calls a layer instead of some thirty: a norm, q k v, turn and store, attention, out; a norm,
gate and up, down. Sums that torch rounds to bfloat16 in between stay in float32: the outputs of
`out` and `down` are added to the residual as they are, and probabilities are not rounded. Decoding
tokens read keys and values where they lie; prompts take the same path as without the kernels.

Only for bfloat16 on a CPU that has AVX512-BF16; `compiled_kernels` says where.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from core.model.attention import AttentionCore
from core.model.cache import cache_dir
from core.model.config import ModelConfig
from core.model.kv_store import KVStore
from core.model.step_clock import ATTENTION, LINEAR, OTHER, StepClock
from core.model.step_inputs import DecodeBatch, StepInputs
from kernels.cpu import CpuKernels, PackedWeight, cpu_kernels, pack


def compiled_kernels(
    config: ModelConfig, dtype: torch.dtype, device: torch.device
) -> CpuKernels | None:
    """The kernels, where they can run a model: bfloat16 on a CPU, dimensions in whole pieces."""
    if dtype != torch.bfloat16 or device.type != "cpu" or config.head_dim % 32:
        return None
    if config.hidden_size % 4 or config.intermediate_size % 4:
        return None
    return cpu_kernels(cache_dir())


class CompiledNorm:
    """RMSNorm. [T, h] float32 → [T, h] bfloat16."""

    def __init__(self, kernels: CpuKernels, weight: torch.Tensor, eps: float) -> None:
        self._kernels, self._weight, self._eps = kernels, weight.float(), eps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._kernels.rms_norm(x, self._weight, self._eps)


class CompiledHead:
    """The logits' matrix. [L, h] bfloat16 → [L, vocab_size] float32."""

    def __init__(self, kernels: CpuKernels, weight: torch.Tensor) -> None:
        self._kernels, self._weight = kernels, pack(weight)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._kernels.linear_float32(x, self._weight)


@dataclass(slots=True)
class CompiledLayer:
    """x + attention(norm(x)), then x + mlp(norm(x)): `LlamaLayer`, by the kernels.

    attention: computes prompts, and knows the layer's heads and window. head_norm: [n_q + n_kv, d]
    float32, or None for models without.
    """

    kernels: CpuKernels
    attention: AttentionCore
    input_norm: CompiledNorm
    qkv: PackedWeight
    head_norm: torch.Tensor | None
    out: PackedWeight
    post_attention_norm: CompiledNorm
    gate_up: PackedWeight
    down: PackedWeight
    eps: float

    def __call__(
        self,
        x: torch.Tensor,
        angles: tuple[torch.Tensor, torch.Tensor],
        inputs: StepInputs,
        store: KVStore,
        clock: StepClock,
    ) -> None:
        """Adds to x, [T, h] float32, in place. angles: cos and sin [T, d / 2] float32."""
        attention, kernels = self.attention, self.kernels
        normed = self.input_norm(x)
        clock.lap(OTHER)
        qkv = kernels.linear(normed, self.qkv)
        heads = qkv.view(len(x), -1, attention.head_dim)
        clock.lap(LINEAR)
        self._rotate_and_store(heads, angles, inputs, store)
        clock.lap(OTHER)
        context = self._attend(heads, inputs, store)
        clock.lap(ATTENTION)
        kernels.add_linear(x, context.view(len(x), -1), self.out)
        clock.lap(LINEAR)
        normed = self.post_attention_norm(x)
        clock.lap(OTHER)
        kernels.add_linear(x, kernels.swiglu(normed, self.gate_up), self.down)
        clock.lap(LINEAR)

    def _rotate_and_store(
        self,
        heads: torch.Tensor,
        angles: tuple[torch.Tensor, torch.Tensor],
        inputs: StepInputs,
        store: KVStore,
    ) -> None:
        """heads: [T, n_q + 2 · n_kv, d]; queries and keys are turned in place."""
        attention, kernels, layer = self.attention, self.kernels, self.attention.layer
        slots, norm = inputs.slot_mapping, (self.head_norm, self.eps)
        scales = store.scales[layer]
        if scales is None:
            kernels.rotate_and_store(heads, *angles, slots, store.blocks[layer], *norm)
        else:
            kernels.rotate(heads, *angles, attention.n_kv, *norm)
            if scales.pending:
                scales.take_from(heads[:, attention.n_q :])
            kernels.store_quantised(heads, store.kv_blocks(layer), slots, scales.dynamic)
        if store.measures_error:
            store.measure(layer, heads[:, attention.n_q :], inputs.slot_index)

    def _attend(self, heads: torch.Tensor, inputs: StepInputs, store: KVStore) -> torch.Tensor:
        """heads: [T, n_q + 2 · n_kv, d], turned. Returns [T, n_q, d]."""
        attention = self.attention
        view = inputs.attention[attention.window]
        context = heads.new_empty(len(heads), attention.n_q, attention.head_dim)
        if view.decodes is not None:
            self._decode(heads, view.decodes, store, context)
        if view.prefills:
            attention.prefill(
                heads[:, : attention.n_q] * attention.scale,
                heads[:, attention.n_q :],
                view.prefills,
                store,
                context,
            )
        return context

    def _decode(
        self, heads: torch.Tensor, batch: DecodeBatch, store: KVStore, context: torch.Tensor
    ) -> None:
        """Writes the batch's rows of context."""
        attention, layer = self.attention, self.attention.layer
        where = (
            batch.rows,
            batch.block_table,
            batch.begins,
            batch.ends,
            attention.scale,
            batch.num_keys,
            context,
        )
        if store.quantised(layer):
            self.kernels.paged_decode_quantised(heads, store.kv_blocks(layer), *where)
        else:
            self.kernels.paged_decode(heads, store.blocks[layer], *where)
