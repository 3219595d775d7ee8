"""Asynchronous scheduling with a real model in float32: steps are launched before the tokens of the
step before are read, and every request gets what it gets without.
"""

from __future__ import annotations

import random
import re

import pytest
from paged_checks import Tape, paged_runner, tiny_model

from core.engine import Engine
from core.llm import LLM
from core.outputs import SamplingParams
from core.record import add_texts, record, verify_tokens
from core.scenario import Scenario
from core.simulate import verify
from core.trace.results import compare_logprobs
from core.trace.run import output_tokens, parse_run

STEM = [5, 6, 7, 8, 9, 6, 11, 12]


def run_of(runner, scenario, asynchronous):
    """The run, and how many tokens were unknown to the host when a step was launched with them."""
    data = scenario | {"engine": scenario["engine"] | {"async_scheduling": asynchronous}}
    checked = Scenario.from_dict(data)
    runner.bind(**checked.engine.kv_pool, seed=checked.seed)
    unknown = 0
    launch = type(runner).launch

    def counting(batch):
        nonlocal unknown
        unknown += sum(item.stop > len(item.seq.tokens) for item in batch.scheduled)
        return launch(runner, batch)

    runner.launch = counting
    try:
        engine = Engine(checked, runner, debug=True, label="RECORDED")
        run = engine.run_to_end()
    finally:
        del runner.launch
    add_texts(run, runner)
    verify(parse_run(run.to_bytes()))
    assert engine.kv.usage()["in_use"] == 0
    return run, unknown


def assert_same(runner, scenario):
    plain, none = run_of(runner, scenario, False)
    run, unknown = run_of(runner, scenario, True)
    assert output_tokens(run) == output_tokens(plain)
    for name, result in run.results.items():
        other = plain.results[name]
        assert (result["finish_reason"], result["text"]) == (other["finish_reason"], other["text"])
        compare_logprobs(name, other, result)
    assert none == 0 < unknown
    return run


def asked(rng, name, answers):
    """A request of any kind; stop tokens and strings are such as occur in plain answers."""
    prompt = [
        *STEM[: rng.randint(1, 8)],
        *(rng.randrange(20, 300) for _ in range(rng.randint(0, 3))),
    ]
    request = {
        "id": name,
        "prompt_tokens": prompt,
        "arrive_step": rng.randint(0, 4),
        "max_tokens": rng.randint(2, 12),
        "priority": rng.randint(0, 2),
    }
    kind = rng.random()
    if kind < 0.4:
        request |= {"temperature": rng.choice([0.7, 1.5]), "top_p": 0.9, "top_k": 50}
    if rng.random() < 0.2:
        request["n"] = 2
    if rng.random() < 0.2:
        request["repetition_penalty"] = 1.3
    if rng.random() < 0.3:
        request["logprobs"] = 2
    if rng.random() < 0.2:
        request["prompt_logprobs"] = 1
    if rng.random() < 0.4:
        request["stop_token_ids"] = rng.sample(answers, 3)
    return request


@pytest.mark.parametrize("seed", range(6))
def test_every_request_gets_the_same(tiny, seed):
    """Greedy and drawn, forks of n, penalties, log-probabilities, stops, too few blocks."""
    rng = random.Random(seed)
    scenario = {
        "schema": "scenario/1",
        "model": "tiny",
        "seed": seed,
        "engine": {
            "num_blocks": rng.choice([16, 20, 64]),
            "block_size": rng.choice([2, 4]),
            "max_num_seqs": 5,
            "max_num_batched_tokens": rng.choice([6, 12, 64]),
            "max_model_len": 28,
            "prefix_cache": ["radix", "hash", "off"][seed % 3],
            "policy": rng.choice(["fcfs", "priority"]),
        },
        "requests": [],
    }
    first = asked(rng, "first", list(range(300))) | {"max_tokens": 12, "stop_token_ids": []}
    answers = sorted(
        {
            token
            for tokens in output_tokens(
                run_of(tiny, scenario | {"requests": [first]}, False)[0]
            ).values()
            for token in tokens
        }
    )
    answers = (answers + list(range(100, 110)))[:10]
    requests = [asked(rng, f"R{i}", answers) for i in range(7)]
    assert_same(tiny, scenario | {"requests": requests})


def test_a_stop_string_is_learnt_one_step_late(tiny):
    scenario = {
        "schema": "scenario/1",
        "model": "tiny",
        "engine": {"num_blocks": 32, "block_size": 4, "max_model_len": 40},
        "requests": [
            {"id": "A", "prompt_tokens": STEM, "max_tokens": 20, "ignore_eos": True},
            {"id": "B", "prompt_tokens": [30, 31], "max_tokens": 20, "ignore_eos": True},
        ],
    }
    run, _ = run_of(tiny, scenario, False)
    found = re.search("[a-z ]{2}", run.results["A"]["text"][5:])
    assert found, "the tiny model's answer has two letters together"
    scenario["requests"][0]["stop"] = [found[0]]
    run = assert_same(tiny, scenario)
    assert run.results["A"]["finish_reason"] == "stop_string"
    computed = sum(r["scheduled"].get("A", {}).get("num_scheduled_tokens", 0) for r in run.steps)
    assert computed == len(STEM) + len(output_tokens(run)["A"]), "one more than without"


def test_a_quantised_cache_and_a_penalty_beside_others(tiny):
    scenario = {
        "schema": "scenario/1",
        "model": "tiny",
        "engine": {
            "num_blocks": 32,
            "block_size": 4,
            "max_model_len": 40,
            "kv_dtype": "int8_per_token_head",
            "measure_kv_error": True,
        },
        "requests": [
            {"id": "A", "prompt_tokens": STEM, "max_tokens": 9, "repetition_penalty": 1.3},
            {"id": "B", "prompt_tokens": STEM, "max_tokens": 9, "temperature": 1.0},
        ],
    }
    try:
        run = assert_same(tiny, scenario)
    finally:
        tiny.bind(64, 4)
    assert any("kv_error" in record for record in run.steps)


@pytest.mark.parametrize("name", ["llama-biases", "mistral-window", "qwen3-layer-types"])
def test_on_the_gpu_s_path_by_twins_and_stand_ins_for_graphs(tmp_path, name):
    """Its buffers are used again by each step: a step that is launched must not need them later."""
    graphs = Tape()
    runner = paged_runner(tiny_model(name, tmp_path), capture=graphs)
    rng = random.Random(name)
    scenario = {
        "schema": "scenario/1",
        "model": "tiny",
        "engine": {
            "num_blocks": 40,
            "block_size": 4,
            "max_num_seqs": 6,
            "max_model_len": 48,
            "prefix_cache": "hash",
        },
        "requests": [asked(rng, f"R{i}", list(range(100))) for i in range(7)],
    }
    assert_same(runner, scenario)
    assert sum(graphs.replays) > 10


@pytest.fixture
def pair(tiny_dir):
    """The same engine without and with."""

    def make(**engine):
        settings = {"num_blocks": 32, "block_size": 4, "max_model_len": 48, **engine}
        return [
            LLM(tiny_dir, dtype="float32", device="cpu", debug=True, **settings, **extra)
            for extra in ({}, {"async_scheduling": True})
        ]

    return make


def test_generate_and_stream_give_the_same(pair):
    prompts = [STEM, [*STEM[:5], 40], [60, 61, 62]]
    params = [
        SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, logprobs=2),
        SamplingParams(temperature=1.2, max_tokens=8, seed=3, n=2),
        SamplingParams(temperature=0, max_tokens=8, beam_width=3),
    ]
    answers, streams, in_use = [], [], []
    for llm in pair():
        outs = llm.generate(prompts, params)
        answers.append([[(a.token_ids, a.text, a.finish_reason) for a in o.outputs] for o in outs])
        for out in outs:
            assert all(len(a.times) == len(a.token_ids) for a in out.outputs)
        deltas = list(llm.stream(STEM, params[0]))
        streams.append([(d.token_id, d.text, d.finish_reason) for d in deltas])
        left = llm.stream(STEM, SamplingParams(max_tokens=30, ignore_eos=True))
        next(left)
        left.close()
        in_use.append(llm.engine.kv.usage()["in_use"])
        llm.reset_prefix_cache()  # nothing may be in flight
    assert answers[0] == answers[1] and streams[0] == streams[1] and in_use == [0, 0]


def test_a_run_of_several_calls_verifies(pair):
    llm = pair(prefix_cache="hash")[1]
    for _ in range(2):
        llm.generate([STEM, STEM[:4]], SamplingParams(temperature=0, max_tokens=6))
        llm.generate([STEM], SamplingParams(temperature=0, max_tokens=2, stop_token_ids=(1, 2)))
    verify(parse_run(llm.last_run.to_bytes()))


def test_a_recorded_run_is_the_models_own(tiny_dir):
    requests = [
        {"id": "A", "prompt": "the block table", "n": 2, "temperature": 1.0},
        {"id": "B", "prompt": "a page", "max_tokens": 6, "cancel_step": 4},
        {"id": "C", "prompt": "the block", "beam_width": 2, "max_tokens": 5},
    ]
    scenario = Scenario.from_dict(
        {
            "schema": "scenario/1",
            "model": str(tiny_dir),
            "engine": {"async_scheduling": True, "num_blocks": 64},
            "requests": requests,
        }
    )
    run = parse_run(record(scenario, dtype="float32", device="cpu", debug=True).to_bytes())
    verify(run)
    verify_tokens(run)
    assert run.header["scenario"]["engine"]["async_scheduling"] is True
    assert all("work" in r for r in run.steps[1:-1] if r["timing"]["forward_us"])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("graphs", [False, True])
def test_every_request_gets_the_same_by_the_kernels_for_gpus(tmp_path, seed, graphs):
    """Late tokens are put into the inputs of a graph, too."""
    directory = tiny_model(["llama-biases", "mistral-window"][seed % 2], tmp_path)
    capture = Tape() if graphs else None
    runner = paged_runner(directory, capture=capture, max_num_seqs=5)
    test_every_request_gets_the_same(runner, seed)
    assert capture is None or sum(capture.replays) > 5
