"""Sampling through the whole engine: the right distribution, whatever happens around a request."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from sampling_reference import chi_square, naive_distribution

from core.errors import RequestError
from core.outputs import SamplingParams
from core.record import record, verify_tokens
from core.scenario import Scenario
from core.simulate import verify
from core.trace.run import parse_run

PROMPT = [5, 6, 7, 8, 9, 6, 11, 12, 6]
COMPANY = [[60, 61, 62], [5, 6, 7, 8, 70, 71], [200] * 17]

SETTINGS = {
    "temperature": {"temperature": 1.0},
    "top_k": {"temperature": 2.0, "top_k": 5},
    "top_p": {"temperature": 1.5, "top_p": 0.7},
    "min_p": {"temperature": 2.0, "min_p": 0.1},
    "penalty": {"temperature": 1.0, "repetition_penalty": 1.4},
    "greedy penalty": {"temperature": 0.0, "repetition_penalty": 0.5},
    "all": {
        "temperature": 1.5,
        "top_k": 40,
        "top_p": 0.9,
        "min_p": 0.02,
        "repetition_penalty": 1.2,
    },
}
ENGINES = {
    "blocks of 1": {"block_size": 1},
    "blocks of 16": {"block_size": 16},
    "chunks of 1": {"long_prefill_token_threshold": 1},
    "chunks of 4": {"long_prefill_token_threshold": 4},
    "hash": {"prefix_cache": "hash"},
    "off": {"prefix_cache": "off"},
    "static": {"batching": "static"},
    "preempted": {"num_blocks": 16, "max_model_len": 28},
}


def params(**fields):
    return SamplingParams(**{"max_tokens": 9, "ignore_eos": True, "seed": 21, **fields})


@pytest.mark.parametrize("name", list(SETTINGS))
def test_a_request_gets_its_tokens_in_any_company_and_engine(tiny_llm, name):
    """Alone, in a crowd of other settings, in chunks, after preemptions, in blocks of any size."""
    asked = params(n=2, **SETTINGS[name])
    (alone,) = tiny_llm().generate(PROMPT, asked)
    wanted = [answer.token_ids for answer in alone.outputs]
    assert (wanted[0] != wanted[1]) == (asked.temperature > 0)
    others = list(SETTINGS.values())
    company = [params(**others[i], seed=None) for i in (0, 5, 6)]
    for label, engine in ENGINES.items():
        llm = tiny_llm(**{"num_blocks": 160, **engine})
        outs = llm.generate([*COMPANY, PROMPT], [*company, asked])
        assert [answer.token_ids for answer in outs[-1].outputs] == wanted, label
        if label == "preempted":
            results = llm.last_run.results
            assert results["3#0"]["num_preemptions"] + results["3#1"]["num_preemptions"] > 0
            verify(parse_run(llm.last_run.to_bytes()))


@pytest.mark.parametrize("name", [n for n in SETTINGS if not n.startswith("greedy")])
def test_the_tokens_of_the_engine_follow_the_distribution_of_its_model(tiny_llm, tiny_oracle, name):
    """Chi-square over 1,024 twins' first tokens, against `transformers`' logits by hand."""
    one = SETTINGS[name]
    llm = tiny_llm(num_blocks=1024, block_size=16, max_num_seqs=1024)
    (out,) = llm.generate(PROMPT, params(n=1024, max_tokens=1, **one))
    counts = Counter(answer.token_ids[0] for answer in out.outputs)
    with torch.inference_mode():
        logits = tiny_oracle(torch.tensor([PROMPT])).logits[0, -1].double().tolist()
    expected = naive_distribution(logits, **one, tokens=PROMPT)
    statistic, limit = chi_square(counts, expected, 1024)
    assert statistic < limit
    assert len(counts) > 3


def test_a_penalised_greedy_run_is_that_of_transformers(tiny_llm, tiny_oracle):
    """Below 1 the penalty is a reward: the tiny model, which never repeats itself, then does."""
    penalty = {"temperature": 0, "repetition_penalty": 0.5, "max_tokens": 12}
    (out,) = tiny_llm().generate(PROMPT, params(**penalty))
    with torch.inference_mode():
        ids = tiny_oracle.generate(
            torch.tensor([PROMPT]),
            attention_mask=torch.ones(1, len(PROMPT), dtype=torch.int64),
            repetition_penalty=0.5,
            do_sample=False,
            max_new_tokens=12,
            eos_token_id=None,
            pad_token_id=0,
        )
    assert out.outputs[0].token_ids == ids[0, len(PROMPT) :].tolist()
    (plain,) = tiny_llm().generate(PROMPT, params(temperature=0, max_tokens=12))
    assert out.outputs[0].token_ids != plain.outputs[0].token_ids


def test_the_same_seed_gives_the_same_tokens_and_another_others(tiny_llm):
    llm = tiny_llm()

    def tokens(seed):
        return llm.generate(PROMPT, params(seed=seed, **SETTINGS["all"]))[0].outputs[0].token_ids

    assert tokens(1) == tokens(1) != tokens(2)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("temperature", [-0.1, float("nan"), None, "1"]),
        ("top_k", [-1, 1.5, None, True]),
        ("top_p", [0, -1, 1.1, float("nan"), None]),
        ("min_p", [-0.1, 1.1, "0"]),
        ("repetition_penalty", [0, -1.0, 101, float("inf")]),
        ("seed", [-1, 0.5]),
        ("stop_token_ids", [5, [-1], "5"]),
        ("max_tokens", [0, None]),
        ("n", [0, 1.5]),
    ],
)
def test_impossible_settings_are_refused_by_name(tiny_llm, field, values):
    llm = tiny_llm()
    for value in values:
        with pytest.raises(RequestError, match=field):
            llm.generate(PROMPT, params(**{field: value}))
    assert llm.engine.num_steps == 0


def test_a_recorded_run_of_all_settings_verifies_with_tokens(tiny_dir):
    requests = [
        {"id": f"R{i}", "prompt_tokens": PROMPT, "n": 1 + i % 2, "max_tokens": 5, **one}
        for i, one in enumerate(SETTINGS.values())
    ]
    scenario = {"schema": "scenario/1", "model": str(tiny_dir), "seed": 3, "requests": requests}
    scenario["engine"] = {"num_blocks": 14}
    run = record(Scenario.from_dict(scenario), dtype="float32", device="cpu", debug=True)
    run.header["source"]["model"] = str(tiny_dir)
    run = parse_run(run.to_bytes())
    verify(run)
    verify_tokens(run)
