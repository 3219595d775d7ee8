"""Corners where features meet: each of these once ended in a traceback or in a wrong answer."""

from __future__ import annotations

import copy
import json

import pytest
import torch

from core.errors import MismatchError, RequestError, ScenarioError
from core.llm import LLM
from core.outputs import SamplingParams
from core.record import record
from core.sampling import token_logprobs, top_candidates
from core.scenario import Scenario
from core.simulate import verify
from core.trace.run import parse_run, run_from_dict

P = list(range(5, 25))


def recorded(model, engine, *requests):
    data = {"schema": "scenario/1", "model": str(model), "engine": engine, "requests": [*requests]}
    run = record(Scenario.from_dict(data), dtype="float32", device="cpu", debug=True)
    return parse_run(run.to_bytes())


@pytest.fixture
def llm(tiny_dir):
    return LLM(tiny_dir, dtype="float32", device="cpu", num_blocks=64, block_size=4, debug=True)


def greedy(**fields):
    return SamplingParams(**{"temperature": 0, "max_tokens": 6, "ignore_eos": True, **fields})


def test_equal_logits_rank_by_id_whoever_else_is_in_the_batch():
    logits = torch.randn(40, 320, generator=torch.Generator().manual_seed(0)).mul(2).round()
    alone = [top_candidates(row[None], [4])[0] for row in logits]
    beside = top_candidates(logits, [4 + 12 * (i % 2) for i in range(40)])
    assert [found[:4] for found in beside] == alone
    for row, found in zip(logits, alone, strict=True):
        (judged,) = token_logprobs(row[None], [found[0][0]], [4])
        assert [token for token, _ in judged.top] == [token for token, _ in found]


def test_more_log_probabilities_than_tokens_are_no_reason_to_fail(tiny_dir, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    for path in tiny_dir.iterdir():
        if path.suffix != ".safetensors":
            (small / path.name).write_bytes(path.read_bytes())
    import tiny_llama
    from safetensors.numpy import save_file

    config = {**tiny_llama.CONFIG, "vocab_size": 64}
    (small / "config.json").write_text(json.dumps(config))
    save_file(tiny_llama.weights(config, 0), small / "model.safetensors")
    request = {"id": "A", "prompt_tokens": P, "logprobs": 100}
    run = recorded(small, {}, request)
    assert len(run.results["A"]["logprobs"][0]["top"]) == 64
    with pytest.raises(ScenarioError, match="vocabulary of 64"):
        recorded(small, {}, request | {"beam_width": 2})


@pytest.mark.parametrize("fields", [{"n": 2}, {"beam_width": 2}, {}])
def test_prompt_log_probabilities_of_a_request_that_never_forked(tiny_dir, fields):
    request = {"id": "A", "prompt_tokens": P, "prompt_logprobs": 2, "cancel_step": 2} | fields
    run = recorded(tiny_dir, {"max_num_batched_tokens": 4}, request)
    verify(run)
    assert sum("prompt_logprobs" in result for result in run.results.values()) == 1


@pytest.mark.parametrize("started", [False, True])
def test_a_stream_that_is_closed_or_dropped_gives_everything_back(llm, started):
    for end in ("close", "drop"):
        stream = llm.stream(P, greedy())
        if started:
            next(stream)
        if end == "close":
            stream.close()
            assert llm.engine.done
            assert list(stream) == []
        del stream
        llm.generate([[3, 4]], greedy(max_tokens=3))
        assert llm.engine.done
        assert llm.engine.kv.usage()["in_use"] == 0


def test_an_old_stream_takes_nothing_from_a_new_one(llm):
    old = llm.stream(P, greedy())
    next(old)
    llm.reset()
    new = llm.stream([9, 8, 7], greedy())
    next(new)
    old.close()
    assert len(list(new)) == 5


def test_what_was_computed_can_be_read_after_a_reset(llm):
    stream = llm.stream(P, greedy())
    next(stream)
    llm.generate([[3, 3, 3]], greedy(max_tokens=20))
    llm.reset()
    rest = list(stream)
    assert len(rest) == 5
    assert rest[-1].finish_reason == "max_tokens"


def test_an_engine_that_has_lived_long_still_serves(tiny_dir):
    llm = LLM(tiny_dir, dtype="float32", device="cpu", trace=False)
    llm.engine.num_steps = 3_000_000
    assert len(llm.generate([P], greedy())[0].outputs[0].token_ids) == 6


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2.0},
        {"beam_width": 2.0},
        {"logprobs": 2.0},
        {"prompt_logprobs": 1.0},
        {"top_k": 5.0, "temperature": 1},
        {"seed": 1.0, "temperature": 1},
    ],
)
def test_a_whole_float_is_a_number_like_any_other(llm, fields):
    assert llm.generate([P], greedy(**fields))[0].outputs


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_called_so(llm, value):
    with pytest.raises(RequestError, match="temperature: not a finite number"):
        llm.generate([P], greedy(temperature=value))


def test_beams_ask_for_temperature_zero_in_so_many_words(llm):
    with pytest.raises(RequestError, match=r"set it to 0\.0"):
        llm.generate([P], SamplingParams(beam_width=2))


@pytest.mark.parametrize("prompt", [{"prompt": [1, 2]}, {"prompt_token_ids": "abc"}])
def test_a_prompt_under_the_wrong_name_is_refused(llm, prompt):
    with pytest.raises(RequestError, match="prompt is a text"):
        llm.generate(prompt, greedy())


def test_each_token_of_a_hypothesis_has_its_time(llm):
    free = llm.generate([P], greedy(beam_width=3, max_tokens=8))[0]
    ends = tuple({answer.token_ids[3] for answer in free.outputs})
    out = llm.generate([P], greedy(beam_width=3, stop_token_ids=ends, max_tokens=8))[0]
    assert {len(answer.token_ids) for answer in out.outputs} != {8}, "some end early"
    for answer in out.outputs:
        assert len(answer.times) == len(answer.token_ids)
        assert answer.times == sorted(answer.times)
        assert answer.cumulative_logprob / len(answer.token_ids) == pytest.approx(answer.score)


@pytest.mark.parametrize(
    ("engine", "longest"),
    [
        ({"kv_cache": False, "max_num_batched_tokens": 32}, 32),
        ({"chunked_prefill": False, "max_num_batched_tokens": 40}, 40),
        ({"num_blocks": 8, "block_size": 4}, 32),
    ],
)
def test_the_longest_context_is_what_model_pool_and_budget_allow(tiny_dir, engine, longest):
    assert LLM(tiny_dir, dtype="float32", device="cpu", **engine).config.max_model_len == longest


def test_a_warm_up_asks_for_no_more_than_it_needs(tiny_dir):
    engine = {"kv_cache": False, "max_num_batched_tokens": 1, "max_model_len": 1}
    run = recorded(tiny_dir, engine, {"id": "A", "prompt_tokens": [1]})
    assert run.results == {}, "a prompt of one token leaves no room for an answer"


def test_a_forged_ranking_or_script_is_a_mismatch(tiny_dir):
    run = recorded(tiny_dir, {}, {"id": "A", "prompt_tokens": P, "beam_width": 2}).to_dict()
    verify(run_from_dict(copy.deepcopy(run)))

    def candidates(forged):
        return forged["steps"][2]["candidates"]

    def all_one(forged):
        for ranking in candidates(forged).values():
            ranking[:] = [[2, -1.0 - i] for i in range(len(ranking))]

    def too_likely(forged):
        for ranking in candidates(forged).values():
            ranking[0][1] = 1e308

    def scripted(forged):
        forged["header"]["label"] = "SIMULATED"
        forged["header"]["source"]["model"] = "none"

    for forge in (all_one, too_likely, scripted):
        forged = copy.deepcopy(run)
        forge(forged)
        with pytest.raises(MismatchError):
            verify(run_from_dict(forged))
