"""Log-probabilities: right, complete, and the same however the engine computes them."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine import Engine
from core.errors import MismatchError, RequestError
from core.llm import LLM
from core.outputs import SamplingParams
from core.record import record, verify_tokens
from core.sampling import logprobs as logprobs_module
from core.sampling import rows_at_once, token_logprobs
from core.scenario import Scenario
from core.simulate import verify
from core.trace.run import parse_run, run_from_dict

PROMPT = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]
ENGINES = {
    "whole": {},
    "chunks of 1": {"long_prefill_token_threshold": 1},
    "chunks of 7": {"long_prefill_token_threshold": 7},
    "hash": {"prefix_cache": "hash"},
    "off": {"prefix_cache": "off", "block_size": 1},
    "contiguous": {"prefix_cache": "off", "allocator": "contiguous", "max_model_len": 32},
}


def params(**fields):
    defaults = {"temperature": 0, "max_tokens": 5, "ignore_eos": True, "logprobs": 3}
    return SamplingParams(**{**defaults, "prompt_logprobs": 2, **fields})


# ---- one row after another -----------------------------------------------------------------------


def naive(row, token, k):
    """(logprob, rank, top) from a sort of the whole vocabulary."""
    total = math.log(math.fsum(math.exp(x - max(row)) for x in row)) + max(row)
    order = sorted(range(len(row)), key=lambda t: (-row[t], t))
    return row[token] - total, order.index(token) + 1, [(t, row[t] - total) for t in order[:k]]


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.lists(
                st.one_of(
                    st.integers(-2, 2).map(float), st.just(-0.0), st.floats(-30, 30, width=16)
                ),
                min_size=9,
                max_size=9,
            ),
            st.integers(0, 8),
            st.integers(0, 12),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_against_a_sort_of_the_vocabulary(rows, dtype):
    """Equal logits rank by id, −0 and 0 are equal, and more than the vocabulary is all of it."""
    logits = torch.tensor([row for row, _, _ in rows], dtype=dtype)
    got = token_logprobs(logits, [t for _, t, _ in rows], [k for _, _, k in rows])
    for one, row, (_, token, k) in zip(got, logits.tolist(), rows, strict=True):
        logprob, rank, top = naive(row, token, k)
        assert (one.token_id, one.rank) == (token, rank)
        assert one.logprob == pytest.approx(logprob, abs=1e-5)
        assert [t for t, _ in one.top] == [t for t, _ in top]
        assert [lp for _, lp in one.top] == pytest.approx([lp for _, lp in top], abs=1e-5)
        if rank <= len(one.top):
            assert one.top[rank - 1] == (token, one.logprob)


def test_pieces_make_no_difference_and_bound_the_memory(monkeypatch):
    logits = torch.randn(7, 50, generator=torch.Generator().manual_seed(3))
    whole = token_logprobs(logits, list(range(7)), [3] * 7)
    monkeypatch.setattr(logprobs_module, "MAX_ELEMENTS", 100)
    assert rows_at_once(50) == 2
    assert rows_at_once(1000) == 1
    assert token_logprobs(logits, list(range(7)), [3] * 7) == whole


def test_what_is_no_number_is_an_error_and_minus_infinity_is_written_as_a_number():
    for bad in (math.nan, math.inf):
        with pytest.raises(FloatingPointError):
            token_logprobs(torch.tensor([[0.0, bad]]), [0], [1])
    (one,) = token_logprobs(torch.tensor([[0.0, -math.inf]]), [1], [2])
    assert (one.logprob, one.rank, one.top) == (-9999.0, 2, ((0, 0.0), (1, -9999.0)))


# ---- the engine ----------------------------------------------------------------------------------


def assert_oracle(entries, ids, oracle, first=1, tolerance=1e-4):
    """entries: of ids[first:], judged by `transformers` in one pass over ids."""
    with torch.inference_mode():
        logits = oracle(torch.tensor([ids])).logits[0, first - 1 :]
    logprobs = torch.log_softmax(logits.double(), dim=-1)
    assert [entry.token_id for entry in entries] == ids[first : first + len(entries)]
    for entry, row in zip(entries, logprobs, strict=False):
        own = row[entry.token_id]
        assert entry.logprob == pytest.approx(own.item(), abs=tolerance)
        # Between those clearly likelier and those not clearly less likely.
        assert (row > own + tolerance).sum() < entry.rank <= (row > own - tolerance).sum()
        for (token, logprob), best in zip(entry.top, row.topk(len(entry.top)).values, strict=True):
            assert logprob == pytest.approx(row[token].item(), abs=tolerance)
            assert logprob == pytest.approx(best.item(), abs=tolerance)


def assert_right(out, oracle):
    """All of a request's log-probabilities, and their number."""
    prompt = out.prompt_token_ids
    assert out.prompt_logprobs[0] is None and len(out.prompt_logprobs) == len(prompt)
    assert_oracle(out.prompt_logprobs[1:], prompt, oracle)
    for answer in out.outputs:
        ids = prompt + answer.token_ids
        assert len(answer.logprobs) == len(answer.token_ids)
        assert_oracle(out.prompt_logprobs[1:] + answer.logprobs, ids, oracle)
        total = sum(entry.logprob for entry in answer.logprobs)
        assert answer.cumulative_logprob == pytest.approx(total)


def plain(outs):
    """Tokens, ranks and log-probabilities rounded to what float32 is sure of."""
    return [
        [
            (entry.token_id, round(entry.logprob, 3), [t for t, _ in entry.top])
            for entries in (out.prompt_logprobs[1:], *(a.logprobs for a in out.outputs))
            for entry in entries
        ]
        for out in outs
    ]


@pytest.mark.parametrize("engine", list(ENGINES.values()), ids=list(ENGINES))
def test_they_are_those_of_transformers(tiny_llm, tiny_oracle, engine):
    llm = tiny_llm(**engine)
    prompts = [PROMPT, PROMPT[:9], [200], [3, 300]]
    outs = llm.generate(prompts, params())
    for out in outs:
        assert_right(out, tiny_oracle)
        assert all(len(entry.top) == 3 for a in out.outputs for entry in a.logprobs)
        assert all(len(entry.top) == 2 for entry in out.prompt_logprobs[1:])
    verify(parse_run(llm.last_run.to_bytes()))


def test_such_a_request_does_not_read_the_cache_but_fills_it(tiny_llm, tiny_oracle):
    """Trap 15: also where all of its prompt is cached; the next one without finds the prefix."""
    for cache in ("radix", "hash"):
        llm = tiny_llm(prefix_cache=cache)
        for _ in range(2):
            (out,) = llm.generate(PROMPT, params())
            assert out.num_cached_tokens == 0
            assert_right(out, tiny_oracle)
        (out,) = llm.generate(PROMPT, params(prompt_logprobs=None))
        assert out.num_cached_tokens == 12
        assert out.prompt_logprobs is None
        verify(parse_run(llm.last_run.to_bytes()))


@pytest.mark.parametrize("chunk", [0, 1, 7])
@pytest.mark.parametrize("n", [1, 3])
def test_preemption_neither_doubles_nor_loses_any(tiny_llm, tiny_oracle, chunk, n):
    prompts = [PROMPT, PROMPT[1:], PROMPT[2:]]
    crowded = tiny_llm(num_blocks=14, max_model_len=24, long_prefill_token_threshold=chunk)
    asked = params(n=n, temperature=0.9, seed=4, max_tokens=7)
    outs = crowded.generate(prompts, asked)
    run = crowded.last_run
    assert sum(result["num_preemptions"] for result in run.results.values()) > 0
    for out in outs:
        assert_right(out, tiny_oracle)
        assert len({tuple(a.token_ids) for a in out.outputs}) == n
    assert plain(outs) == plain([tiny_llm().generate(p, asked)[0] for p in prompts])
    verify(parse_run(run.to_bytes()))


def test_a_prefill_preempted_between_chunks_judges_each_position_once(tiny, tiny_oracle):
    """A grows into the blocks of B, which has computed half of its prompt."""
    a = {"id": "A", "prompt_tokens": [9, 8, 7], "max_tokens": 9, "ignore_eos": True}
    b = {"id": "B", "prompt_tokens": PROMPT, "max_tokens": 2, "prompt_logprobs": 1}
    settings = {"num_blocks": 5, "block_size": 4, "max_model_len": 16, "max_num_batched_tokens": 2}
    scenario = {"schema": "scenario/1", "model": "tiny", "engine": settings, "requests": [a, b]}
    tiny.bind(5, 4)
    engine = Engine(Scenario.from_dict(scenario), tiny, label="LIVE", debug=True)
    request = engine.requests[1]
    judged_at_preemption = None
    while not engine.done:
        engine.step()
        if judged_at_preemption is None and request.sequences[0].num_preemptions:
            judged_at_preemption = len(request.prompt_logprobs)
    assert 0 < judged_at_preemption < len(PROMPT) - 1
    assert len(request.prompt_logprobs) == len(PROMPT) - 1
    assert_oracle(request.prompt_logprobs, PROMPT, tiny_oracle)


def test_beside_those_that_do_not_ask(tiny_llm, tiny_oracle):
    llm = tiny_llm()
    asked = [
        params(),
        params(logprobs=None, prompt_logprobs=None),
        params(logprobs=None),
        params(prompt_logprobs=None, n=2, temperature=2.0),
    ]
    outs = llm.generate([PROMPT, PROMPT[3:], PROMPT[4:], PROMPT[5:]], asked)
    assert_right(outs[0], tiny_oracle)
    assert outs[1].prompt_logprobs is None and outs[1].outputs[0].logprobs is None
    assert outs[1].outputs[0].cumulative_logprob is None
    assert outs[2].outputs[0].logprobs is None
    assert_oracle(outs[2].prompt_logprobs[1:], PROMPT[4:], tiny_oracle)
    for answer in outs[3].outputs:
        ids = PROMPT[5:] + answer.token_ids
        assert len(answer.logprobs) == 5
        assert_oracle(answer.logprobs, ids, tiny_oracle, first=len(PROMPT[5:]))


def test_settings_of_sampling_do_not_enter(tiny_llm, tiny_oracle):
    warped = params(temperature=3.0, top_k=5, top_p=0.9, min_p=0.01, repetition_penalty=1.9, seed=1)
    (out,) = tiny_llm().generate(PROMPT, warped)
    assert_right(out, tiny_oracle)


def test_zero_names_the_token_alone_and_streams_carry_them(tiny_llm):
    llm = tiny_llm()
    (wide,) = llm.generate(PROMPT, params())
    (bare,) = llm.generate(PROMPT, params(logprobs=0, prompt_logprobs=0))
    for one, other in zip(
        [*wide.prompt_logprobs[1:], *wide.outputs[0].logprobs],
        [*bare.prompt_logprobs[1:], *bare.outputs[0].logprobs],
        strict=True,
    ):
        assert (other.token_id, other.rank, other.top) == (one.token_id, one.rank, ())
    deltas = list(llm.stream(PROMPT, params(logprobs=0)))
    assert [d.logprobs for d in deltas] == bare.outputs[0].logprobs
    assert all(d.logprobs is None for d in llm.stream(PROMPT, params(logprobs=None)))


@pytest.mark.parametrize("value", [-1, 101, 1.5, "2", True])
@pytest.mark.parametrize("field", ["logprobs", "prompt_logprobs"])
def test_impossible_numbers_are_refused_by_name(tiny_llm, field, value):
    with pytest.raises(RequestError, match=rf"\.{field}"):
        tiny_llm().generate(PROMPT, params(**{field: value}))


# ---- in runs -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tiny_dir):
    """A run with both kinds and a fork, as a file's content."""
    llm = LLM(tiny_dir, dtype="float32", device="cpu", num_blocks=64, block_size=4)
    llm.generate([PROMPT, PROMPT[2:]], [params(n=2, temperature=1.0), params()])
    return parse_run(llm.last_run.to_bytes()).to_dict()


def test_runs_hold_them(written):
    assert list(written["results"]) == ["0#0", "0#1", "1"]
    for name, result in written["results"].items():
        assert len(result["logprobs"]) == 5
        assert all(len(entry["top"]) == 3 for entry in result["logprobs"])
        if name == "0#1":
            assert "prompt_logprobs" not in result
        else:
            assert result["prompt_logprobs"][0]["token"] == (6 if name == "0#0" else 8)
    shown = written["header"]["token_text"]
    for result in written["results"].values():
        for entry in [*result["logprobs"], *result.get("prompt_logprobs", [])]:
            assert all(str(token) in shown for token, _ in entry["top"])


def tampered(written, change):
    content = copy.deepcopy(written)
    change(content["results"]["1"])
    return run_from_dict(content)


@pytest.mark.parametrize("kind", ["logprobs", "prompt_logprobs"])
@pytest.mark.parametrize(
    "change",
    [
        lambda entries: entries.pop(),
        lambda entries: entries.append(entries[-1]),
        lambda entries: entries.clear(),
        lambda entries: entries.reverse(),
        lambda entries: entries[1].update(token=entries[1]["token"] + 1),
        lambda entries: entries[1].update(rank=entries[1]["rank"] % 3 + 1),
        lambda entries: entries[1].update(logprob=0.5),
        lambda entries: entries[1]["top"].reverse(),
        lambda entries: entries[1]["top"].pop(),
        lambda entries: entries[1]["top"][0].__setitem__(1, 0.1),
        lambda entries: entries[1]["top"].__setitem__(1, entries[1]["top"][0]),
    ],
    ids=[
        "one less", "one more", "none", "reversed", "token", "rank", "logprob", "top reversed",
        "top shorter", "top above 0", "top doubled",
    ],
)  # fmt: skip
def test_what_contradicts_the_run_is_found_without_the_model(written, kind, change):
    verify(run_from_dict(copy.deepcopy(written)))
    with pytest.raises(MismatchError, match=rf"results\.1\.{kind}"):
        verify(tampered(written, lambda result: change(result[kind])))


def test_nobody_else_can_have_them(written):
    for name, kind in [("0#1", "prompt_logprobs"), ("1", "logprobs")]:
        content = copy.deepcopy(written)
        entries = content["results"]["1"][kind]
        content["results"][name][kind] = entries
        content["header"]["scenario"]["requests"][1]["logprobs"] = 0
        with pytest.raises(MismatchError, match=kind):
            verify(run_from_dict(content))


@pytest.fixture
def recorded(tiny_dir):
    scenario = Scenario.from_dict(
        {
            "schema": "scenario/1",
            "model": str(tiny_dir),
            "engine": {"num_blocks": 12, "block_size": 4, "max_model_len": 40},
            "requests": [
                {"id": "A", "prompt_tokens": PROMPT, "n": 2, "temperature": 0.9, "logprobs": 2},
                {"id": "B", "prompt_tokens": PROMPT, "prompt_logprobs": 3, "arrive_step": 1},
            ],
        }
    )
    run = record(scenario, dtype="float32", device="cpu", debug=True)
    run.header["source"]["model"] = str(tiny_dir)
    return parse_run(run.to_bytes())


def test_the_model_confirms_them_within_a_tolerance(recorded):
    verify(recorded)
    verify_tokens(recorded)
    entry = recorded.results["A#1"]["logprobs"][3]
    for candidate in [entry, *entry["top"]]:
        key = "logprob" if candidate is entry else 1
        for change, fits in [(5e-4, True), (2e-3, False)]:
            before = candidate[key]
            candidate[key] += change
            if fits:
                verify_tokens(recorded)
            else:
                with pytest.raises(MismatchError, match=r"A#1: logprobs\[3\]"):
                    verify_tokens(recorded)
            candidate[key] = before
    entry = recorded.results["B"]["prompt_logprobs"][5]
    entry["top"][2][0] = 77
    with pytest.raises(MismatchError, match=r"B: prompt_logprobs\[5\]"):
        verify_tokens(recorded)


# ---- the real model ------------------------------------------------------------------------------


@pytest.mark.model
@pytest.mark.parametrize("chunk", [0, 7])
def test_smollm_agrees_with_transformers(smollm, smollm_oracle, monkeypatch, chunk):
    def from_loaded(model, dtype, device, *, threads, seed, weights, paged, **pool):
        smollm.bind(**pool, seed=seed)
        return smollm

    monkeypatch.setattr("core.model.load_runner.ModelRunner", from_loaded)
    llm = LLM(dtype="float32", block_size=4, long_prefill_token_threshold=chunk, debug=True)
    prompts = ["The capital of France is Paris, and that of Italy", "日本の首都は"]
    for out in llm.generate(prompts, params(logprobs=5, prompt_logprobs=4)):
        assert_right(out, smollm_oracle)
