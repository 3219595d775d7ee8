"""Causal attention of a step's tokens to their sequences, through block tables.

Shapes: T tokens of the step (all sequences end to end), h hidden size, n_q query heads, n_kv KV
heads, g = n_q / n_kv query heads per KV head, d head_dim.

The g query heads that share a KV head are rows of one matrix: K and V are read once per KV head,
and never repeated g times. A decode batch is then B · n_kv small products [g, d] · [d, L], whole
prompts are n_kv products of many rows. Both are plain batched matrix products and a softmax: on a
CPU 2 to 3 times as fast in bfloat16 as torch's fused attention, which has no matrix kernel of its
own for so few rows there and repeats K and V for grouped queries.
"""

from __future__ import annotations

from functools import cache

import torch
from torch.nn.functional import scaled_dot_product_attention

from core.model.config import ModelConfig
from core.model.kv_store import KVStore
from core.model.layers import HeadNorm, LinearMap
from core.model.rope import rotate
from core.model.step_clock import ATTENTION, LINEAR, OTHER, StepClock
from core.model.step_inputs import DecodeBatch, PrefillChunk, StepInputs

_TILE = 128
"""Queries of one prompt that are scored at once: the fewer, the less of the hidden half of the
square is computed; the more, the larger the products. 64 to 128 was fastest for 512 tokens."""

_MAX_SCORES = 1 << 25
"""Scores held at once; a longer context gets narrower tiles."""

_FEW_KEYS = 256
"""Up to so many keys in a decode batch torch's fused attention wins: one call instead of three."""


class AttentionCore:
    """Between the maps: queries meet the keys and values of one layer's pool."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        self.layer = layer
        self.window = config.layer_windows[layer]
        self.n_q, self.n_kv = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = config.head_dim
        self.scale = config.head_dim**-0.5

    def attend(
        self, query: torch.Tensor, key_value: torch.Tensor, inputs: StepInputs, store: KVStore
    ) -> torch.Tensor:
        """query: [T, n_q, d], scaled. key_value: [T, 2 · n_kv, d]. Returns [T, n_q, d]."""
        view = inputs.attention[self.window]
        if view.decodes is not None and not view.prefills:
            return self._decode(query, view.decodes, store)
        context = torch.empty_like(query)
        if view.decodes is not None:
            rows = view.decodes.rows
            context[rows] = self._decode(query[rows], view.decodes, store)
        self.prefill(query, key_value, view.prefills, store, context)
        return context

    def prefill(
        self,
        query: torch.Tensor,
        key_value: torch.Tensor,
        chunks: list[PrefillChunk],
        store: KVStore,
        context: torch.Tensor,
    ) -> None:
        """The chunks of a step, one by one. Writes their rows of context, [T, n_q, d].

        query: [T, n_q, d], scaled. key_value: [T, 2 · n_kv, d]; what is kept is in the store too.
        """
        for chunk in chunks:
            own = slice(chunk.start, chunk.end)
            self._prefill(query[own], key_value[own], chunk, store, context[own])

    def _decode(self, query: torch.Tensor, batch: DecodeBatch, store: KVStore) -> torch.Tensor:
        """One query per sequence. query: [B, n_q, d], scaled → [B, n_q, d]."""
        b = len(query)
        stored = store.read(self.layer, batch.block_index, b)
        if b * batch.num_keys <= _FEW_KEYS:
            rows = query.view(b, self.n_kv, -1, self.head_dim)
            key, value = stored
            context = scaled_dot_product_attention(
                rows, key, value, attn_mask=batch.mask, scale=1.0
            )
            return context.reshape(query.shape)
        key, value = stored.flatten(1, 2)  # [B · n_kv, L, d] each
        scores = torch.bmm(query.view(b * self.n_kv, -1, self.head_dim), key.transpose(1, 2))
        if batch.mask is not None:
            scores.view(b, self.n_kv, -1, batch.num_keys).add_(batch.mask)
        return torch.bmm(torch.softmax(scores, -1), value).view(query.shape)

    def _prefill(
        self,
        query: torch.Tensor,
        key_value: torch.Tensor,
        chunk: PrefillChunk,
        store: KVStore,
        context: torch.Tensor,
    ) -> None:
        """Several tokens of one sequence, at any offset. Writes into context, [m, n_q, d].

        query: [m, n_q, d], scaled. key_value: [m, 2 · n_kv, d]. With nothing computed before, the
        keys are the m just made, unless the cache rounds them; otherwise the L in view are read
        back through the block table, those just written among them. Tile by tile of queries: keys
        after the tile are not scored.
        """
        m, length = len(query), chunk.num_keys
        if chunk.block_index is None:
            by_head = key_value.transpose(0, 1).contiguous()
            key, value = by_head[: self.n_kv], by_head[self.n_kv :]
        else:
            key, value = store.read(self.layer, chunk.block_index, 1)[:, 0]  # [n_kv, L or more, d]
        key = key.transpose(1, 2)
        grouped = query.view(m, self.n_kv, -1, self.head_dim).permute(1, 2, 0, 3)
        out = context.view(m, self.n_kv, -1, self.head_dim).permute(1, 2, 0, 3)
        tile = max(1, min(_TILE, _MAX_SCORES // (self.n_q * length)))
        for start in range(0, m, tile):
            end = min(m, start + tile)
            seen = length - m + end  # keys up to the tile's last query
            rows = grouped[:, :, start:end]  # [n_kv, g, rows, d]
            scores = torch.bmm(rows.flatten(1, 2), key[:, :, :seen])
            masked = scores.view(*rows.shape[:3], seen)
            if chunk.mask is not None:
                masked.add_(chunk.mask[start:end, :seen])
            else:
                masked[..., seen - (end - start) :].add_(
                    _upper_triangle(query.dtype, query.device)[: end - start, : end - start]
                )
            part = torch.bmm(torch.softmax(scores, -1), value[:, :seen])
            out[:, :, start:end] = part.view(rows.shape)


class Attention:
    """One layer's attention. head_norm: of queries and keys, None for models without."""

    def __init__(
        self,
        core: AttentionCore,
        qkv: LinearMap,
        out: LinearMap,
        head_norm: HeadNorm | None = None,
    ) -> None:
        self.core = core
        self.head_norm = head_norm
        self.qkv, self.out = qkv, out

    def __call__(
        self,
        x: torch.Tensor,
        angles: tuple[torch.Tensor, torch.Tensor],
        inputs: StepInputs,
        store: KVStore,
        clock: StepClock,
    ) -> torch.Tensor:
        """x: [T, h] → [T, h]. Writes K and V of all T tokens, then reads what is in view."""
        core = self.core
        qkv = self.qkv(x).to(store.dtype)  # int8 products are float32
        heads = qkv.view(-1, core.n_q + 2 * core.n_kv, core.head_dim)
        clock.lap(LINEAR)
        # q and k are normalised and turned together, v is not. They return to where they were: k
        # and v then lie side by side, as they are written.
        own = heads[:, : core.n_q + core.n_kv]
        rotate(own if self.head_norm is None else self.head_norm(own), *angles, out=own)
        query = heads[:, : core.n_q] * core.scale
        key_value = heads[:, core.n_q :]  # [T, 2 · n_kv, d]
        clock.lap(OTHER)
        rows = inputs.write_rows
        written = key_value if rows is None else key_value.index_select(0, rows)
        store.write(core.layer, written, inputs.slot_index)
        context = core.attend(query, key_value, inputs, store)
        clock.lap(ATTENTION)
        out = self.out(context.flatten(1))
        clock.lap(LINEAR)
        return out


@cache
def _upper_triangle(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """[_TILE, _TILE]: 0 up to the diagonal, −∞ after it."""
    return torch.full((_TILE, _TILE), float("-inf"), dtype=dtype, device=device).triu_(1)
