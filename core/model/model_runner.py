"""The torch runner: takes what the scheduler decided and computes it.

The scheduler says which tokens of which sequences go into which slots; this turns the decision into
one forward pass and samples from it. It keeps no state of a sequence: everything it needs is in the
batch, and everything that lasts is in the KV store.
"""

from __future__ import annotations

import time
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

import torch

from core.model.cache import load_path, weights_sha256
from core.model.config import ModelConfig
from core.model.device import device_name, pick_device, pick_dtype, processor_name
from core.model.errors import ModelError
from core.model.kv_store import KVStore
from core.model.loader import load_llama
from core.model.step_inputs import build_step_inputs
from core.model.tokenizer import Tokenizer
from core.request import Sequence
from core.runner import Candidate, ScheduledSequence, StepBatch, StepOutput
from core.sampling import SampleSpec, request_key, sample, top_candidates


class ModelRunner:
    """Implements `core.runner.Runner` with a real model.

    model: a catalogue name, a directory or a GGUF file, which is converted into the cache once.
    dtype: "float32" or "bfloat16", of weights and KV alike; None: bfloat16. device: "cpu", "cuda",
    or None for the best at hand. num_blocks, block_size: the KV pool. threads: CPU threads, None
    leaves torch's choice. seed: the scenario's.

    `bind` gives it another pool on the same weights. After each `execute`, `forward_us` and
    `sample_us` hold the step's times in microseconds.

    Raises ModelNotFound, ModelFileError, ModelConfigError, MemoryBudgetError: all ModelError.
    """

    def __init__(
        self,
        model: str | Path,
        dtype: str | None = None,
        device: str | None = None,
        num_blocks: int = 512,
        block_size: int = 16,
        threads: int | None = None,
        seed: int = 0,
    ) -> None:
        directory = load_path(model)
        if threads is not None:
            torch.set_num_threads(threads)
        self.directory = directory
        self.device = pick_device(device)
        self.dtype = pick_dtype(dtype)
        self.tokenizer = Tokenizer(directory)
        self.model = load_llama(directory, self.dtype, self.device)
        self._source = {
            "device": device_name(self.device),
            "processor": processor_name(self.device),
            "dtype": str(self.dtype).removeprefix("torch."),
            "model": directory.name,
            "model_sha256": weights_sha256(directory),
        }
        self.forward_us = 0.0
        self.sample_us = 0.0
        self.bind(num_blocks, block_size, seed)

    def bind(self, num_blocks: int, block_size: int, seed: int = 0) -> None:
        """An empty pool of another shape, and another scenario's seed, on the same weights."""
        self.store: KVStore | None = None  # the old pool goes before the new one is taken
        self.store = KVStore(self.config, num_blocks, block_size, self.dtype, self.device)
        self.seed = seed

    @property
    def config(self) -> ModelConfig:
        return self.model.config

    @property
    def eos_token_ids(self) -> frozenset[int]:
        return frozenset(self.config.eos_token_ids)

    @property
    def source(self) -> dict[str, Any]:
        """device, processor, dtype, model, model_sha256."""
        return dict(self._source)

    @property
    def vocab_size(self) -> int:
        """Token ids are below this."""
        return self.config.vocab_size

    @property
    def max_model_len(self) -> int:
        """Longest context the model was made for, in tokens."""
        return self.config.max_position_embeddings

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of one token's K and V, all layers, in the cache's dtype."""
        return self.config.kv_bytes_per_token(self._source["dtype"])

    @property
    def kv_cache_bytes(self) -> int:
        """Bytes that the pool really takes."""
        return self._pool.num_bytes

    @property
    def sliding_window(self) -> int | None:
        return None

    @property
    def step_timing(self) -> dict[str, float]:
        """`forward_us` and `sample_us` of the last `execute`."""
        return {"forward_us": self.forward_us, "sample_us": self.sample_us}

    @property
    def step_work(self) -> dict[str, int] | None:
        return None

    def tokenize(self, text: str) -> list[int]:
        """Ids of the raw text: no template; a BOS only if the tokenizer adds one."""
        return self.tokenizer.encode(text)

    def token_text(self, token_ids: Seq[int]) -> dict[int, str]:
        return self.tokenizer.token_text(token_ids)

    def hits_stop_string(self, seq: Sequence) -> bool:
        return False

    @torch.inference_mode()
    def execute(self, batch: StepBatch) -> StepOutput:
        """Copy blocks, compute the step, sample."""
        started = time.perf_counter_ns()
        # Copies first: a sequence writes into its own copy of a block, never into the shared one.
        self._pool.copy(batch.copies)
        logits = self.compute_logits(batch.scheduled)
        self._synchronize()
        computed = time.perf_counter_ns()
        tokens = iter(sample(logits, self._sample_specs(batch.scheduled)))
        out = [[next(tokens) for _ in range(item.num_samples)] for item in batch.scheduled]
        candidates = self._candidates(logits, batch.scheduled)
        self.forward_us = (computed - started) / 1000
        self.sample_us = (time.perf_counter_ns() - computed) / 1000
        return StepOutput(out, candidates=candidates)

    @torch.inference_mode()
    def compute_logits(self, scheduled: Seq[ScheduledSequence]) -> torch.Tensor:
        """Write the scheduled tokens' K and V; logits [L, vocab_size] of the L that sample."""
        if not scheduled:
            return torch.empty(0, self.config.vocab_size, dtype=self.dtype, device=self.device)
        self._check_token_ids(scheduled)
        inputs = build_step_inputs(
            scheduled,
            self._pool.block_size,
            self.dtype,
            self.device,
            self.config.layer_windows,
        )
        return self.model.forward(inputs, self._pool)

    @property
    def _pool(self) -> KVStore:
        if self.store is None:
            raise RuntimeError("the runner has no KV pool: the last bind failed")
        return self.store

    def _check_token_ids(self, scheduled: Seq[ScheduledSequence]) -> None:
        """Refuse ids outside the vocabulary here: on a GPU they would end the process."""
        for item in scheduled:
            first = item.seq.num_computed_tokens
            for token in item.seq.tokens[first : first + item.num_scheduled_tokens]:
                if not 0 <= token < self.config.vocab_size:
                    raise ModelError(
                        f"token id {token} is outside the model's vocabulary of "
                        f"{self.config.vocab_size:,}"
                    )

    def _sample_specs(self, scheduled: Seq[ScheduledSequence]) -> list[SampleSpec]:
        """One spec per token to sample; a request about to fork draws n times from one row."""
        specs: list[SampleSpec] = []
        row = 0
        for item in scheduled:
            seq = item.seq
            spec = seq.request.spec
            key = request_key(spec.seed, self.seed, seq.request.order)
            for twin in range(item.num_samples):
                index = seq.index + twin
                specs.append(SampleSpec(row, spec.temperature, key, index, seq.num_tokens))
            row += _has_logits(item)
        return specs

    def _candidates(
        self, logits: torch.Tensor, scheduled: Seq[ScheduledSequence]
    ) -> list[list[Candidate]]:
        """Of each beam its likeliest next tokens; an empty list where there are no beams."""
        if not any(item.num_candidates for item in scheduled):
            return []
        with_logits = [item for item in scheduled if _has_logits(item)]
        rows = [i for i, item in enumerate(with_logits) if item.num_candidates]
        counts = [with_logits[i].num_candidates for i in rows]
        index = torch.tensor(rows, device=logits.device)
        found = iter(top_candidates(logits.index_select(0, index), counts))
        return [next(found) if item.num_candidates else [] for item in scheduled]

    def _synchronize(self) -> None:
        """Wait for the device: without it a GPU's time would be counted as sampling."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _has_logits(item: ScheduledSequence) -> bool:
    """Whether the forward pass returns a row for it."""
    return item.num_samples > 0 or item.num_candidates > 0
