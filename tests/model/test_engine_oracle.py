"""The whole engine with the real model, float32 and greedy, against `transformers`.

Scheduler, block manager and prefix cache all take part: alone, batched, in chunks, with prefix
hits in either cache, forks, and forced preemption the tokens must be the oracle's.
"""

from __future__ import annotations

import pytest
import torch

from core.errors import RequestError
from core.llm import LLM
from core.model.model_runner import ModelRunner
from core.outputs import SamplingParams
from core.record import record, verify_tokens
from core.scenario import Scenario
from core.simulate import verify
from core.trace.run import parse_run

pytestmark = pytest.mark.model

STEM = "In the old town by the river there is a small museum. It shows clocks, maps and letters."
PROMPTS = [
    "The capital of France is",
    "Water boils at 100 degrees at sea level, but",
    "def add(a, b):\n    return",
    "Once upon a time there was a",
    "1, 2, 4, 8, 16,",
    "日本の首都は",
    "🙂🙂 means that",
    STEM + " One day a visitor",
    STEM + " One day the keeper",
    STEM + " Nobody knows who built it, because",
    STEM,
    "A",
]
ALL = range(len(PROMPTS))
NUM_TOKENS = 12
MARGIN = 1e-4


@pytest.fixture(scope="module")
def expected(smollm_oracle, smollm):
    """For each prompt the oracle's tokens, up to the first one that is too close to call."""
    out = []
    for prompt in PROMPTS:
        ids = smollm.tokenize(prompt)
        tokens = []
        with torch.inference_mode():
            past, feed = None, torch.tensor([ids])
            while len(tokens) < NUM_TOKENS:
                step = smollm_oracle(feed, past_key_values=past, use_cache=True)
                past = step.past_key_values
                top = step.logits[0, -1].float().topk(2)
                if (top.values[0] - top.values[1]).item() <= MARGIN:
                    break
                tokens.append(top.indices[0].item())
                feed = top.indices[:1][None]
        out.append(tokens)
    assert sum(len(tokens) for tokens in out) > 0.9 * NUM_TOKENS * len(PROMPTS)
    return out


@pytest.fixture
def make_llm(smollm, monkeypatch):
    """`LLM`s that share one load of the weights."""

    def from_loaded(model, dtype, device, num_blocks, block_size, threads, seed):
        assert dtype == "float32"
        smollm.bind(num_blocks, block_size, seed)
        return smollm

    monkeypatch.setattr("core.llm.ModelRunner", from_loaded)
    return lambda **engine: LLM(dtype="float32", debug=True, **engine)


def greedy(**fields):
    return SamplingParams(temperature=0, max_tokens=NUM_TOKENS, ignore_eos=True, **fields)


def assert_expected(outs, expected, prompts=ALL):
    for out, index in zip(outs, prompts, strict=True):
        for answer in out.outputs:
            wanted = expected[index]
            assert answer.token_ids[: len(wanted)] == wanted, (PROMPTS[index], answer.index)


def events(llm, kind):
    return [e for step in llm.last_run.steps for e in step["events"] if e["type"] == kind]


def test_alone(make_llm, expected):
    for index, prompt in enumerate(PROMPTS):
        llm = make_llm(num_blocks=64, block_size=4)
        assert_expected(llm.generate(prompt, greedy()), expected, [index])


@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("prefix_cache", ["radix", "hash", "off"])
def test_batched(make_llm, expected, block_size, prefix_cache):
    llm = make_llm(num_blocks=1024 // block_size, block_size=block_size, prefix_cache=prefix_cache)
    assert_expected(llm.generate(PROMPTS, greedy()), expected)


@pytest.mark.parametrize("prefix_cache", ["radix", "hash"])
def test_prefix_hits(make_llm, expected, prefix_cache):
    llm = make_llm(num_blocks=256, block_size=4, prefix_cache=prefix_cache)
    first = llm.generate(PROMPTS, greedy())
    again = llm.generate(PROMPTS, greedy())
    assert_expected(first, expected)
    assert_expected(again, expected)
    for out in again:  # all but the last block that the last prompt token stands in
        assert out.num_cached_tokens == (len(out.prompt_token_ids) - 1) // 4 * 4


@pytest.mark.parametrize("prefix_cache", ["radix", "hash", "off"])
def test_forks(make_llm, expected, prefix_cache):
    llm = make_llm(num_blocks=256, block_size=4, prefix_cache=prefix_cache)
    assert_expected(llm.generate(PROMPTS, greedy(n=3)), expected)
    assert events(llm, "block_copied")


@pytest.mark.parametrize("prefix_cache", ["radix", "hash", "off"])
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_forced_preemption(make_llm, expected, prefix_cache, policy):
    llm = make_llm(
        num_blocks=22, block_size=4, max_model_len=64, prefix_cache=prefix_cache, policy=policy
    )
    assert_expected(llm.generate(PROMPTS, greedy()), expected)
    assert events(llm, "preempted")
    assert events(llm, "resumed")


@pytest.mark.parametrize("chunk", [1, 7, 16])
def test_chunks(make_llm, expected, chunk):
    llm = make_llm(num_blocks=256, block_size=4, long_prefill_token_threshold=chunk)
    assert_expected(llm.generate(PROMPTS, greedy()), expected)


@pytest.mark.parametrize("reserve", ["max_model_len", "request"])
def test_contiguous_and_static(make_llm, expected, reserve):
    llm = make_llm(
        num_blocks=64,
        block_size=4,
        max_model_len=64,
        allocator="contiguous",
        reserve=reserve,
        prefix_cache="off",
        batching="static",
    )
    assert_expected(llm.generate(PROMPTS, greedy()), expected)


def test_the_run_verifies_without_the_model(make_llm, expected):
    llm = make_llm(num_blocks=24, block_size=4, max_model_len=64)
    llm.generate(PROMPTS, greedy(n=2))
    run = parse_run(llm.last_run.to_bytes())
    verify(run)
    assert run.header["label"] == "LIVE"
    assert run.header["source"]["dtype"] == "float32"


def test_seeded_sampling_does_not_depend_on_company_or_preemption(make_llm):
    params = SamplingParams(temperature=0.8, max_tokens=NUM_TOKENS, seed=11, ignore_eos=True, n=2)
    alone = make_llm(num_blocks=256, block_size=4).generate(PROMPTS[1], params)
    crowded = make_llm(num_blocks=28, block_size=4, max_model_len=64)
    outs = crowded.generate(PROMPTS, params)
    assert events(crowded, "preempted")
    assert [o.token_ids for o in outs[1].outputs] == [o.token_ids for o in alone[0].outputs]
    assert outs[1].outputs[0].token_ids != outs[1].outputs[1].token_ids


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
