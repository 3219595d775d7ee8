"""The parts of a Llama layer: normalisation, linear maps, attention over blocks.

Shapes: T tokens of the step (all sequences end to end), h hidden size, n_q query heads, n_kv KV
heads, g = n_q / n_kv query heads per KV head, d head_dim.
"""

from __future__ import annotations

import torch
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

from core.model.config import ModelConfig
from core.model.kv_store import KVStore
from core.model.packing import pack_weight, packed_linear
from core.model.rope import rotate
from core.model.step_inputs import DecodeBatch, PrefillChunk, StepInputs


class Linear:
    """x → x Wᵀ + b. [T, n_in] → [T, n_out].

    weight: [n_out, n_in]. bias: [n_out], or None for no b. On a CPU the matrix is packed into
    oneDNN's own layout where that works: 2 to 3 times as fast in float32. The plain matrix is let
    go of then.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.shape = tuple(weight.shape)
        packed = pack_weight(weight)
        self.packed = packed is not None
        self.weight = weight if packed is None else packed
        self.bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.packed:
            return packed_linear(x, self.weight, self.bias)
        return linear(x, self.weight, self.bias)


class RMSNorm:
    """x / √(mean(x²) + eps) · weight, mean in float32 (Zhang & Sennrich 2019). [T, h] → [T, h]."""

    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        self.weight = weight
        self.eps = eps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, self.weight.shape, self.weight, self.eps)


class HeadNorm:
    """RMSNorm over head_dim of each query and key head (Qwen3). [T, n, d] → [T, n, d].

    query, key: weights [d]; every query head has the one, every key head the other, so they are
    laid side by side, [n_q + n_kv, d], for one product.
    """

    def __init__(
        self, query: torch.Tensor, key: torch.Tensor, n_q: int, n_kv: int, eps: float
    ) -> None:
        self.weight = torch.cat((query.expand(n_q, -1), key.expand(n_kv, -1)))
        self.eps = eps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, x.shape[-1:], None, self.eps) * self.weight


class Attention:
    """Causal attention of a step's tokens to their sequences, through block tables.

    head_norm: of queries and keys, None for models without.
    """

    def __init__(
        self,
        config: ModelConfig,
        layer: int,
        qkv: Linear,
        out: Linear,
        head_norm: HeadNorm | None = None,
    ) -> None:
        self.layer = layer
        self.window = config.layer_windows[layer]
        self.head_norm = head_norm
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
        """x: [T, h] → [T, h]. Writes K and V of all T tokens, then reads what is in view."""
        heads = self.qkv(x).view(-1, self.n_q + 2 * self.n_kv, self.head_dim)
        # q and k are normalised and turned together, v is not.
        turned = heads[:, : self.n_q + self.n_kv]
        if self.head_norm is not None:
            turned = self.head_norm(turned)
        turned = rotate(turned, *angles)
        query, key = turned[:, : self.n_q], turned[:, self.n_q :]
        value = heads[:, self.n_q + self.n_kv :]
        self._write(key, value, inputs, store)

        view = inputs.attention[self.window]
        if view.decodes is not None and not view.prefills:
            return self.out(self._decode(query, view.decodes, store).flatten(1))
        context = torch.empty_like(query)  # [T, n_q, d]
        if view.decodes is not None:
            rows = view.decodes.rows
            context[rows] = self._decode(query[rows], view.decodes, store)
        for chunk in view.prefills:
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
        key, value = key[:, : batch.num_keys], value[:, : batch.num_keys]  # [B, L, n_kv, d]
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

        With nothing computed before, the keys are the m just made; otherwise the L in view are read
        back through the block table, those just written among them.
        """
        if chunk.block_table is not None:
            stored_key, stored_value = store.read(self.layer, chunk.block_table)
            key, value = stored_key[0, : chunk.num_keys], stored_value[0, : chunk.num_keys]
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
