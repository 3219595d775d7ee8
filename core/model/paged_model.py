"""A Llama-family model by the kernels for GPUs (`kernels`): all keys are read through block tables.

Ten calls a layer where torch's operators need some thirty: a norm, q k v, turn and store, decode
and prefill attention, out; a norm, gate and up, their product, down. What a layer's second half
gives is added to the residual stream by the next norm, in the same pass.

Matrices are torch's (cuBLAS). A prompt's own keys are read back from its blocks too, in whatever
format those have: so no number depends on how a prompt was cut, or found in a cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import embedding, silu

from core.model.attention import AttentionCore
from core.model.config import ModelConfig
from core.model.kv_store import KVStore
from core.model.layers import LinearMap
from core.model.paged_inputs import PagedInputs
from core.model.rope import RotaryEmbedding
from core.model.step_clock import ATTENTION, LINEAR, OTHER, StepClock
from kernels.dispatch import Backend
from kernels.kv_blocks import KVBlocks
from kernels.paged_decode import paged_decode
from kernels.paged_prefill import paged_prefill
from kernels.rms_norm import rms_norm
from kernels.rotate_and_store import rotate_and_store
from kernels.store_kv import store_kv


@dataclass(slots=True)
class PagedNorm:
    """x += added, where there is something; RMSNorm of x. weight: [h]."""

    weight: torch.Tensor
    eps: float
    backend: str

    def __call__(self, x: torch.Tensor, added: torch.Tensor | None = None) -> torch.Tensor:
        """x: [T, h] float32, added to in place → [T, h] in the weight's dtype."""
        return rms_norm(x, self.weight, self.eps, added, self.backend)


@dataclass(slots=True)
class PagedLayer:
    """x + attention(norm(x)), then x + mlp(norm(x)); the last sum is left to whoever comes next.

    attention: knows the layer's heads and window. head_norm: [n_q + n_kv, d] float32, or None for
    models without. backend: of the kernels, "triton" or "torch".
    """

    attention: AttentionCore
    input_norm: PagedNorm
    qkv: LinearMap
    head_norm: torch.Tensor | None
    out: LinearMap
    post_attention_norm: PagedNorm
    gate_up: LinearMap
    down: LinearMap
    eps: float
    backend: str

    def __call__(
        self,
        x: torch.Tensor,
        added: torch.Tensor | None,
        angles: tuple[torch.Tensor, torch.Tensor],
        inputs: PagedInputs,
        store: KVStore,
        clock: StepClock,
    ) -> torch.Tensor:
        """x: [T, h] float32. added: [T, h], what is still to be added to x. angles: cos and sin
        [T, d / 2] float32. Returns what is still to be added then."""
        core = self.attention
        normed = self.input_norm(x, added)
        clock.lap(OTHER)
        heads = self.qkv(normed).to(store.dtype).view(len(x), -1, core.head_dim)
        clock.lap(LINEAR)
        blocks = store.kv_blocks(core.layer)
        self._rotate_and_store(heads, blocks, angles, inputs, store)
        clock.lap(OTHER)
        context = self._attend(heads, blocks, inputs, store)
        clock.lap(ATTENTION)
        attended = self.out(context.flatten(1))
        clock.lap(LINEAR)
        normed = self.post_attention_norm(x, attended)
        clock.lap(OTHER)
        gate, up = self.gate_up(normed).chunk(2, dim=-1)
        clock.lap(LINEAR)
        activated = silu(gate).mul_(up)
        clock.lap(OTHER)
        out = self.down(activated)
        clock.lap(LINEAR)
        return out

    def _rotate_and_store(
        self,
        heads: torch.Tensor,
        blocks: KVBlocks,
        angles: tuple[torch.Tensor, torch.Tensor],
        inputs: PagedInputs,
        store: KVStore,
    ) -> None:
        """heads: [T, n_q + 2 · n_kv, d]; queries and keys are turned in place."""
        core, slots = self.attention, inputs.slot_mapping
        key_value = heads[:, core.n_q :]
        scales = store.scales[core.layer]
        dynamic = store.dynamic(core.layer)
        norm = (self.head_norm, self.eps)
        if scales is not None and scales.pending and inputs.at_hand is None:
            # The first tokens decide the scales; so they are turned first, and stored then.
            nowhere = torch.full_like(slots, -1)
            rotate_and_store(heads, *angles, blocks, nowhere, *norm, dynamic, self.backend)
            scales.take_from(key_value)
            key, value = key_value.chunk(2, 1)
            store_kv(key, value, blocks, slots, dynamic, self.backend)
        else:
            rotate_and_store(heads, *angles, blocks, slots, *norm, dynamic, self.backend)
        if store.measures_error and inputs.at_hand is None:
            store.measure(core.layer, key_value, store.layout.slot_index(slots))

    def _attend(
        self, heads: torch.Tensor, blocks: KVBlocks, inputs: PagedInputs, store: KVStore
    ) -> torch.Tensor:
        """heads: [T, n_q + 2 · n_kv, d], turned. Returns [T, n_q, d]."""
        core = self.attention
        query = heads[:, : core.n_q]
        if inputs.at_hand is not None:
            context = query.new_empty(query.shape)
            chunks = inputs.at_hand[core.window]
            core.prefill(query * core.scale, heads[:, core.n_q :], chunks, store, context)
            return context
        done = []
        num_decodes = 0 if inputs.decodes is None else len(inputs.decodes.seq_lens)
        if inputs.decodes is not None:
            done.append(
                paged_decode(
                    query[:num_decodes],
                    blocks,
                    *inputs.decodes,
                    core.scale,
                    core.window,
                    inputs.keys_per_split,
                    self.backend,
                )
            )
        if inputs.chunks is not None:
            assert inputs.query_start_loc is not None
            done.append(
                paged_prefill(
                    query[num_decodes:],
                    blocks,
                    inputs.chunks.block_table,
                    inputs.query_start_loc,
                    inputs.chunks.seq_lens,
                    inputs.max_query_len,
                    core.scale,
                    core.window,
                    self.backend,
                )
            )
        return done[0] if len(done) == 1 else torch.cat(done)


@dataclass(slots=True)
class PagedLlama:
    """The model: `core.model.llama.Llama`, by the kernels. backend: which, and why."""

    config: ModelConfig
    embed_tokens: torch.Tensor  # [vocab_size, h]
    rope: RotaryEmbedding
    layers: list[PagedLayer]
    norm: PagedNorm
    lm_head: LinearMap
    backend: Backend

    def forward(self, inputs: PagedInputs, store: KVStore, clock: StepClock) -> torch.Tensor:
        """Compute a step's T tokens: hidden states [T, h] float32, before the last norm."""
        x = embedding(inputs.token_ids, self.embed_tokens).float()  # [T, h]
        angles = self.rope.half_angles(inputs.positions)  # the same in every layer
        added = None
        for layer in self.layers:
            added = layer(x, added, angles, inputs, store, clock)
        if added is not None:
            x += added
        clock.lap(OTHER)
        return x

    def compute_logits(self, hidden_states: torch.Tensor, clock: StepClock) -> torch.Tensor:
        """[L, h] → logits [L, vocab_size]: asked for only where a token is sampled or judged."""
        normed = self.norm(hidden_states)
        clock.lap(OTHER)
        logits = self.lm_head(normed)
        clock.lap(LINEAR)
        return logits
