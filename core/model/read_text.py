"""A given text through the model, chunk by chunk, without a scheduler: nothing is sampled."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from collections.abc import Sequence as Listing
from typing import TYPE_CHECKING

import torch

from core.request import Request, Sequence
from core.runner import ScheduledSequence
from core.scenario import RequestSpec

if TYPE_CHECKING:
    from core.model.model_runner import ModelRunner

BLOCK_SIZE = 16
"""Of the pool that the runner must be bound to; it needs ⌈number of tokens / 16⌉ blocks."""

_CHUNK = 256


def hidden_states_of(runner: ModelRunner, tokens: Listing[int]) -> Iterator[torch.Tensor]:
    """Hidden states [chunk, h] of a text's tokens, in blocks 0, 1, … of an empty pool."""
    seq = Sequence(Request(RequestSpec(id="text"), array("q", tokens), 0), 0, 1)
    seq.block_table = list(range(-(-len(tokens) // BLOCK_SIZE)))
    for start in range(0, len(tokens), _CHUNK):
        count = min(_CHUNK, len(tokens) - start)
        seq.num_computed_tokens = start
        yield runner.forward([ScheduledSequence(seq, count, 0)])
