"""The torch runner: takes what the scheduler decided and computes it.

The scheduler says which tokens of which sequences go into which slots; this turns the decision into
one forward pass and samples from it. It keeps no state of a sequence: everything it needs is in the
batch, and everything that lasts is in the KV store.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from core.kv_spec import MODEL, KVDtype, KVSpec
from core.model import calibrate
from core.model.cache import load_path, weights_sha256
from core.model.config import ModelConfig
from core.model.device import check_weights, device_name, pick_device, pick_dtype, processor_name
from core.model.errors import ModelError
from core.model.kv_calibration import kv_amax
from core.model.kv_store import KVStore
from core.model.launched import LaunchedStep, PlainStep
from core.model.llama import Llama
from core.model.loader import load_llama
from core.model.paged_inputs import PagedInputs
from core.model.paged_model import PagedLlama
from core.model.paged_steps import PagedOptions, PagedSteps, PreparedStep
from core.model.step_clock import OTHER, NoClock, StepClock, step_clock
from core.model.step_inputs import StepInputs, build_step_inputs, late_rows
from core.model.step_outputs import PendingOutput, has_logits
from core.model.stop_strings import completes_stop_string
from core.model.tokenizer import Tokenizer
from core.model.work import SequenceWork, StepWork, WorkCounter
from core.request import Sequence
from core.runner import ScheduledSequence, StepBatch, StepOutput
from core.sampling.staging import to_device
from kernels.dispatch import choose


class ModelRunner:
    """Implements `core.runner.Runner` with a real model.

    model: a catalogue name, a directory or a GGUF file, which is converted into the cache once.
    dtype: "float32" or "bfloat16", of weights and KV alike; None: bfloat16. device: "cpu", "cuda",
    or None for the best at hand. num_blocks, block_size: the KV pool. threads: CPU threads, None
    leaves torch's choice. seed: the scenario's. weights: "int8" for the layers' matrices in 8 bits,
    None for all weights in the dtype. kv_dtype: what the KV cache stores (`core.kv_spec`), if not
    numbers of the dtype. measure_kv_error: see `KVStore`. paged: of a model that runs by the
    kernels for GPUs.

    `bind` gives it another pool on the same weights. After each `execute`, `step_timing` and
    `step_work` say how long the step took and what it had to do.

    Raises ModelNotFound, ModelFileError, ModelConfigError, MemoryBudgetError, all ModelError, and
    ScenarioError for a kv_dtype that the model cannot have.
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
        weights: str | None = None,
        kv_dtype: KVDtype = MODEL,
        measure_kv_error: bool = False,
        paged: PagedOptions | None = None,
    ) -> None:
        check_weights(weights)
        directory = load_path(model)
        if threads is not None:
            torch.set_num_threads(threads)
        self.directory = directory
        self.device = pick_device(device)
        self.dtype = pick_dtype(dtype)
        self.tokenizer = Tokenizer(directory)
        options = paged or PagedOptions()
        self.model: Llama | PagedLlama = load_llama(
            directory, self.dtype, self.device, weights == "int8", options.backend
        )
        self._paged = (
            PagedSteps(self.model, self.device, options)
            if isinstance(self.model, PagedLlama)
            else None
        )
        dtype_name = str(self.dtype).removeprefix("torch.")
        self._source: dict[str, Any] = {
            "device": device_name(self.device),
            "processor": processor_name(self.device),
            "dtype": dtype_name,
            "weights": weights or dtype_name,
            "kernels": self._kernels(),
            "model": directory.name,
            "model_sha256": weights_sha256(directory),
        }
        # A run is read elsewhere too: its roofline must be that of the machine it ran on.
        calibration = calibrate.load(self.device)
        ceilings = calibration and calibration.ceilings(self._source["weights"])
        if ceilings is not None:
            self._source["ceilings"] = ceilings
        self._kv_amax: torch.Tensor | None = None
        self._clock: StepClock = NoClock()
        self._newest: PendingOutput | None = None  # of the step launched last
        self.seed = seed
        self.store: KVStore | None = None
        self._work = WorkCounter(self.config, dtype_name, linear=weights)
        self._step_timing: dict[str, float] = {}
        self._step_work: dict[str, int] | None = None
        self.bind(num_blocks, block_size, seed, kv_dtype, measure_kv_error)

    def bind(
        self,
        num_blocks: int,
        block_size: int,
        seed: int = 0,
        kv_dtype: KVDtype = MODEL,
        measure_kv_error: bool = False,
    ) -> None:
        """An empty pool of another shape, and another scenario's seed, on the same weights."""
        self.store = None  # the old pool goes before the new one is taken
        if self._paged is not None:
            self._paged.unbind()  # graphs hold the old pool, too
        self._take(self._new_store(num_blocks, block_size, kv_dtype, measure_kv_error), seed)
        self._newest = None
        if self._paged is not None:
            self._paged.bind(self._pool)

    def capture_graphs(self) -> None:
        """Capture decode steps as CUDA graphs, where there are any (`PagedOptions`): for this pool,
        and for those that are bound later. What chunks of prompts need is compiled, too. Seconds of
        work, for whoever serves or measures."""
        if self._paged is not None:
            if self.device.type == "cuda":
                self._paged.compile(self._pool)
            self._paged.capture(self._pool)

    @property
    def graph_sizes(self) -> list[int]:
        """Batch sizes for which `capture_graphs` captures; empty where it does nothing."""
        return [] if self._paged is None else self._paged.sizes

    @contextmanager
    def lent(
        self,
        num_blocks: int,
        block_size: int,
        seed: int = 0,
        kv_dtype: KVDtype = MODEL,
        measure_kv_error: bool = False,
    ) -> Iterator[None]:
        """Another pool and seed for a while; the present pool comes back with all it holds.

        Raises MemoryBudgetError if both do not fit; then nothing has changed.
        """
        kept = self.store, self.seed, self._work, self._newest
        self._take(self._new_store(num_blocks, block_size, kv_dtype, measure_kv_error), seed)
        try:
            yield
        finally:
            self.store, self.seed, self._work, self._newest = kept

    def _new_store(
        self, num_blocks: int, block_size: int, kv_dtype: KVDtype, measure_error: bool
    ) -> KVStore:
        spec = KVSpec.of(kv_dtype)
        spec.of_layers(self.config.num_hidden_layers)  # refused before a text is computed
        if spec.calibration == "text" and self._kv_amax is None:
            self._kv_amax = kv_amax(self)
        return KVStore(
            self.config,
            num_blocks,
            block_size,
            self.dtype,
            self.device,
            spec,
            self._kv_amax,
            measure_error,
        )

    def _take(self, store: KVStore, seed: int) -> None:
        """Work with this pool and seed from now on."""
        self.store, self.seed = store, seed
        num_layers = self.config.num_hidden_layers
        self._work = WorkCounter(
            self.config,
            self._source["dtype"],
            linear=self._source["weights"],
            kv_layers=[store.token_bytes(layer) for layer in range(num_layers)],
        )

    @property
    def config(self) -> ModelConfig:
        return self.model.config

    @property
    def eos_token_ids(self) -> frozenset[int]:
        return frozenset(self.config.eos_token_ids)

    @property
    def source(self) -> dict[str, Any]:
        """device, processor, dtype, weights, kernels, model, model_sha256; `ceilings`
        (`Calibration.ceilings`) if this machine has been calibrated under these conditions; and
        `decode_graphs`, true, if decode steps of the present pool are graphs."""
        if self._paged is not None and self.store is not None and self._paged.replays(self.store):
            return {**self._source, "decode_graphs": True}
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
        """Bytes of one token's K and V, all layers, as the cache stores them, with the scales that
        a token brings along."""
        return self._pool.bytes_per_token

    @property
    def kv_format(self) -> dict[str, Any] | None:
        """What each layer stores: `layers`, a form for each; `scale` and `calibration`, see
        `core.kv_spec`; `scale_bytes`, of all fixed scales. None if nothing is quantised."""
        store = self._pool
        if not store.spec.quantised:
            return None
        return {
            "layers": list(store.forms),
            "scale": store.spec.scale,
            "calibration": store.spec.calibration,
            "scale_bytes": store.spec.fixed_bytes(store.forms, store.n_kv_heads),
        }

    @property
    def kv_cache_bytes(self) -> int:
        """Bytes that the pool really takes."""
        return self._pool.num_bytes

    @property
    def sliding_window(self) -> int | None:
        return self.config.kv_window

    @property
    def step_timing(self) -> dict[str, float]:
        """Of the step collected last: `forward_us`, its parts `attention_us`, `linear_us` and
        `other_us`, which sum to it, and `sample_us`."""
        return self._step_timing

    @property
    def step_work(self) -> dict[str, int] | None:
        """Of the step collected last; see `core.model.work`. Extra logits of judged prompts are
        left out: they belong to sampling."""
        return self._step_work

    def take_kv_error(self) -> dict[str, list[list[float]]] | None:
        """What storing K and V has cost since the last call (`core.model.kv_error`); None if it is
        not measured."""
        return self._pool.take_error()

    def _kernels(self) -> str:
        """For a run's header: which kernels, and on a GPU why these."""
        if isinstance(self.model, PagedLlama):
            return str(self.model.backend)
        if self.device.type == "cuda":
            return str(choose(self.device, self.dtype, self.config.head_dim))
        return "compiled" if self.model.compiled else "torch"

    def tokenize(self, text: str) -> list[int]:
        """Ids of the raw text: no template; a BOS only if the tokenizer adds one."""
        return self.tokenizer.encode(text)

    def token_text(self, token_ids: Seq[int]) -> dict[int, str]:
        return self.tokenizer.token_text(token_ids)

    def hits_stop_string(self, seq: Sequence) -> bool:
        return completes_stop_string(
            self.tokenizer, seq.tokens, seq.num_prompt_tokens, seq.request.stop_strings
        )

    def execute(self, batch: StepBatch) -> StepOutput:
        """Copy blocks, compute the step, sample, and judge tokens where requests ask for it."""
        return self.collect(self.launch(batch))

    @torch.inference_mode()
    def launch(self, batch: StepBatch) -> LaunchedStep:
        """Begin a step. A GPU is only told what to do: nothing waits for it, unless requests ask
        for log-probabilities or beams. What is to be known of the sequences is read here: they may
        change, and further steps be launched, before `collect`."""
        # Copies first: a sequence writes into its own copy of a block, never into the shared one.
        clock = self._clock = step_clock(self.device)
        if self._paged is not None:
            self._paged.copy(self._pool, batch.copies)
        else:
            self._pool.copy(batch.copies)
        if not batch.scheduled:
            return LaunchedStep(None, None, clock)
        self._check_token_ids(batch.scheduled)
        step = self._prepare(batch.scheduled)
        self._put_late_tokens(batch.scheduled, step.inputs)
        clock.lap(OTHER)
        hidden_states = step.forward(clock)
        logits = self.compute_logits(hidden_states.index_select(0, step.inputs.logits_rows))
        clock.end_forward()
        output = self._newest = PendingOutput(
            batch.scheduled,
            logits,
            hidden_states,
            step.inputs.starts,
            self.compute_logits,
            self.seed,
        )
        clock.end()
        return LaunchedStep(output, self._count(batch.scheduled).as_dict(), clock)

    def collect(self, step: LaunchedStep) -> StepOutput:
        """Wait for a launched step; steps are collected in the order of their launches.

        Sets `step_timing` and `step_work`. Raises FloatingPointError.
        """
        if step.output is None:
            return StepOutput([])
        output = step.output.read()
        self._step_timing, self._step_work = step.clock.read(), step.work
        return output

    @torch.inference_mode()
    def forward(self, scheduled: Seq[ScheduledSequence]) -> torch.Tensor:
        """Compute a step's tokens, T in all, and sample nothing: hidden states [T, h] float32, in
        the order of the batch if no sequence computes one token alone."""
        return self._prepare(scheduled).forward(NoClock())

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """[L, h] → logits [L, vocab_size], in the model's dtype."""
        return self.model.compute_logits(hidden_states, self._clock)

    def _prepare(self, scheduled: Seq[ScheduledSequence]) -> PlainStep | PreparedStep:
        if self._paged is not None:
            return self._paged.prepare(scheduled, self._pool)
        assert isinstance(self.model, Llama)
        inputs = build_step_inputs(
            scheduled,
            self._pool.layout,
            self.dtype,
            self.device,
            self.config.layer_windows,
            self._pool.reads_back,
        )
        return PlainStep(self.model, self._pool, inputs)

    def _put_late_tokens(
        self, scheduled: Seq[ScheduledSequence], inputs: StepInputs | PagedInputs
    ) -> None:
        """Fill in what the step before samples, on the device: nobody else may know it yet."""
        if self._newest is None:
            return
        rows, places = late_rows(scheduled, inputs.starts, self._newest.places)
        if rows:
            index = to_device([rows, places], torch.int64, self.device)
            tokens = self._newest.draft.ids.index_select(0, index[1])
            inputs.token_ids.index_copy_(0, index[0], tokens)

    def _count(self, scheduled: Seq[ScheduledSequence]) -> StepWork:
        return self._work.count(
            SequenceWork(item.num_scheduled_tokens, item.start, has_logits(item))
            for item in scheduled
        )

    @property
    def _pool(self) -> KVStore:
        if self.store is None:
            raise RuntimeError("the runner has no KV pool: the last bind failed")
        return self.store

    def _check_token_ids(self, scheduled: Seq[ScheduledSequence]) -> None:
        """Refuse ids outside the vocabulary here: on a GPU they would end the process."""
        for item in scheduled:
            for token in item.seq.tokens[item.start : item.stop]:
                if not 0 <= token < self.config.vocab_size:
                    raise ModelError(
                        f"token id {token} is outside the model's vocabulary of "
                        f"{self.config.vocab_size:,}"
                    )
