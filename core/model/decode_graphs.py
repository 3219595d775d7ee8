"""Decode steps as CUDA graphs: hundreds of launches told to the device as one.

A step that computes one token per sequence has the same kernels whatever the tokens are; only the
numbers that they read differ. So the forward pass is captured once for each of some batch sizes,
over inputs that lie in a fixed place, and replayed: the smallest size that holds the batch is
taken, and the rows too many have slot −1 and length 0, which the kernels skip. Launching the
kernels of one step from Python takes longer than a GPU needs to run them.

What a graph cannot hold (a chunk of a prompt, a batch or a context beyond what was captured) runs
as it would without graphs. The logits are never in a graph: they are few rows of many numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import torch

from core.model.kv_store import KVStore
from core.model.paged_inputs import PagedInputs, PagedStep, StepShape, inputs_in, padded_width
from core.model.paged_model import PagedLlama
from core.model.step_clock import NoClock

Capture = Callable[[Callable[[], None]], Callable[[], None]]
"""Work → what does the same work again, on the numbers that lie in the same places then."""

LARGEST = 512
"""Sequences of the largest graph; vLLM stops there, too."""


def captured_sizes(max_num_seqs: int) -> list[int]:
    """1, 2, 4, 8, then every 8th up to 256, then every 16th; the last is max_num_seqs itself.

    At most LARGEST: so many sequences keep a GPU busy for longer than launches take.
    """
    max_num_seqs = min(max_num_seqs, LARGEST)
    sizes = [1, 2, 4, *range(8, 257, 8), *range(272, max_num_seqs + 1, 16)]
    return sorted({*(size for size in sizes if size < max_num_seqs), max_num_seqs})


class CudaCapture:
    """Capture into a `torch.cuda.CUDAGraph`. All graphs work in the same memory: only one runs at a
    time. What is to outlive the replay must be written to memory from before the capture."""

    def __init__(self, device: torch.device) -> None:
        make: Any = torch.cuda.Stream
        self._device, self._side = device, make(device)  # cuBLAS keeps a workspace for each stream
        self._alive: WeakSet[Any] = WeakSet()
        self._pool: Any = None

    def __call__(self, work: Callable[[], None]) -> Callable[[], None]:
        if not self._alive:
            # torch gives a pool up with its last graph, and asserts that its handle is not used
            # again; some of its memory may be in use for longer (cuBLAS's workspace).
            self._pool = torch.cuda.graph_pool_handle()
        # Once outside first, where kernels may be compiled and libraries take their memory.
        present, side = torch.cuda.current_stream(self._device), self._side
        side.wait_stream(present)
        with torch.cuda.stream(side):
            work()
        present.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # Other threads may go on to use the device meanwhile: one asks how much memory is free.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            work()
        self._alive.add(graph)
        replay: Callable[[], None] = graph.replay
        return replay


@dataclass(frozen=True, slots=True)
class _Graph:
    """One size's: where its inputs lie, and what computes them."""

    shape: StepShape
    buffer: torch.Tensor
    replay: Callable[[], None]


class DecodeGraphs:
    """The graphs of one model over one pool.

    sizes: numbers of sequences to capture. max_model_len: of the longest context, in tokens; with
    the pool it bounds the tables. keys_per_split: as `core.model.paged_inputs` has it. Nothing is
    written into the pool while they are made.
    """

    def __init__(
        self,
        model: PagedLlama,
        store: KVStore,
        device: torch.device,
        sizes: list[int],
        max_model_len: int,
        keys_per_split: int,
        capture: Capture,
    ) -> None:
        self.store = store
        self._keys_per_split = keys_per_split
        self._windows = model.config.layer_windows
        most = min(store.num_blocks, -(-max_model_len // store.block_size))
        width = padded_width(most)
        hidden_size = model.config.hidden_size
        self._hidden = torch.zeros(max(sizes), hidden_size, dtype=torch.float32, device=device)
        self._graphs: dict[int, _Graph] = {}
        # One step at a time: all graphs read their inputs from the same memory.
        largest = StepShape(max(sizes), max(sizes), max(sizes), 0, width)
        shared = torch.zeros(largest.size, dtype=torch.int64, device=device)
        # The largest first: what it takes, the others find in the memory that they share.
        for size in sorted(sizes, reverse=True):
            shape = StepShape(size, size, size, 0, width)
            buffer = shared[: shape.size].zero_()
            shape.parts(buffer)[2].fill_(-1)
            inputs = inputs_in(buffer, shape, keys_per_split)

            def work(inputs: PagedInputs = inputs, size: int = size) -> None:
                self._hidden[:size] = model.forward(inputs, store, NoClock())

            self._graphs[size] = _Graph(shape, buffer, capture(work))
        self._sizes = sorted(sizes)

    def size_for(self, step: PagedStep) -> int | None:
        """The smallest size that holds a step; None if no graph can."""
        num = step.num_decodes
        if not step.kept or num < len(step.order) or num > self._sizes[-1]:
            return None
        size = next(size for size in self._sizes if size >= num)
        return size if step.longest_table <= self._graphs[size].shape.width else None

    def place(self, step: PagedStep, size: int) -> PagedInputs:
        """Bring a step to where the graph of that size reads it."""
        graph = self._graphs[size]
        staged = step.stage(graph.shape, self._windows, graph.buffer.device.type == "cuda")
        graph.buffer.copy_(staged, non_blocking=True)
        return inputs_in(graph.buffer, graph.shape, self._keys_per_split, step)

    def replay(self, step: PagedStep, size: int) -> torch.Tensor:
        """Compute what was placed: hidden states [T, h], which the next replay overwrites."""
        self._graphs[size].replay()
        return self._hidden[: step.num_tokens]
