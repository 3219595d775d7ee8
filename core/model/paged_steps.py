"""How the steps of a `PagedLlama` are computed: kernel by kernel, or as a graph."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import torch

from core.model.decode_graphs import Capture, CudaCapture, DecodeGraphs, captured_sizes
from core.model.errors import MemoryBudgetError
from core.model.kv_store import KVStore
from core.model.made_up_steps import made_up_step
from core.model.paged_inputs import (
    PagedInputs,
    PagedStep,
    eager_inputs,
    inputs_at_hand,
    keys_per_split,
)
from core.model.paged_model import PagedLlama
from core.model.step_clock import NoClock, StepClock
from core.runner import ScheduledSequence
from core.sampling.staging import to_device
from kernels.copy_blocks import copy_blocks
from kernels.dispatch import Backend

_CHUNKS = (16, 32, 64, 128)
"""Queries of a tile of prefill attention, from the least to the most."""


@dataclass(frozen=True, slots=True)
class PagedOptions:
    """What steps a `PagedLlama` is made ready for.

    backend: of the kernels, wherever they run; None: Triton where `kernels.dispatch` says so.
    max_num_seqs: sequences of a decode step, for which graphs are captured. max_model_len: of the
    longest context in tokens; None: what the model was made for. enforce_eager: no graphs (vLLM's
    name). capture: how graphs are made; None: by CUDA, and not at all on a CPU.
    """

    backend: Backend | None = None
    max_num_seqs: int = 64
    max_model_len: int | None = None
    enforce_eager: bool = False
    capture: Capture | None = None


class PagedSteps:
    """Prepares steps of one model, and computes them.

    `capture` makes the graphs of a pool. In another pool, for a while, steps run without.
    """

    def __init__(self, model: PagedLlama, device: torch.device, options: PagedOptions) -> None:
        self._model, self._device = model, device
        self._windows = model.config.layer_windows
        longest = model.config.max_position_embeddings
        self._max_model_len = min(longest, options.max_model_len or longest)
        self._keys_per_split = keys_per_split(self._max_model_len)
        self._sizes: list[int] = []
        self._capture = options.capture
        if self._capture is None and device.type == "cuda":
            self._capture = CudaCapture(device)
        if self._capture is not None and not options.enforce_eager:
            self._sizes = captured_sizes(options.max_num_seqs)
        self._graphs: DecodeGraphs | None = None
        self._captures = False
        self._waiting: KVStore | None = None

    @property
    def sizes(self) -> list[int]:
        """Numbers of sequences for which graphs are captured; empty without."""
        return self._sizes

    def replays(self, store: KVStore) -> bool:
        """Whether a pool's decode steps are graphs, now or once its scales are fixed."""
        made_for = self._waiting if self._graphs is None else self._graphs.store
        return made_for is store

    def bind(self, store: KVStore) -> None:
        """Another pool: graphs that were captured over the one before are captured over it."""
        if self._captures:
            self.capture(store)

    @torch.inference_mode()
    def capture(self, store: KVStore) -> None:
        """Capture the graphs of a pool, now and of every pool that is bound later.

        A pool whose scales the first step decides has its graphs after it; one that measures what
        it stores has none: a graph would measure its padding too.
        """
        self._graphs = self._waiting = None
        if not self._sizes or store.measures_error:
            return
        assert self._capture is not None
        self._captures = True
        if _has_pending_scales(store):
            self._waiting = store
            return
        try:
            self._graphs = DecodeGraphs(
                self._model,
                store,
                self._device,
                self._sizes,
                self._max_model_len,
                self._keys_per_split,
                self._capture,
            )
        except torch.OutOfMemoryError as error:
            raise MemoryBudgetError(
                "no memory is left for the graphs of decode steps: lower gpu_memory_utilization, "
                "num_blocks or max_num_seqs, or set enforce_eager"
            ) from error

    def unbind(self) -> None:
        """Let go of the pool, which graphs hold too."""
        self._graphs = self._waiting = None

    @torch.inference_mode()
    def compile(self, store: KVStore) -> None:
        """Compute chunks of all sizes that have kernels of their own, beside a decode, so that none
        is compiled when a request comes. Nothing is written into the pool."""
        if store.measures_error or _has_pending_scales(store):
            return  # what is stored nowhere would be measured, or decide the scales
        for count in _CHUNKS:
            batch = made_up_step([(0, count), (0, 1)], store.block_size)
            step = PagedStep.of(batch.scheduled, store.block_size)
            inputs = eager_inputs(step, self._windows, self._device, self._keys_per_split)
            inputs.slot_mapping.fill_(-1)
            self._model.forward(inputs, store, NoClock())

    def copy(self, store: KVStore, copies: Seq[tuple[int, int]]) -> None:
        """`KVStore.copy`, one kernel for all copies of a layer instead of one for each."""
        if not copies:
            return
        sources, destinations = (
            to_device(blocks, torch.int64, self._device) for blocks in zip(*copies, strict=True)
        )
        backend = self._model.backend.name
        for layer, scales in zip(store.blocks, store.scales, strict=True):
            copy_blocks(layer, sources, destinations, backend)
            if scales is not None and scales.dynamic:
                copy_blocks(scales.scale, sources, destinations, backend)

    def prepare(self, scheduled: Seq[ScheduledSequence], store: KVStore) -> PreparedStep:
        """Sort a step, and bring its numbers to the device."""
        step = PagedStep.of(scheduled, store.block_size)
        if not step.kept:
            inputs = inputs_at_hand(step, store.layout, store.dtype, self._device, self._windows)
            return PreparedStep(self._model, store, step, inputs)
        if self._waiting is store and not _has_pending_scales(store):
            self.capture(store)
        if self._graphs is not None and self._graphs.store is store:
            size = self._graphs.size_for(step)
            if size is not None:
                inputs = self._graphs.place(step, size)
                return PreparedStep(self._model, store, step, inputs, self._graphs, size)
        inputs = eager_inputs(step, self._windows, self._device, self._keys_per_split)
        return PreparedStep(self._model, store, step, inputs)


def _has_pending_scales(store: KVStore) -> bool:
    return any(scales is not None and scales.pending for scales in store.scales)


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """A step whose numbers are on the device. graphs, size: of the graph that computes it."""

    model: PagedLlama
    store: KVStore
    step: PagedStep
    inputs: PagedInputs
    graphs: DecodeGraphs | None = None
    size: int = 0

    def forward(self, clock: StepClock) -> torch.Tensor:
        """Hidden states [T, h] float32, before the last norm."""
        if self.graphs is None:
            return self.model.forward(self.inputs, self.store, clock)
        clock.whole()
        return self.graphs.replay(self.step, self.size)
