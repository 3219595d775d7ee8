"""Forks off running sequences with a real model in float32: a fork goes on as its parent would."""

from __future__ import annotations

import pytest
import torch

from core.engine import Engine
from core.record import add_texts, record
from core.scenario import Scenario
from core.simulate import verify
from core.trace.results import TOLERANCE
from core.trace.run import output_tokens, parse_run

PROMPT = [5, 6, 7, 8, 9, 10, 11]
LONG = 14


def run_of(runner, requests, **engine):
    """The run of a scenario on a runner that is bound anew; every step is checked."""
    settings = {"num_blocks": 32, "block_size": 4, "max_model_len": 48, **engine}
    data = {"schema": "scenario/1", "model": "tiny", "engine": settings, "requests": requests}
    scenario = Scenario.from_dict(data)
    runner.bind(settings["num_blocks"], settings["block_size"], scenario.seed)
    run = Engine(scenario, runner, debug=True, label="RECORDED").run_to_end()
    add_texts(run, runner)
    verify(parse_run(run.to_bytes()))
    return run


def asked(name, **fields):
    return {"id": name, "max_tokens": LONG, "ignore_eos": True, **fields}


def copies(run):
    return [e for r in run.steps for e in r["events"] if e["type"] == "block_copied"]


def greedy(oracle, num_tokens):
    """What `transformers` continues the prompt with, each text read whole."""
    tokens = list(PROMPT)
    with torch.inference_mode():
        for _ in range(num_tokens):
            tokens.append(int(oracle(torch.tensor([tokens])).logits[0, -1].argmax()))
    return tokens[len(PROMPT) :]


@pytest.mark.parametrize("cache", ["off", "hash", "radix"])
@pytest.mark.parametrize("block_size", [1, 3, 4, 16])
@pytest.mark.parametrize("step", [1, 5])
def test_a_greedy_fork_goes_on_exactly_as_its_parent(tiny, tiny_oracle, cache, block_size, step):
    """Same tokens, and the same log-probabilities to the last bit: both compute the same numbers,
    one of them on a copied block."""
    run = run_of(
        tiny,
        [
            asked("A", prompt_tokens=PROMPT, logprobs=3),
            asked("B", fork_of="A", arrive_step=step, logprobs=3),
            asked("C", prompt_tokens=[20, 21, 22], arrive_step=2),
        ],
        prefix_cache=cache,
        block_size=block_size,
        num_blocks=64,
    )
    tokens = output_tokens(run)
    assert tokens["B"] == tokens["A"] == greedy(tiny_oracle, LONG)
    assert run.results["B"]["text"] == run.results["A"]["text"]
    for own, its in zip(run.results["B"]["logprobs"], run.results["A"]["logprobs"], strict=True):
        assert own["rank"] == its["rank"] == 1
        assert abs(own["logprob"] - its["logprob"]) <= TOLERANCE / 10
    inside = (len(PROMPT) + step - 1) % block_size  # slots of the last block that hold something
    assert [copy["num_slots"] for copy in copies(run)][:1] == ([inside] if inside else [])


def test_a_preempted_fork_comes_back_with_all_its_tokens(tiny, tiny_oracle):
    run = run_of(
        tiny,
        [
            asked("A", prompt_tokens=PROMPT),
            asked("B", fork_of="A", arrive_step=4),
            asked("C", fork_of="B", arrive_step=6),
        ],
        num_blocks=7,
        prefix_cache="off",
    )
    assert run.results["C"]["num_preemptions"] and run.results["B"]["num_preemptions"]
    tokens = output_tokens(run)
    assert tokens["A"] == tokens["B"] == tokens["C"] == greedy(tiny_oracle, LONG)


def test_a_fork_samples_by_its_own_settings_and_seed(tiny):
    """What it inherits is text before it, no more: a request whose prompt ends with those tokens
    samples the same, with the same seed."""
    drawn = {"temperature": 1.5, "seed": 11, "top_k": 40}
    run = run_of(
        tiny,
        [asked("A", prompt_tokens=PROMPT), asked("B", fork_of="A", arrive_step=5, **drawn)],
    )
    tokens = output_tokens(run)
    assert tokens["B"][:5] == tokens["A"][:5] and tokens["B"] != tokens["A"]
    alone = run_of(
        tiny, [asked("P", prompt_tokens=PROMPT + tokens["A"][:5], **drawn, max_tokens=LONG - 5)]
    )
    assert output_tokens(alone)["P"] == tokens["B"][5:]


def test_recording_knows_forks(tiny_dir):
    """`record` as the command runs it: the text of a fork is all of its answer."""
    requests = [
        asked("A", prompt="the block table", n=2, temperature=1.0),
        asked("B", fork_of="A#1", arrive_step=3),
    ]
    scenario = Scenario.from_dict(
        {"schema": "scenario/1", "model": str(tiny_dir), "requests": requests}
    )
    run = record(scenario, dtype="float32", debug=True)
    verify(parse_run(run.to_bytes()))
    tokens = output_tokens(run)
    assert tokens["B"][:3] == tokens["A#1"][:3] and len(tokens["B"]) == LONG
    assert run.header["prompts"]["B"] == run.header["prompts"]["A"]
