"""A Llama-family model: embeddings, layers of attention and MLP, logits of the last tokens only."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import embedding

from core.model.attention import Attention
from core.model.compiled import CompiledLayer
from core.model.config import ModelConfig
from core.model.kv_store import KVStore
from core.model.layers import MLP, LinearMap, RMSNorm
from core.model.rope import RotaryEmbedding
from core.model.step_clock import LINEAR, OTHER, StepClock
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
        clock: StepClock,
    ) -> None:
        """Adds to x, [T, h] float32, in place."""
        x += self.attention(self.input_norm(x), angles, inputs, store, clock)
        normed = self.post_attention_norm(x)
        clock.lap(OTHER)
        x += self.mlp(normed, clock)


@dataclass(slots=True)
class Llama:
    """The model. Weights are fixed; all that a step changes lies in the KV store.

    The residual stream x is float32 whatever the model's dtype: 61 additions into a bfloat16 number
    would round it 61 times, and the norms read it in float32 anyway.
    """

    config: ModelConfig
    embed_tokens: torch.Tensor  # [vocab_size, h]
    rope: RotaryEmbedding
    layers: list[LlamaLayer] | list[CompiledLayer]
    norm: LinearMap
    lm_head: LinearMap

    @property
    def compiled(self) -> bool:
        """Whether the layers run by the compiled kernels."""
        return isinstance(self.layers[0], CompiledLayer)

    def forward(self, inputs: StepInputs, store: KVStore, clock: StepClock) -> torch.Tensor:
        """Compute a step's T tokens: hidden states [T, h] float32, before the last norm."""
        x = embedding(inputs.token_ids, self.embed_tokens).float()  # [T, h]
        turn = self.rope.half_angles if self.compiled else self.rope.angles
        angles = turn(inputs.positions)  # the same in every layer
        for layer in self.layers:
            layer(x, angles, inputs, store, clock)
        clock.lap(OTHER)
        return x

    def compute_logits(self, hidden_states: torch.Tensor, clock: StepClock) -> torch.Tensor:
        """[L, h] → logits [L, vocab_size]: asked for only where a token is sampled or judged."""
        normed = self.norm(hidden_states)
        clock.lap(OTHER)
        logits = self.lm_head(normed)
        clock.lap(LINEAR)
        return logits
