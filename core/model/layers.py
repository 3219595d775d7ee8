"""The parts of a Llama layer: normalisation, rotary positions, linear maps, attention over blocks.

Shapes: T tokens of the step (all sequences end to end), h hidden size, n_q query heads, n_kv KV
heads, g = n_q / n_kv query heads per KV head, d head_dim.
"""

from __future__ import annotations

import torch
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

from core.model.config import ModelConfig
from core.model.kv_store import KVStore
from core.model.packing import pack_weight, packed_linear
from core.model.step_inputs import DecodeBatch, PrefillChunk, StepInputs


class Linear:
    """x → x Wᵀ, no bias. [T, n_in] → [T, n_out].

    weight: [n_out, n_in]. On a CPU the matrix is packed into oneDNN's own layout where that works:
    2 to 3 times as fast in float32. The plain matrix is let go of then.
    """

    def __init__(self, weight: torch.Tensor) -> None:
        self.shape = tuple(weight.shape)
        packed = pack_weight(weight)
        self.packed = packed is not None
        self.weight = weight if packed is None else packed

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return packed_linear(x, self.weight) if self.packed else linear(x, self.weight)


class RMSNorm:
    """x / √(mean(x²) + eps) · weight, mean in float32 (Zhang & Sennrich 2019). [T, h] → [T, h]."""

    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        self.weight = weight
        self.eps = eps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, self.weight.shape, self.weight, self.eps)


class RotaryEmbedding:
    """Turns pairs (i, i + d/2) of a head by position · theta^(−2i/d) (RoFormer, Su et al. 2021).

    A key is turned once, by its own position, before it is stored; so a block can be shared by
    every sequence that has the same tokens at the same positions, and by no other.
    """

    def __init__(self, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> None:
        exponent = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
        self.inverse_frequency = (1.0 / config.rope_theta**exponent).to(device)  # [d/2] float32
        self.dtype = dtype

    def angles(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin at positions [T], as [T, 1, d] each; the sine's first half is negated.

        Computed in float32, once per step for all layers.
        """
        angles = torch.outer(positions.float(), self.inverse_frequency)[:, None]
        cos, sin = angles.cos(), angles.sin()
        return torch.cat((cos, cos), -1).to(self.dtype), torch.cat((-sin, sin), -1).to(self.dtype)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn the heads x [T, n, d] by the angles [T, 1, d] of their tokens."""
    swapped = x.roll(x.shape[-1] // 2, -1)  # the two halves change places
    return x * cos + swapped * sin


class Attention:
    """Causal attention of a step's tokens to their sequences, through block tables."""

    def __init__(self, config: ModelConfig, layer: int, qkv: Linear, out: Linear) -> None:
        self.layer = layer
        self.n_q, self.n_kv = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = config.head_dim
        self.qkv, self.out = qkv, out

    def __call__(
        self,
        x: torch.Tensor,
        angles: tuple[torch.Tensor, torch.Tensor],
        inputs: StepInputs,
        store: KVStore,
    ) -> torch.Tensor:
        """x: [T, h] → [T, h]. Writes K and V of all T tokens, then reads whole contexts."""
        heads = self.qkv(x).view(-1, self.n_q + 2 * self.n_kv, self.head_dim)
        # q and k are turned together, v is not.
        turned = rotate(heads[:, : self.n_q + self.n_kv], *angles)
        query, key = turned[:, : self.n_q], turned[:, self.n_q :]
        value = heads[:, self.n_q + self.n_kv :]
        self._write(key, value, inputs, store)

        if inputs.decodes is not None and not inputs.prefills:
            return self.out(self._decode(query, inputs.decodes, store).flatten(1))
        context = torch.empty_like(query)  # [T, n_q, d]
        if inputs.decodes is not None:
            rows = inputs.decodes.rows
            context[rows] = self._decode(query[rows], inputs.decodes, store)
        for chunk in inputs.prefills:
            own = slice(chunk.start, chunk.end)
            context[own] = self._prefill(query[own], key[own], value[own], chunk, store)
        return self.out(context.flatten(1))

    def _write(
        self, key: torch.Tensor, value: torch.Tensor, inputs: StepInputs, store: KVStore
    ) -> None:
        rows = inputs.write_rows
        if rows is not None:
            key, value = key.index_select(0, rows), value.index_select(0, rows)
        store.write(self.layer, key, value, inputs.slot_mapping)

    def _decode(self, query: torch.Tensor, batch: DecodeBatch, store: KVStore) -> torch.Tensor:
        """One query per sequence. query: [B, n_q, d] → [B, n_q, d].

        The g query heads that share a KV head stand where SDPA expects g query positions: K and V
        are read once per KV head instead of being repeated g times.
        """
        key, value = store.read(self.layer, batch.block_table)  # [B, whole blocks, n_kv, d]
        key, value = key[:, : batch.max_seq_len], value[:, : batch.max_seq_len]  # [B, L, n_kv, d]
        grouped = query.reshape(len(query), self.n_kv, -1, self.head_dim)  # [B, n_kv, g, d]
        context = scaled_dot_product_attention(
            grouped, key.transpose(1, 2), value.transpose(1, 2), attn_mask=batch.mask
        )
        return context.reshape(query.shape)

    def _prefill(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        chunk: PrefillChunk,
        store: KVStore,
    ) -> torch.Tensor:
        """Several tokens of one sequence, at any offset. query: [m, n_q, d] → [m, n_q, d].

        With nothing computed before, the keys are the m just made; otherwise all L are read back
        through the block table, those just written among them.
        """
        if chunk.block_table is not None:
            stored_key, stored_value = store.read(self.layer, chunk.block_table)
            key, value = stored_key[0, : chunk.seq_len], stored_value[0, : chunk.seq_len]
        context = scaled_dot_product_attention(
            query.transpose(0, 1)[None],  # [1, n_q, m, d]
            key.transpose(0, 1)[None],  # [1, n_kv, L, d]
            value.transpose(0, 1)[None],
            attn_mask=chunk.mask,
            is_causal=chunk.mask is None,
            enable_gqa=True,
        )
        return context[0].transpose(0, 1)


class MLP:
    """down(silu(gate(x)) · up(x)) (SwiGLU, Shazeer 2020). gate and up are one map."""

    def __init__(self, gate_up: Linear, down: Linear) -> None:
        self.gate_up, self.down = gate_up, down

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[T, h] → [T, h]."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(silu(gate) * up)
