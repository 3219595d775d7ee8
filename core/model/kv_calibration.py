"""The largest magnitudes of a model's keys and values over a text: what static scales are made of.

One forward pass over `core/data/calibration.txt` with an unquantised cache, whose blocks then hold
every key and value that the model made of it. A text that is not served is the point: fixed scales
are chosen before the first request, and what a later token exceeds them by is cut off.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from core.model.read_text import BLOCK_SIZE, hidden_states_of

if TYPE_CHECKING:
    from core.model.model_runner import ModelRunner

TEXT = Path(__file__).resolve().parent.parent / "data" / "calibration.txt"
MAX_TOKENS = 1024


@torch.inference_mode()
def kv_amax(runner: ModelRunner) -> torch.Tensor:
    """[layers, 2, n_kv_heads] float32: max |K| and max |V| of each head over the text."""
    tokens = runner.tokenize(TEXT.read_text(encoding="utf-8"))
    tokens = tokens[: min(MAX_TOKENS, runner.max_model_len)]
    with runner.lent(-(-len(tokens) // BLOCK_SIZE), BLOCK_SIZE):
        for _ in hidden_states_of(runner, tokens):
            pass
        assert runner.store is not None
        # Slots behind the text are 0, which is no key's largest magnitude.
        return torch.stack([one.abs().amax((1, 3, 4)).float() for one in runner.store.blocks])
