"""What a model by the kernels for GPUs must do, wherever they run: the tokens of torch's own path.

`journeys` drives a runner through all that can happen to a sequence; `compare` holds two runners'
against each other. The same checks run by the kernels' twins, in Triton's interpreter and on a GPU.
"""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager

import families
import pytest
import torch
from model_driver import Driver, generate
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from core.model import paged_model
from core.model.model_runner import ModelRunner
from core.model.paged_steps import PagedOptions
from core.runner import StepBatch
from kernels.dispatch import Backend

# Windows in all layers, in some, and none; norms of heads, biases, tied embeddings.
NAMES = ["llama-biases", "mistral-window", "qwen2-window", "qwen3-layer-types", "llama-mqa-tied"]
PROMPTS = [list(range(9, 60)), [5, 6, 7], [200, 100, 50, 25] * 4, [3]]
NUM_BLOCKS, BLOCK_SIZE = 128, 4


class ReRun:
    """Stands in for a CUDA graph: runs what was captured again. It counts the replays.

    Like a graph it sees nothing of what is new: only what lies in the same memory as before.
    """

    def __init__(self):
        self.replays = []

    def __call__(self, work):
        work()
        number = len(self.replays)
        self.replays.append(0)

        def replay():
            self.replays[number] += 1
            work()

        return replay


class Tape:
    """Stands in for a CUDA graph, and is as blind: what is replayed are the operations on tensors,
    with the arguments that they had, into the memory that they had. Python between them, and
    whatever it decided, is not run again.

    The kernels of a layer are single operations here, as they are on a GPU: their twins look at
    numbers on the way.
    """

    def __init__(self):
        self.replays = []

    def __call__(self, work):
        work()
        tape = []
        with recorded(tape):
            work()
        number = len(self.replays)
        self.replays.append(0)

        def replay():
            self.replays[number] += 1
            for operation, args, kwargs, out in tape:
                _write(operation(*args, **kwargs), out)

        return replay


class _Recorder(TorchDispatchMode):
    def __init__(self, tape):
        super().__init__()
        self._tape = tape

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        out = operation(*args, **(kwargs or {}))
        self._tape.append((operation, args, kwargs or {}, out))
        return out


@contextmanager
def recorded(tape):
    """Operations on tensors are noted meanwhile; a kernel of a layer is one of them."""
    with _Recorder(tape), _opaque_kernels(tape):
        yield


@contextmanager
def _opaque_kernels(tape):
    def opaque(kernel):
        def call(*args, **kwargs):
            with _disable_current_modes():
                out = kernel(*args, **kwargs)
            tape.append((kernel, args, kwargs, out))
            return out

        return call

    names = ("rms_norm", "rotate_and_store", "paged_decode", "paged_prefill", "store_kv")
    with pytest.MonkeyPatch.context() as patched:
        for name in names:
            patched.setattr(paged_model, name, opaque(getattr(paged_model, name)))
        yield


def _write(new, out):
    """A result to where the first one was, unless it is there: of a view, or in place."""
    if isinstance(out, torch.Tensor):
        if new.data_ptr() != out.data_ptr():
            out.copy_(new)
    elif out is not None:
        for one, other in zip(new, out, strict=True):
            _write(one, other)


def paged_runner(directory, backend="torch", device="cpu", dtype="float32", **options):
    """options: of `PagedOptions`."""
    named = None if backend is None else Backend(backend, "named")
    options = {"max_num_seqs": 6, "max_model_len": 96, **options}
    paged = PagedOptions(backend=named, **options)
    runner = ModelRunner(directory, dtype, device, NUM_BLOCKS, BLOCK_SIZE, paged=paged)
    runner.capture_graphs()
    return runner


def plain_runner(directory):
    return ModelRunner(directory, "float32", "cpu", NUM_BLOCKS, BLOCK_SIZE)


def tiny_model(name, directory):
    return families.FAMILIES[name](directory / name)


def journeys(runner, short=False, cache_off=True):
    """name → (tokens of each sequence, logits [n, vocab_size]). short: what takes few steps.
    cache_off: also without a KV cache."""
    out = {}

    def note(name, driver, sequences):
        rows = [torch.stack(driver.logits[seq.id]).cpu() for seq in sequences]
        out[name] = [seq.output_tokens for seq in sequences], torch.cat(rows)

    if not short:
        tokens, logits = generate(runner, PROMPTS, 8, num_blocks=NUM_BLOCKS)
        out["together"] = tokens, torch.cat(logits).cpu()
    mixed(runner, note, 3 if short else 6)
    hits(runner, note, 2 if short else 6)
    forks(runner, note, 2 if short else 6)
    if not short:
        preempted(runner, note)
    if cache_off and not short:
        without_cache(runner, note)
    return out


def mixed(runner, note, num_outputs):
    runner.bind(NUM_BLOCKS, BLOCK_SIZE)
    driver = Driver(runner, seed=3)
    first, second = driver.add(list(range(100, 112))), driver.add(list(range(30, 52)))
    third = driver.add([7, 8])
    driver.step([(first, 12)])
    driver.step([(second, 5), (first, 1), (third, 2)])
    driver.step([(first, 1), (second, 1), (third, 1)])  # a chunk of one token is no new token
    driver.step([(second, 16), (third, 1), (first, 1)])
    driver.run([third, second, first], num_outputs)
    note("chunks and decodes in one step", driver, [first, second, third])


def hits(runner, note, num_outputs):
    runner.bind(NUM_BLOCKS, BLOCK_SIZE)
    driver = Driver(runner, seed=4)
    common = [11, 22, 33, 44, 55, 66, 77, 88, 99]
    first = driver.add([*common, 5, 6])
    driver.run([first], 2)
    second, third = driver.add([*common, 200, 201]), driver.add(common)
    driver.share_prefix(second, first, 2)
    driver.share_prefix(third, first, 2)
    driver.run([second, third, first], num_outputs)
    note("prefix hits", driver, [first, second, third])


def forks(runner, note, num_outputs):
    runner.bind(NUM_BLOCKS, BLOCK_SIZE)
    driver = Driver(runner, seed=1)
    unit = driver.add([40, 41, 42, 43, 44, 45], n=3, temperature=5.0)
    driver.step([(unit, 6)])
    twins = driver.fork(unit, 3, [8, 9, 10])
    unit.request.spec = dataclasses.replace(unit.request.spec, temperature=0.0)
    driver.logits.clear()
    driver.run(twins, num_outputs)
    note("forks", driver, twins)


def preempted(runner, note):
    runner.bind(NUM_BLOCKS, BLOCK_SIZE)
    driver = Driver(runner, seed=5)
    sequences = [driver.add(p) for p in PROMPTS[:3]]
    for target in (2, 4, 6):
        driver.run(sequences, target, chunk=7)
        driver.preempt(sequences[target // 2 - 1])
    driver.run(sequences, 8)
    note("preempted", driver, sequences)


def without_cache(runner, note):
    runner.bind(NUM_BLOCKS, BLOCK_SIZE)
    driver = Driver(runner)
    driver.reserve = lambda seq, num_tokens: None
    sequences = [driver.add(p) for p in PROMPTS]
    for _ in range(3):
        driver.step([(s, s.num_tokens) for s in sequences])
        for seq in sequences:
            seq.num_computed_tokens = 0
    note("without a cache", driver, sequences)
    assert not any(layer.any() for layer in runner.store.blocks)


def batch_of(scheduled):
    return StepBatch(0, scheduled, [])


def teacher_forced(runner):
    """Logits of given tokens: a prompt's, a chunk's, decodes' of two sequences together."""
    runner.bind(NUM_BLOCKS, BLOCK_SIZE)
    driver = Driver(runner, seed=3)
    first, second = driver.add(list(range(9, 60))), driver.add(list(range(100, 140)))
    driver.step([(first, 7), (second, 1)])
    driver.step([(second, 20), (first, 1)])
    while second.num_computed_tokens < 39:
        driver.step([(first, 1), (second, 1)])
    driver.step([(first, 51 - first.num_computed_tokens), (second, 1)])
    return torch.cat([torch.stack(driver.logits[seq.id]) for seq in (first, second)]).cpu()


def assert_near(rounded, exact):
    """bfloat16 beside float32: never equal, and not far."""
    assert 0 < (rounded - exact).abs().max().item() < 0.05 * exact.abs().max().item()


def compare(ours, theirs, tolerance=1e-4):
    assert ours.keys() == theirs.keys()
    for name, (tokens, logits) in theirs.items():
        worst = (ours[name][1] - logits).abs().max().item()
        assert worst < tolerance, f"{name}: logits differ by {worst}"
        assert ours[name][0] == tokens, name
