"""The largest magnitudes of a model's keys and values over a text: what static scales are made of.

One forward pass over `core/data/calibration.txt` with an unquantised cache, whose blocks then hold
every key and value that the model made of it. A text that is not served is the point: fixed scales
are chosen before the first request, and what a later token exceeds them by is cut off.
"""

from __future__ import annotations

from array import array
from pathlib import Path

import torch

from core.model.kv_store import KVStore
from core.model.llama import Llama
from core.model.paged_inputs import PagedStep, eager_inputs, keys_per_split
from core.model.paged_model import PagedLlama
from core.model.step_clock import NoClock
from core.model.step_inputs import build_step_inputs
from core.model.tokenizer import Tokenizer
from core.request import Request, Sequence
from core.runner import ScheduledSequence
from core.scenario import RequestSpec

TEXT = Path(__file__).resolve().parent.parent / "data" / "calibration.txt"
MAX_TOKENS = 1024
_BLOCK_SIZE = 16


@torch.inference_mode()
def kv_amax(
    model: Llama | PagedLlama, tokenizer: Tokenizer, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """[layers, 2, n_kv_heads] float32: max |K| and max |V| of each head over the text."""
    limit = min(MAX_TOKENS, model.config.max_position_embeddings)
    tokens = tokenizer.encode(TEXT.read_text(encoding="utf-8"))[:limit]
    num_blocks = -(-len(tokens) // _BLOCK_SIZE)
    store = KVStore(model.config, num_blocks, _BLOCK_SIZE, dtype, device)
    request = Request(RequestSpec(id="calibration"), array("q", tokens), 0)
    seq = Sequence(request, 0, 1)
    seq.block_table = list(range(num_blocks))
    scheduled = [ScheduledSequence(seq, len(tokens), 0)]
    windows = model.config.layer_windows
    if isinstance(model, PagedLlama):
        step = PagedStep.of(scheduled, _BLOCK_SIZE)
        paged = eager_inputs(step, windows, device, keys_per_split(limit))
        model.forward(paged, store, NoClock())
    else:
        inputs = build_step_inputs(scheduled, store.layout, dtype, device, windows)
        model.forward(inputs, store, NoClock())
    # Slots behind the text are 0, which is no key's largest magnitude.
    return torch.stack([layer.abs().amax((1, 3, 4)).float() for layer in store.blocks])
