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
from core.model.stop_strings import completes_stop_string
from core.model.tokenizer import Tokenizer
from core.request import Sequence
from core.runner import ScheduledSequence, StepBatch, StepOutput, TokenLogprobs
from core.sampling import SampleSpec, request_key, rows_at_once, sample, token_logprobs


class ModelRunner:
    """Implements `core.runner.Runner` with a real model.

    model: a catalogue name or a directory. dtype: "float32" or "bfloat16", of weights and KV alike;
    None: bfloat16. device: "cpu", "cuda", or None for the best at hand. num_blocks, block_size: the
    KV pool. threads: CPU threads, None leaves torch's choice. seed: the scenario's.

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
        return completes_stop_string(
            self.tokenizer, seq.tokens, seq.num_prompt_tokens, seq.request.stop_strings
        )

    @torch.inference_mode()
    def execute(self, batch: StepBatch) -> StepOutput:
        """Copy blocks, compute the step, sample, and judge tokens where requests ask for it."""
        started = time.perf_counter_ns()
        # Copies first: a sequence writes into its own copy of a block, never into the shared one.
        self._pool.copy(batch.copies)
        self._check_token_ids(batch.scheduled)
        inputs = build_step_inputs(batch.scheduled, self._pool.block_size, self.dtype, self.device)
        hidden_states = self.model.forward(inputs, self._pool)
        logits = self.compute_logits(hidden_states.index_select(0, inputs.logits_rows))
        self._synchronize()
        computed = time.perf_counter_ns()
        specs = self._sample_specs(batch.scheduled)
        sampled = sample(logits, specs)
        tokens = iter(sampled)
        output = StepOutput(
            token_ids=[[next(tokens) for _ in range(item.num_samples)] for item in batch.scheduled],
            logprobs=self._logprobs(batch.scheduled, logits, specs, sampled),
            prompt_logprobs=self._prompt_logprobs(batch.scheduled, hidden_states),
        )
        self.forward_us = (computed - started) / 1000
        self.sample_us = (time.perf_counter_ns() - computed) / 1000
        return output

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """[L, h] → logits [L, vocab_size], in the model's dtype."""
        return self.model.compute_logits(hidden_states)

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
                specs.append(
                    SampleSpec(
                        row=row,
                        temperature=spec.temperature,
                        key=key,
                        index=seq.index + twin,
                        position=seq.num_tokens,
                        top_k=spec.top_k,
                        top_p=spec.top_p,
                        min_p=spec.min_p,
                        repetition_penalty=spec.repetition_penalty,
                        tokens=seq.tokens,
                    )
                )
            row += item.num_samples > 0
        return specs

    def _logprobs(
        self,
        scheduled: Seq[ScheduledSequence],
        logits: torch.Tensor,
        specs: Seq[SampleSpec],
        sampled: Seq[int],
    ) -> list[list[TokenLogprobs]]:
        """Of the tokens just sampled, for requests that ask; empty if none does."""
        tops = [item.seq.request.spec.logprobs for item in scheduled]
        if not any(tops):
            return []
        per_token = [
            k for item, k in zip(scheduled, tops, strict=True) for _ in range(item.num_samples)
        ]
        asked = [i for i, k in enumerate(per_token) if k]
        rows = torch.tensor([specs[i].row for i in asked], dtype=torch.int64, device=self.device)
        judged = iter(
            token_logprobs(
                logits.index_select(0, rows),
                [sampled[i] for i in asked],
                [per_token[i] for i in asked],
            )
        )
        return [
            [next(judged) for _ in range(item.num_samples)] if k else []
            for item, k in zip(scheduled, tops, strict=True)
        ]

    def _prompt_logprobs(
        self, scheduled: Seq[ScheduledSequence], hidden_states: torch.Tensor
    ) -> list[list[TokenLogprobs]]:
        """Of the prompt tokens that this step's positions predict and that are not judged yet.

        Position p predicts token p + 1. After a preemption the positions are computed again, but
        what the request has already is not judged twice. Empty if no request asks.
        """
        if not any(item.seq.request.spec.prompt_logprobs for item in scheduled):
            return []
        out: list[list[TokenLogprobs]] = []
        row = 0  # of the sequence's first token in this step
        for item in scheduled:
            seq, request = item.seq, item.seq.request
            first = seq.num_computed_tokens
            begin = max(first, len(request.prompt_logprobs))
            end = min(first + item.num_scheduled_tokens, seq.num_prompt_tokens - 1)
            judged: list[TokenLogprobs] = []
            if request.spec.prompt_logprobs and begin < end:
                judged = self._judge(
                    hidden_states[row + begin - first : row + end - first],
                    seq.tokens[begin + 1 : end + 1].tolist(),
                    request.spec.prompt_logprobs,
                )
            out.append(judged)
            row += item.num_scheduled_tokens
        return out

    def _judge(
        self, hidden_states: torch.Tensor, token_ids: list[int], num_tops: int
    ) -> list[TokenLogprobs]:
        """How likely each token is after its hidden state; in pieces, for logits are large."""
        out: list[TokenLogprobs] = []
        step = rows_at_once(self.config.vocab_size)
        for i in range(0, len(token_ids), step):
            ids = token_ids[i : i + step]
            logits = self.compute_logits(hidden_states[i : i + step])
            out += token_logprobs(logits, ids, [num_tops] * len(ids))
        return out

    def _synchronize(self) -> None:
        """Wait for the device: without it a GPU's time would be counted as sampling."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
