"""The whole engine with the real model, as a person uses it: `LLM`, its runs, its refusals.

That its tokens are the oracle's in all situations is shown by `test_engine_matrix.py`.
"""

from __future__ import annotations

import pytest

from core.errors import RequestError
from core.llm import LLM
from core.model.model_runner import ModelRunner
from core.outputs import SamplingParams
from core.record import record, verify_tokens
from core.scenario import Scenario
from core.simulate import verify
from core.trace.run import parse_run

pytestmark = pytest.mark.model

PROMPTS = [
    "The capital of France is",
    "Water boils at 100 degrees at sea level, but",
    "Once upon a time there was a",
    "日本の首都は",
    "🙂🙂 means that",
    "A",
]
NUM_TOKENS = 8


@pytest.fixture
def make_llm(smollm, monkeypatch):
    """`LLM`s that share one load of the weights."""

    def from_loaded(model, dtype, device, *, threads, seed, weights, paged, **pool):
        assert dtype == "float32"
        smollm.bind(**pool, seed=seed)
        return smollm

    monkeypatch.setattr("core.model.load_runner.ModelRunner", from_loaded)
    return lambda **engine: LLM(dtype="float32", debug=True, **engine)


def greedy(**fields):
    return SamplingParams(temperature=0, max_tokens=NUM_TOKENS, ignore_eos=True, **fields)


def events(llm, kind):
    return [e for step in llm.last_run.steps for e in step["events"] if e["type"] == kind]


def test_the_run_verifies_without_the_model(make_llm):
    llm = make_llm(num_blocks=24, block_size=4, max_model_len=64)
    llm.generate(PROMPTS, greedy(n=2))
    run = parse_run(llm.last_run.to_bytes())
    verify(run)
    assert run.header["label"] == "LIVE"
    assert run.header["source"]["dtype"] == "float32"


def test_streaming_equals_generating(make_llm):
    llm = make_llm(num_blocks=64, block_size=4)
    for prompt in ("🙂🙂 means that", "日本の首都は", PROMPTS[0]):
        whole = llm.generate(prompt, greedy())[0].outputs[0]
        deltas = list(llm.stream(prompt, greedy()))
        assert "".join(delta.text for delta in deltas) == whole.text
        assert [delta.token_id for delta in deltas] == whole.token_ids
        assert all("\ufffd" not in delta.text for delta in deltas[:-1])


def test_a_closed_stream_cancels_its_request(make_llm):
    llm = make_llm(num_blocks=64, block_size=4)
    stream = llm.stream(PROMPTS[0], greedy())
    next(stream)
    stream.close()
    assert_free(llm, llm.generate(PROMPTS[3], greedy()))
    assert events(llm, "cancelled")
    verify(parse_run(llm.last_run.to_bytes()))


def assert_free(llm, outs):
    assert outs[0].outputs[0].token_ids
    assert llm.engine.kv.usage()["in_use"] == 0


@pytest.mark.parametrize(
    ("prompt", "fields", "says"),
    [
        ("", {}, "empty"),
        ([], {}, "empty"),
        ("word " * 80, {}, "max_model_len"),
        ("A", {"n": 9}, "more sequences"),
    ],
)
def test_impossible_requests_are_refused_at_once(make_llm, prompt, fields, says):
    llm = make_llm(num_blocks=64, block_size=4, max_model_len=64, max_num_seqs=8)
    with pytest.raises(ValueError, match=says) as error:
        llm.generate(["fine", prompt], [greedy(), greedy(**fields)])
    assert isinstance(error.value, RequestError)
    assert llm.engine.num_steps == 0, "nothing was run"


def test_a_request_larger_than_the_pool_is_refused(make_llm):
    llm = make_llm(num_blocks=4, block_size=4, max_model_len=512)
    with pytest.raises(RequestError, match="never fit the pool"):
        llm.generate("word " * 30, greedy())


def test_recording_verifies_with_tokens(smollm, monkeypatch):
    scenario = Scenario.from_dict(
        {
            "schema": "scenario/1",
            "engine": {"num_blocks": 10, "block_size": 4, "max_model_len": 40},
            "model": "smollm2-135m-instruct",
            "requests": [
                {"id": "A", "prompt": PROMPTS[0], "n": 2, "temperature": 0.9, "max_tokens": 6},
                {"id": "B", "prompt": PROMPTS[0], "arrive_step": 1, "max_tokens": 6},
            ],
        }
    )
    run = parse_run(record(scenario, dtype="float32", debug=True).to_bytes())
    assert run.header["label"] == "RECORDED"
    assert run.header["kv_bytes_per_token"] == 2 * 30 * 3 * 64 * 4
    assert run.header["kv_cache_bytes"] == 10 * 4 * run.header["kv_bytes_per_token"]
    assert run.results["B"]["text"] == smollm.tokenizer.decode(
        run.steps[-1]
        and [
            e["token"]
            for s in run.steps
            for e in s["events"]
            if e["type"] == "token_sampled" and e["sequence"] == "B"
        ]
    )
    verify(run)
    verify_tokens(run)


def test_bf16_runs_and_is_only_itself():
    """Two equal runs in bf16 agree; it is not compared with float32, batches round differently."""
    runner = ModelRunner("smollm2-135m-instruct", "bfloat16", "cpu", 64, 16)
    assert runner.kv_bytes_per_token == 23_040
    assert runner.kv_cache_bytes == 64 * 16 * 23_040
