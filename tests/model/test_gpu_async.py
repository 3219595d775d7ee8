"""Asynchronous scheduling on a GPU: the device computes a step while the host decides the next.

Skipped where there is no CUDA device; `python -m pytest -m gpu` runs them where there is.
"""

from __future__ import annotations

import os
import random

import pytest
import torch
from paged_checks import tiny_model
from test_async_scheduling import asked, assert_same
from test_gpu_engine import Unwaiting, on_gpu

from core.engine import Engine
from core.scenario import Scenario

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1",
        reason="no CUDA device here",
    ),
]

ENGINE = {"num_blocks": 64, "block_size": 4, "max_num_seqs": 6, "max_model_len": 64}


def scenario(requests, **engine):
    return {
        "schema": "scenario/1",
        "model": "tiny",
        "engine": {**ENGINE, **engine},
        "requests": requests,
    }


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tiny_model("mistral-window", tmp_path_factory.mktemp("gpu"))


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("cache", ["radix", "hash", "off"])
def test_every_request_gets_the_same(directory, eager, cache):
    rng = random.Random(cache)
    requests = [asked(rng, f"R{i}", list(range(100))) for i in range(8)]
    assert_same(on_gpu(directory, enforce_eager=eager), scenario(requests, prefix_cache=cache))


def test_no_step_of_the_engine_waits_for_the_one_it_launches(directory):
    """Deciding and launching wait for nothing; taking in waits, for the step before alone."""
    runner = on_gpu(directory)
    plain = [
        {"id": "A", "prompt_tokens": [5, 6, 7], "max_tokens": 24, "ignore_eos": True},
        {"id": "B", "prompt_tokens": [8, 9], "max_tokens": 24, "ignore_eos": True, "seed": 3,
         "temperature": 1.0},
    ]  # fmt: skip
    data = scenario(plain, async_scheduling=True)
    for attempt in (runner, Unwaiting(runner)):  # the first one compiles, which waits
        checked = Scenario.from_dict(data)
        runner.bind(**checked.engine.kv_pool)
        Engine(checked, attempt, label="LIVE", debug=True).finish()


def test_the_device_is_busy_while_the_next_step_is_decided(directory):
    """Each step has much to compute behind its sampling. Whenever the engine begins to wait for a
    step, the next one has been launched, and the device has not come to its end."""
    runner = on_gpu(directory)
    request = {"id": "A", "prompt_tokens": [5, 6, 7], "max_tokens": 6, "ignore_eos": True}
    checked = Scenario.from_dict(scenario([request], async_scheduling=True))
    runner.bind(**checked.engine.kv_pool)
    Engine(checked, runner, label="LIVE").finish()  # compiles
    slow = torch.randn(8192, 8192, device="cuda")
    torch.mm(slow, slow)
    torch.cuda.synchronize()
    launch, collect = runner.launch, runner.collect
    ends, when_waiting = [], []

    def slow_launch(batch):
        step = launch(batch)
        for _ in range(20):
            torch.mm(slow, slow)
        ends.append(torch.cuda.Event())
        ends[-1].record()
        return step

    def noting_collect(step):
        when_waiting.append((len(ends), ends[-1].query()))
        return collect(step)

    runner.launch, runner.collect = slow_launch, noting_collect
    runner.bind(**checked.engine.kv_pool)
    Engine(checked, runner, label="LIVE").finish()
    assert when_waiting[:5] == [(k + 2, False) for k in range(5)]
