"""The engine on a GPU: what the other tests ask of the CPU, with real kernels and real graphs.

Float32 on the GPU is compared with float32 on the CPU: products there are IEEE's, no TF32. Skipped
where there is no CUDA device; `python -m pytest -m gpu` runs them where there is.
"""

from __future__ import annotations

import functools
import os

import pytest
import torch
from model_driver import Driver
from paged_checks import (
    BLOCK_SIZE,
    NAMES,
    NUM_BLOCKS,
    PROMPTS,
    assert_near,
    compare,
    journeys,
    paged_runner,
    plain_runner,
    teacher_forced,
    tiny_model,
)
from test_paged_model import in_format, run_ahead

from core.config import EngineConfig
from core.llm import LLM
from core.model.load_runner import fit_pool
from core.model.model_runner import ModelRunner
from core.outputs import SamplingParams
from core.sampling import SampleSpec, draft, sample

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1",
        reason="no CUDA device here",
    ),
]

on_gpu = functools.partial(paged_runner, backend=None, device="cuda")


@pytest.fixture(scope="module", params=NAMES)
def plain_and_paged(request, tmp_path_factory):
    directory = tiny_model(request.param, tmp_path_factory.mktemp("gpu"))
    return journeys(plain_runner(directory)), directory


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tiny_model("mistral-window", tmp_path_factory.mktemp("gpu"))


def test_tokens_are_those_of_the_cpu(plain_and_paged):
    plain, directory = plain_and_paged
    runner = on_gpu(directory, enforce_eager=True)
    assert runner.source["kernels"].startswith("triton (triton ")
    assert "decode_graphs" not in runner.source
    compare(journeys(runner), plain, tolerance=1e-3)


def test_tokens_by_graphs_are_those_of_the_cpu(plain_and_paged):
    plain, directory = plain_and_paged
    runner = on_gpu(directory)
    assert runner.graph_sizes == [1, 2, 4, 6] and runner.source["decode_graphs"]
    compare(journeys(runner), plain, tolerance=1e-3)


def test_without_triton_torch_s_path_runs_there(directory, monkeypatch):
    monkeypatch.setenv("KV_SCOPE_TRITON", "0")
    runner = ModelRunner(directory, "float32", "cuda", NUM_BLOCKS, BLOCK_SIZE)
    assert runner.source["kernels"] == "torch (KV_SCOPE_TRITON=0)"
    compare(journeys(runner), journeys(plain_runner(directory)), tolerance=1e-3)


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_is_near_float32(name, eager, tmp_path):
    model = tiny_model(name, tmp_path)
    runner = on_gpu(model, dtype="bfloat16", enforce_eager=eager)
    assert_near(teacher_forced(runner), teacher_forced(plain_runner(model)))


@pytest.mark.parametrize("kv_dtype", ["fp8", "int8_per_token_head"])
def test_quantised_blocks_are_read_as_on_the_cpu(tmp_path, kv_dtype):
    model = tiny_model("llama-biases", tmp_path)
    theirs = journeys(in_format(plain_runner(model), kv_dtype), cache_off=False)
    ours = journeys(in_format(on_gpu(model), kv_dtype), cache_off=False)
    for name, (_, logits) in theirs.items():
        scale = logits.abs().max().item()
        assert (ours[name][1] - logits).abs().median().item() < 1e-3 * scale, name


# ---- nothing waits -------------------------------------------------------------------------------


class NoWait:
    """Whatever makes the processor wait for the device is an error meanwhile."""

    def __enter__(self):
        torch.cuda.set_sync_debug_mode("error")

    def __exit__(self, *_):
        torch.cuda.set_sync_debug_mode("default")


class Unwaiting:
    """A runner whose launches must not wait."""

    def __init__(self, runner):
        self._runner = runner

    def __getattr__(self, name):
        return getattr(self._runner, name)

    def launch(self, batch):
        with NoWait():
            return self._runner.launch(batch)

    def execute(self, batch):
        return self.collect(self.launch(batch))


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("draw", [{}, {"temperature": 2.0, "seed": 3}])
def test_steps_are_launched_ahead_and_no_launch_waits(directory, eager, draw):
    plain = Driver(plain_runner(directory))
    expected = plain.run([plain.add(prompt, **draw) for prompt in PROMPTS[1:3]], 8)
    runner = on_gpu(directory, enforce_eager=eager)
    first = Driver(runner)  # compiles kernels, which waits
    first.run([first.add(prompt, **draw) for prompt in PROMPTS[1:3]], 8)
    runner.bind(64, 4)
    driver = Driver(runner)
    sequences = [driver.add(prompt, **draw) for prompt in PROMPTS[1:3]]
    assert run_ahead(Unwaiting(runner), driver, sequences, 8) == expected


def test_a_step_of_chunks_and_decodes_does_not_wait(directory):
    runner = on_gpu(directory)
    for attempt in (runner, Unwaiting(runner)):
        runner.bind(64, 4)
        driver = Driver(runner)
        first, second = driver.add(list(range(12))), driver.add(list(range(30, 52)))
        driver.step([(first, 12)])
        driver.runner = attempt
        batch = [(second, 9), (first, 1)]
        driver._watch = lambda: [torch.zeros(8, 1)]
        driver.step(batch)


SPECS = [
    {},
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 40, "top_p": 0.9},
    {"temperature": 3.0, "top_p": 0.95, "min_p": 0.01},
    {"temperature": 1.5, "repetition_penalty": 1.3, "tokens": [1, 5, 9, 9]},
    {"repetition_penalty": 1.3, "tokens": [2, 3]},
    {"temperature": 1.0, "top_k": 1},
]


def test_tokens_are_chosen_on_the_device_as_on_the_cpu():
    torch.manual_seed(0)
    logits = 4 * torch.randn(len(SPECS), 50_000)
    specs = [
        SampleSpec(row=i, **{"temperature": 0.0, "key": (7, i), "index": 0, "position": i, **one})
        for i, one in enumerate(SPECS)
    ]
    expected = sample(logits, specs)
    there = logits.cuda()
    sample(there, specs)
    with NoWait():
        chosen = draft(there, specs)
    assert chosen.read() == expected
    there[3, 7] = float("nan")
    with pytest.raises(FloatingPointError):
        sample(there, specs)


# ---- time, memory, the whole ---------------------------------------------------------------------


def test_times_are_of_the_device(directory):
    runner = on_gpu(directory)
    driver = Driver(runner)
    seq = driver.add([5, 6, 7])
    driver.step([(seq, 3)])
    timing = runner.step_timing
    parts = timing["attention_us"] + timing["linear_us"] + timing["other_us"]
    assert parts == pytest.approx(timing["forward_us"]) and min(timing.values()) > 0
    driver.step([(seq, 1)])
    assert runner.step_timing.keys() == {"forward_us", "sample_us"}
    assert runner.step_timing["forward_us"] > 0


def test_the_pool_fits_the_share_that_was_given(directory):
    runner = ModelRunner(directory, "bfloat16", "cuda", 1, 16)
    free, total = torch.cuda.mem_get_info()
    share = 1 - 0.7 * free / total  # three tenths of what is free
    config = EngineConfig(block_size=16, max_num_seqs=16, max_num_batched_tokens=256)
    fitted = fit_pool(runner, config, share)
    runner.capture_graphs()
    assert runner.store.num_blocks == fitted.num_blocks
    used = total - torch.cuda.mem_get_info()[0]
    # No more than the share (but for kernels loaded since), and not much less: what was kept for
    # steps is not in use now.
    assert 0.8 * share * total < used <= share * total + (1 << 28)
    driver = Driver(runner)
    assert len(driver.run([driver.add([5, 6, 7])], 4)[0]) == 4


def test_a_whole_engine_answers_as_on_the_cpu(tmp_path):
    model = tiny_model("llama-biases", tmp_path)
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
    engine = {"block_size": 4, "num_blocks": 40, "max_num_seqs": 4, "max_num_batched_tokens": 32}
    answers = [
        [out.outputs[0].token_ids for out in llm.generate(PROMPTS + PROMPTS[:2], params)]
        for llm in (
            LLM(model, dtype="float32", device="cpu", debug=True, **engine),
            LLM(model, dtype="float32", device="cuda", debug=True, **engine),
            LLM(model, dtype="float32", device="cuda", enforce_eager=True, **engine),
        )
    ]
    assert answers[0] == answers[1] == answers[2]
