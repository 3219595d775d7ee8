"""A Llama-family model: embeddings, layers of attention and MLP, logits of the last tokens only."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import embedding

from core.model.config import ModelConfig
from core.model.kv_store import KVStore
from core.model.layers import MLP, Attention, Linear, RMSNorm
from core.model.rope import RotaryEmbedding
from core.model.step_inputs import StepInputs


@dataclass(slots=True)
class LlamaLayer:
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    input_norm: RMSNorm
    attention: Attention
    post_attention_norm: RMSNorm
    mlp: MLP

    def __call__(
        self,
        x: torch.Tensor,
        angles: tuple[torch.Tensor, torch.Tensor],
        inputs: StepInputs,
        store: KVStore,
    ) -> torch.Tensor:
        x = x + self.attention(self.input_norm(x), angles, inputs, store)
        return x + self.mlp(self.post_attention_norm(x))


@dataclass(slots=True)
class Llama:
    """The model. Weights are fixed; all that a step changes lies in the KV store."""

    config: ModelConfig
    embed_tokens: torch.Tensor  # [vocab_size, h]
    rope: RotaryEmbedding
    layers: list[LlamaLayer]
    norm: RMSNorm
    lm_head: Linear

    def forward(self, inputs: StepInputs, store: KVStore) -> torch.Tensor:
        """Compute a step's T tokens: hidden states [T, h], before the last norm."""
        x = embedding(inputs.token_ids, self.embed_tokens)  # [T, h]
        angles = self.rope.angles(inputs.positions)  # the same in every layer
        for layer in self.layers:
            x = layer(x, angles, inputs, store)
        return x

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """[L, h] → logits [L, vocab_size]: asked for only where a token is sampled or judged."""
        return self.lm_head(self.norm(hidden_states))
