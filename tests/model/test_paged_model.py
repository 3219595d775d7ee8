"""A model by the kernels for GPUs, here by their twins: float32 tokens are those of torch's path.

The kernels themselves against the twins are in tests/kernels; both together, in Triton's
interpreter, in test_paged_interpreted.
"""

from __future__ import annotations

import dataclasses
import functools
from contextlib import nullcontext
from types import SimpleNamespace

import matrix
import paged_checks
import pytest
import torch
from matrix import Case
from matrix_run import check, make_subject, run_case
from model_driver import Driver, generate
from paged_checks import (
    NAMES,
    PROMPTS,
    ReRun,
    Tape,
    assert_near,
    compare,
    journeys,
    paged_runner,
    plain_runner,
    teacher_forced,
    tiny_model,
)

from core.model.decode_graphs import CudaCapture, captured_sizes
from core.model.errors import MemoryBudgetError
from core.model.paged_inputs import PagedStep, StepShape, keys_per_split, padded_width
from core.runner import ScheduledSequence, StepBatch
from core.sampling import filters


@pytest.fixture(scope="module", params=NAMES)
def plain_and_paged(request, tmp_path_factory):
    directory = tiny_model(request.param, tmp_path_factory.mktemp("paged"))
    return journeys(plain_runner(directory)), directory


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tiny_model("mistral-window", tmp_path_factory.mktemp("paged"))


def test_tokens_are_those_of_torch_s_path(plain_and_paged):
    plain, directory = plain_and_paged
    compare(journeys(paged_runner(directory)), plain)


def test_tokens_by_graphs_are_the_same(plain_and_paged):
    plain, directory = plain_and_paged
    graphs = Tape()
    compare(journeys(paged_runner(directory, capture=graphs)), plain)
    assert sum(graphs.replays) > 20


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_is_near_float32(name, tmp_path):
    model = tiny_model(name, tmp_path)
    runner = paged_runner(model, dtype="bfloat16", capture=Tape())
    assert runner.store.blocks[0].dtype == torch.bfloat16
    assert_near(teacher_forced(runner), teacher_forced(plain_runner(model)))


CASES = [
    Case("qwen3-layer-types", 4, 7, "radix", "mixed", "fcfs", "paged", "continuous"),
    Case("mistral-window", 4, 7, "hash", "preempted", "priority", "paged", "continuous"),
    Case("llama-biases", 1, 16, "radix", "forked+preempted", "fcfs", "paged", "continuous"),
    Case("qwen2-window", 16, 7, "radix", "hits", "fcfs", "paged", "continuous"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_whole_engines_give_the_oracle_s_answers(case, tmp_path):
    subject = make_subject(case.model, tmp_path)
    runner = paged_runner(tmp_path / case.model, capture=ReRun(), max_num_seqs=16, max_model_len=96)
    paged = dataclasses.replace(subject, runner=runner)
    check(case, paged, run_case(case, paged, matrix.few(case, 0)))


# ---- quantised blocks ----------------------------------------------------------------------------


def in_format(runner, kv_dtype, **more):
    """The runner, whose pools are of that format from here on."""
    runner.bind = functools.partial(runner.bind, kv_dtype=kv_dtype, **more)
    return runner


FORMATS = [
    "fp8",
    "int8_per_token_head",
    {"format": "int8", "scale": "per_head_static", "calibration": "first_step"},
    {"format": "int4", "layers": {"0": "model", "2": "int8"}},
]


@pytest.mark.parametrize("kv_dtype", FORMATS, ids=str)
def test_quantised_blocks_are_read_as_torch_s_path_reads_them(tmp_path, kv_dtype):
    """Not to the bit: a sum that differs in its last digit may round to the next code."""
    model = tiny_model("llama-biases", tmp_path)
    graphs = Tape()
    theirs = journeys(in_format(plain_runner(model), kv_dtype), cache_off=False)
    ours = journeys(in_format(paged_runner(model, capture=graphs), kv_dtype), cache_off=False)
    assert sum(graphs.replays) > 20
    for name, (_, logits) in theirs.items():
        scale = logits.abs().max().item()
        assert (ours[name][1] - logits).abs().median().item() < 1e-3 * scale, name


def test_graphs_wait_for_scales_that_the_first_step_decides(tmp_path):
    model = tiny_model("llama-biases", tmp_path)
    graphs = ReRun()
    runner = in_format(paged_runner(model, capture=graphs), FORMATS[2])
    made = len(graphs.replays)
    runner.bind(64, 4)
    assert len(graphs.replays) == made
    driver = Driver(runner)
    seq = driver.add([5, 6, 7])
    driver.step([(seq, 3)])
    plain = in_format(plain_runner(model), FORMATS[2])
    plain.bind(64, 4)
    other = Driver(plain)
    other.step([(other.add([5, 6, 7]), 3)])
    for scales, expected in zip(runner.store.scales, plain.store.scales, strict=True):
        torch.testing.assert_close(scales.scale, expected.scale)
    before = sum(graphs.replays)
    driver.step([(seq, 1)])
    assert len(graphs.replays) > made and sum(graphs.replays) == before + 1


def test_errors_of_storing_are_measured_without_graphs(tmp_path):
    model = tiny_model("llama-biases", tmp_path)
    graphs = ReRun()
    more = {"kv_dtype": "int8_per_token_head", "measure_kv_error": True}
    errors = []
    for runner in (paged_runner(model, capture=graphs), plain_runner(model)):
        runner.bind(64, 4, **more)
        driver = Driver(runner)
        driver.run([driver.add([5, 6, 7]), driver.add([8] * 9)], 3)
        errors.append(runner.take_kv_error())
    assert sum(graphs.replays) == 0
    assert errors[0].keys() == errors[1].keys()
    for name in ("key_squares", "value_squares"):
        torch.testing.assert_close(
            torch.tensor(errors[0][name]), torch.tensor(errors[1][name]), rtol=1e-3, atol=0
        )
    for name in ("key", "value"):
        torch.testing.assert_close(
            torch.tensor(errors[0][name]), torch.tensor(errors[1][name]), rtol=0.1, atol=1e-6
        )


@pytest.mark.parametrize("kv_dtype", ["model", *FORMATS], ids=str)
def test_copies_run_in_order_with_their_scales(tmp_path, kv_dtype):
    """Trap 41: one copy's destination is the next one's source."""
    model = tiny_model("llama-biases", tmp_path)
    states = []
    for runner in (paged_runner(model), plain_runner(model)):
        runner.bind(8, 4, kv_dtype=kv_dtype)
        torch.manual_seed(0)
        tensors = [layer.view(torch.uint8) for layer in runner.store.blocks]
        tensors += [scales.scale for scales in runner.store.scales if scales is not None]
        for tensor in tensors:
            tensor.copy_(torch.randint(0, 100, tensor.shape).to(tensor.dtype))
        runner.execute(StepBatch(0, [], [(1, 2), (2, 3), (5, 1)]))
        states.append(tensors)
    for ours, theirs in zip(*states, strict=True):
        assert torch.equal(ours, theirs)


# ---- inputs --------------------------------------------------------------------------------------


def steps(runner):
    """Three sequences: one decodes, one computes a chunk, one its first and only token."""
    driver = Driver(runner, seed=2)
    decoding, chunk, first = (
        driver.add([5, 6, 7, 8]),
        driver.add(list(range(9, 30))),
        driver.add([3]),
    )
    for seq, end in ((decoding, 5), (chunk, 12), (first, 1)):
        driver.reserve(seq, end)
    decoding.num_computed_tokens, chunk.num_computed_tokens = 4, 6
    decoding.tokens.append(77)
    shares = [(chunk, 6, 0), (decoding, 1, 1), (first, 1, 1)]
    return [ScheduledSequence(seq, n, samples) for seq, n, samples in shares]


def test_decodes_come_first_and_all_lies_in_one_buffer(directory):
    scheduled = steps(plain_runner(directory))
    step = PagedStep.of(scheduled, 4)
    shape = step.shape()
    assert shape == StepShape(tokens=8, logits=2, decodes=2, chunks=1, width=16)
    buffer = step.stage(shape, [8], pinned=False)
    assert buffer.shape == (shape.size,) and buffer.dtype == torch.int64
    tokens, positions, slots, rows, table, lens, chunk_table, chunk_lens, bounds = shape.parts(
        buffer
    )
    assert tokens.tolist() == [77, 3, *range(15, 21)]
    assert positions.tolist() == [4, 0, *range(6, 12)]
    assert rows.tolist() == [0, 1] and step.starts == [2, 0, 1]
    chunk, decoding, first = (item.seq.block_table for item in scheduled)
    assert slots.tolist() == [
        4 * decoding[1],
        4 * first[0],
        *(4 * chunk[p // 4] + p % 4 for p in range(6, 12)),
    ]
    assert table.tolist() == [decoding + [0] * 14, first + [0] * 15]
    assert (lens.tolist(), chunk_lens.tolist(), bounds.tolist()) == ([5, 1], [12], [0, 6])
    assert chunk_table.tolist() == [chunk + [0] * 13]
    for part in (tokens, positions, slots, rows, table, lens, chunk_table, chunk_lens, bounds):
        assert (part.data_ptr() - buffer.data_ptr()) % 16 == 0


def test_rows_too_many_are_written_nowhere_and_read_nothing(directory):
    scheduled = steps(plain_runner(directory))[1:]
    step = PagedStep.of(scheduled, 4)
    shape = StepShape(4, 4, 4, 0, 16)
    _, _, slots, _, _, lens, *_ = shape.parts(step.stage(shape, [None], pinned=False))
    assert slots[2:].tolist() == [-1, -1] and lens.tolist() == [5, 1, 0, 0]


def test_blocks_that_were_given_back_are_refused_only_in_view(directory):
    scheduled = steps(plain_runner(directory))
    chunk = scheduled[0].seq
    chunk.block_table[0] = -1
    step = PagedStep.of(scheduled, 4)
    step.stage(step.shape(), [2], pinned=False)  # queries 6 … 11 see keys from 5 on
    for windows in ([None], [4], [2, None]):
        with pytest.raises(IndexError, match="block in view was given back"):
            step.stage(step.shape(), windows, pinned=False)
    chunk.block_table[2] = -1
    with pytest.raises(IndexError, match="given back before its write"):
        step.stage(step.shape(), [2], pinned=False)


def test_slots_are_int64(directory):
    """Trap 47."""
    scheduled = steps(plain_runner(directory))[1:2]
    scheduled[0].seq.block_table = [2**30, 2**30]
    step = PagedStep.of(scheduled, 16)
    slots = step.shape().parts(step.stage(step.shape(), [None], pinned=False))[2]
    assert slots.tolist() == [2**34 + 4]


@pytest.mark.parametrize(("blocks", "width"), [(1, 16), (16, 16), (17, 32)])
def test_tables_are_as_wide_as_triton_likes_them(blocks, width):
    assert padded_width(blocks) == width


@pytest.mark.parametrize(
    ("length", "keys"), [(1, 256), (2048, 256), (16_384, 256), (16_385, 512), (131_072, 2048)]
)
def test_keys_are_split_by_the_longest_context_alone(length, keys):
    assert keys_per_split(length) == keys


# ---- graphs --------------------------------------------------------------------------------------


def test_sizes_that_are_captured():
    assert captured_sizes(1) == [1]
    assert captured_sizes(6) == [1, 2, 4, 6]
    assert captured_sizes(32) == [1, 2, 4, 8, 16, 24, 32]
    assert captured_sizes(300)[-5:] == [248, 256, 272, 288, 300]
    assert captured_sizes(512) == captured_sizes(65_536)  # a batch beyond runs without
    assert len(captured_sizes(512)) == len(set(captured_sizes(512))) == 51


def replayed(driver, graphs, shares):
    """The sizes whose graphs a step replayed."""
    before = list(graphs.replays)
    driver.step(shares)
    sizes = sorted(captured_sizes(6), reverse=True)  # the largest is captured first
    counts = zip(sizes, before, graphs.replays, strict=True)
    return [size for size, old, new in counts if new > old]


def test_the_smallest_graph_that_holds_the_batch_is_replayed(directory):
    graphs = ReRun()
    driver = Driver(paged_runner(directory, capture=graphs))
    sequences = [driver.add([5 + i, 6]) for i in range(7)]
    assert replayed(driver, graphs, [(seq, 2) for seq in sequences]) == []  # prompts
    for count, size in ((1, 1), (2, 2), (3, 4), (4, 4), (5, 6), (6, 6)):
        assert replayed(driver, graphs, [(seq, 1) for seq in sequences[:count]]) == [size]
    assert replayed(driver, graphs, [(seq, 1) for seq in sequences]) == []  # seven are too many
    late = driver.add([1, 2, 3])
    assert replayed(driver, graphs, [(late, 2), (sequences[0], 1)]) == []  # one is a chunk


def test_a_context_longer_than_the_captured_tables_runs_without(directory):
    graphs = ReRun()
    runner = paged_runner(directory, capture=graphs, max_model_len=16)
    driver = Driver(runner)
    long = driver.add(list(range(62)))
    driver.step([(long, 62)])
    assert replayed(driver, graphs, [(long, 1)]) and replayed(driver, graphs, [(long, 1)])
    assert replayed(driver, graphs, [(long, 1)]) == []  # the 65th token: 17 blocks


def test_enforce_eager_captures_nothing(directory):
    graphs = ReRun()
    runner = paged_runner(directory, capture=graphs, enforce_eager=True)
    assert generate(runner, PROMPTS, 4, num_blocks=64)[0]
    assert graphs.replays == []


def test_another_pool_for_a_while_runs_without_graphs(directory):
    graphs = ReRun()
    runner = paged_runner(directory, capture=graphs)
    expected, _ = generate(plain_runner(directory), PROMPTS[:2], 5)
    runner.bind(64, 4)
    driver = Driver(runner)
    sequences = [driver.add(prompt) for prompt in PROMPTS[:2]]
    driver.run(sequences, 3)
    count = sum(graphs.replays)
    with runner.lent(64, 4):
        other = Driver(runner, seed=7)
        assert other.run([other.add(prompt) for prompt in PROMPTS[:2]], 5) == expected
        assert sum(graphs.replays) == count and "decode_graphs" not in runner.source
    assert runner.source["decode_graphs"]
    assert driver.run(sequences, 5) == expected
    assert sum(graphs.replays) == count + 2


def test_a_new_pool_gets_graphs_of_its_own(directory):
    graphs = ReRun()
    runner = paged_runner(directory, capture=graphs)
    made = len(graphs.replays)
    runner.bind(32, 8)
    assert len(graphs.replays) == 2 * made
    expected, _ = generate(plain_runner(directory), PROMPTS[:2], 5)
    assert generate(runner, PROMPTS[:2], 5, block_size=8, num_blocks=32)[0] == expected


def test_graphs_share_their_memory_and_a_new_set_has_its_own(monkeypatch):
    """torch refuses the handle of a pool whose graphs are all gone."""
    handles, used, streams = iter(range(10)), [], []

    class Graph:
        def replay(self):
            pass

    def graph(made, pool, capture_error_mode):
        used.append(pool)
        return nullcontext()

    def stream(device):
        streams.append(SimpleNamespace(wait_stream=lambda other: None))
        return streams[-1]

    present = stream("cuda")
    for name, stand_in in {
        "Stream": stream,
        "current_stream": lambda device: present,
        "stream": lambda one: nullcontext(),
        "graph_pool_handle": lambda: next(handles),
        "CUDAGraph": Graph,
        "graph": graph,
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    capture = CudaCapture(torch.device("cuda"))
    replays = [capture(lambda: None) for _ in range(3)]
    assert used == [0, 0, 0]
    replays.pop()
    replays.append(capture(lambda: None))
    replays.clear()
    capture(lambda: None)
    assert used == [0, 0, 0, 0, 1]
    assert len(streams) == 2  # cuBLAS takes tens of megabytes for each


def test_graphs_that_do_not_fit_are_refused_in_words(directory):
    """What they take is estimated when the pool is sized: another process may have it by then."""

    def capture(work):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(MemoryBudgetError, match=r"lower gpu_memory_utilization.*enforce_eager"):
        paged_runner(directory, capture=capture)


def test_capturing_writes_nothing_into_the_pool(directory):
    runner = paged_runner(directory, capture=ReRun())
    assert not any(layer.any() for layer in runner.store.blocks)


@pytest.mark.parametrize("kv_dtype", ["model", *FORMATS], ids=str)
def test_compiling_ahead_changes_no_pool(directory, kv_dtype):
    runner = paged_runner(directory)
    for more in ({}, {"measure_kv_error": True}):
        runner.bind(16, 4, kv_dtype=kv_dtype, **more)
        scales = [None if one is None else one.scale.clone() for one in runner.store.scales]
        runner._paged.compile(runner.store)
        assert not any(layer.view(torch.uint8).any() for layer in runner.store.blocks)
        for one, before in zip(runner.store.scales, scales, strict=True):
            assert one is None or torch.equal(one.scale, before)


def test_of_a_graph_only_the_whole_time_is_told(directory):
    runner = paged_runner(directory, capture=ReRun())
    driver = Driver(runner)
    seq = driver.add([5, 6, 7])
    driver.step([(seq, 3)])
    assert runner.step_timing.keys() == {
        "forward_us", "attention_us", "linear_us", "other_us", "sample_us"
    }  # fmt: skip
    driver.step([(seq, 1)])
    assert runner.step_timing.keys() == {"forward_us", "sample_us"}
    assert min(runner.step_timing.values()) > 0


# ---- nothing waits -------------------------------------------------------------------------------

WAITS = ("_local_scalar_dense", "nonzero", "item", "masked_select", "unique")
"""Operations that bring numbers to the processor, which waits for the device then."""


@pytest.mark.parametrize("kind", ["eager", "graphs"])
def test_no_launch_looks_at_numbers_of_the_device(directory, kind, monkeypatch):
    monkeypatch.setattr(filters, "_nucleus", filters._sorted_nucleus)  # as on a GPU
    runner = paged_runner(directory, capture=ReRun() if kind == "graphs" else None)
    driver = Driver(runner)
    settings = [{}, {"temperature": 1.0, "seed": 3}, {"temperature": 0.5}]
    first, second, third = (driver.add(p, **s) for p, s in zip(PROMPTS[:3], settings, strict=True))
    for seq, more in ((second, {"top_k": 9, "top_p": 0.9}), (third, {"repetition_penalty": 1.3})):
        seq.request.spec = dataclasses.replace(seq.request.spec, **more)
    driver.step([(first, 9), (second, 3), (third, 16)])
    tape = []
    launch = runner.launch

    def watched(batch):
        with paged_checks.recorded(tape):
            return launch(batch)

    monkeypatch.setattr(runner, "launch", watched)
    driver.step([(first, 9), (second, 1), (third, 1)])  # a chunk among decodes
    driver.step([(second, 1), (third, 1)])
    names = {str(operation) for operation, *_ in tape}
    assert any("searchsorted" in name for name in names)
    assert not [name for name in names if any(word in name for word in WAITS)]


# ---- a step is launched before the one before it is collected ------------------------------------


@pytest.mark.parametrize("kind", ["torch's path", "eager", "graphs"])
def test_tokens_that_nobody_knows_yet_are_put_in(directory, kind):
    capture = Tape() if kind == "graphs" else None
    if kind == "torch's path":
        runner = plain_runner(directory)
    else:
        runner = paged_runner(directory, capture=capture)
    settings = [{}, {"temperature": 2.0, "seed": 3}]
    plain = Driver(plain_runner(directory))
    sequences = [plain.add(p, **s) for p, s in zip(PROMPTS[1:3], settings, strict=True)]
    expected = plain.run(sequences, 6)
    runner.bind(64, 4)
    driver = Driver(runner)
    sequences = [driver.add(p, **s) for p, s in zip(PROMPTS[1:3], settings, strict=True)]
    assert run_ahead(runner, driver, sequences, 6) == expected


def run_ahead(runner, driver, sequences, num_outputs):
    """Every step but the first is launched while the one before it is not collected."""
    in_flight = None
    for k in range(num_outputs):
        scheduled = []
        for seq in sequences:
            start = 0 if k == 0 else seq.num_prompt_tokens + k - 1
            stop = seq.num_prompt_tokens + k
            driver.reserve(seq, stop)
            scheduled.append(ScheduledSequence(seq, stop - start, 1, start=start))
        launched = runner.launch(paged_checks.batch_of(scheduled))
        if in_flight is not None:
            take_in(runner, in_flight, sequences)
        in_flight = launched
    take_in(runner, in_flight, sequences)
    return [seq.output_tokens for seq in sequences]


def take_in(runner, launched, sequences):
    for seq, (token,) in zip(sequences, runner.collect(launched).token_ids, strict=True):
        seq.tokens.append(token)
