"""A layer by the compiled kernels (`kernels.cpu`): the same mathematics in a third of the passes.

Eight calls a layer instead of some thirty: a norm, q k v, turn and store, attention, out; a norm,
gate and up, down. Sums that torch rounds to bfloat16 in between stay in float32: the outputs of
`out` and `down` are added to the residual as they are, and probabilities are not rounded. Decoding
tokens read keys and values where they lie; prompts take the same path as without the kernels.

Only for bfloat16 on a CPU that has AVX512-BF16; `compiled_kernels` says where.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from core.model.attention import AttentionCore
from core.model.cache import cache_dir
from core.model.config import ModelConfig
from core.model.kv_store import KVStore
from core.model.step_clock import ATTENTION, LINEAR, OTHER, StepClock
from core.model.step_inputs import StepInputs
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
        attention, norm = self.attention, (self.head_norm, self.eps)
        pool = store.blocks[attention.layer]
        if store.quantised(attention.layer):
            nowhere = torch.full_like(inputs.slot_mapping, -1)
            self.kernels.rotate_and_store(
                heads, *angles, nowhere, _no_pool(attention.n_kv, attention.head_dim), *norm
            )
            store.write(attention.layer, heads[:, attention.n_q :], inputs.slot_index)
            return
        self.kernels.rotate_and_store(heads, *angles, inputs.slot_mapping, pool, *norm)
        if store.measures_error:
            store.measure(attention.layer, heads[:, attention.n_q :], inputs.slot_index)

    def _attend(self, heads: torch.Tensor, inputs: StepInputs, store: KVStore) -> torch.Tensor:
        """heads: [T, n_q + 2 · n_kv, d], turned. Returns [T, n_q, d]."""
        attention = self.attention
        if store.quantised(attention.layer):
            query = heads[:, : attention.n_q] * attention.scale
            return attention.attend(query, heads[:, attention.n_q :], inputs, store)
        pool = store.blocks[attention.layer]
        view = inputs.attention[attention.window]
        context = heads.new_empty(len(heads), attention.n_q, attention.head_dim)
        if view.decodes is not None:
            batch = view.decodes
            self.kernels.paged_decode(
                heads,
                pool,
                batch.rows,
                batch.block_table,
                batch.begins,
                batch.ends,
                attention.scale,
                batch.num_keys,
                context,
            )
        if view.prefills:
            attention.prefill(
                heads[:, : attention.n_q] * attention.scale,
                heads[:, attention.n_q :],
                view.prefills,
                store,
                context,
            )
        return context


@cache
def _no_pool(n_kv: int, d: int) -> torch.Tensor:
    """A pool of one slot that nothing is written to: keys are turned, and stored elsewhere."""
    return torch.zeros(2, 1, n_kv, 1, d, dtype=torch.bfloat16)
