"""Traps 27 – 30 with a real (tiny) model: what is sampled when, and who gets nothing more."""

from __future__ import annotations

from itertools import count

import pytest
from model_driver import chosen

from core.outputs import SamplingParams
from core.simulate import verify
from core.trace.run import parse_run

PROMPT = [5, 6, 7, 8, 9, 10, 11]


def params(**fields):
    return SamplingParams(**{"temperature": 0, "max_tokens": 8, "ignore_eos": True, **fields})


def events(run, kind, **fields):
    return [
        event
        for record in run.steps
        for event in record["events"]
        if event["type"] == kind and all(event.get(k) == v for k, v in fields.items())
    ]


@pytest.fixture
def greedy(tiny_llm):
    """The tokens that the tiny model goes on with after PROMPT."""
    return tiny_llm().generate(PROMPT, params(max_tokens=12))[0].outputs[0].token_ids


def test_a_chunk_that_leaves_its_prompt_unfinished_returns_no_token(tiny_llm, greedy):
    """Trap 27: 7 tokens in chunks of 3, beside a sequence that decodes."""
    llm = tiny_llm(long_prefill_token_threshold=3)
    execute, sizes = llm.runner.execute, []

    def watched(batch):
        output = execute(batch)
        for item, tokens in zip(batch.scheduled, output.token_ids, strict=True):
            sizes.append((item.seq.id, item.num_scheduled_tokens, len(tokens)))
        return output

    llm.runner.execute = watched
    outs = llm.generate([PROMPT, [3]], [params(max_tokens=2), params(max_tokens=4)])
    assert [s for s in sizes if s[0] == "0"] == [("0", 3, 0), ("0", 3, 0), ("0", 1, 1), ("0", 1, 1)]
    assert outs[0].outputs[0].token_ids == greedy[:2]


def own_eos(llm, monkeypatch, token):
    """Make a token the model's own end of sequence."""
    monkeypatch.setattr(type(llm.runner), "eos_token_ids", property(lambda _: frozenset({token})))


@pytest.mark.parametrize("cache", ["radix", "hash", "off"])
def test_eos_on_the_last_slot_of_a_block_takes_no_block_and_frees_once(
    tiny_llm, greedy, monkeypatch, cache
):
    """Trap 28: the token in slot 7, the last of block 1, samples the end."""
    llm = tiny_llm(prefix_cache=cache)
    eos = greedy[1]
    assert eos not in greedy[:1]
    own_eos(llm, monkeypatch, eos)
    (out,) = llm.generate(PROMPT, params(ignore_eos=False))
    assert out.outputs[0].token_ids == greedy[:2]
    run = llm.last_run
    assert sum(len(e["blocks"]) for e in events(run, "blocks_allocated")) == 2
    freed = [block for e in events(run, "blocks_freed") for block in e["blocks"]]
    assert len(freed) == len(set(freed)) == 2
    assert llm.engine.kv.num_free == 64
    verify(parse_run(run.to_bytes()))


@pytest.mark.parametrize(
    ("fields", "num", "reason"),
    [
        ({"ignore_eos": False}, 4, "stop_token"),
        ({}, 8, "max_tokens"),
        ({"stop_token_ids": "eos"}, 4, "stop_token"),
        ({"ignore_eos": False, "max_tokens": 4}, 4, "stop_token"),
        ({"ignore_eos": False, "max_tokens": 3}, 3, "max_tokens"),
        ({"max_tokens": 1}, 1, "max_tokens"),
    ],
    ids=str,
)
def test_nothing_comes_after_a_stop_and_the_stop_stays_in(
    tiny_llm, greedy, monkeypatch, fields, num, reason
):
    """Trap 29: `ignore_eos` goes on after the model's own EOS, never after a stop token."""
    llm = tiny_llm()
    eos = greedy[3]
    assert eos not in greedy[:3]
    own_eos(llm, monkeypatch, eos)
    fields = {k: (eos,) if v == "eos" else v for k, v in fields.items()}
    (answer,) = llm.generate(PROMPT, params(**fields))[0].outputs
    assert answer.token_ids == greedy[:num]
    assert answer.finish_reason == reason
    verify(parse_run(llm.last_run.to_bytes()))


def test_the_models_own_end_is_that_of_its_config(tiny_llm, monkeypatch):
    """Trap 29: without `ignore_eos` a run ends when <|im_end|>, id 2, is sampled."""
    numbers = count()
    monkeypatch.setattr(
        "core.model.step_outputs.draft", lambda logits, specs: chosen([[9, 2, 7][next(numbers)]])
    )
    (answer,) = tiny_llm().generate(PROMPT, params(ignore_eos=False))[0].outputs
    assert (answer.token_ids, answer.finish_reason) == ([9, 2], "stop_token")


@pytest.mark.parametrize("after", [1, 3])
def test_an_abort_between_steps_drops_what_would_come(tiny_llm, greedy, after):
    """Trap 30: a stream closed after some tokens; the others go on undisturbed."""
    llm = tiny_llm(num_blocks=16)
    stream, other = llm.stream([3, 4], params()), llm.stream(PROMPT, params())
    for _ in range(after):
        next(stream)
    stream.close()
    assert [delta.token_id for delta in other] == greedy[:8]
    run = llm.last_run
    assert [e["num_output_tokens"] for e in events(run, "finished", sequence="0")] == [after]
    freed = [b for e in events(run, "blocks_freed", sequence="0") for b in e["blocks"]]
    assert len(freed) == len(set(freed))
    assert llm.engine.kv.usage()["in_use"] == 0
    verify(parse_run(run.to_bytes()))


def test_an_abort_of_a_prefill_parked_between_chunks_gives_all_back(tiny_llm, greedy):
    """Trap 30: 4 of 7 prompt tokens are computed; its blocks serve another, which is right."""
    llm = tiny_llm(num_blocks=4, max_model_len=16, max_num_batched_tokens=4)
    parked = llm.stream(PROMPT, params(prompt_logprobs=1, logprobs=1))
    llm._step()
    (request,) = llm.engine.requests
    assert request.sequences[0].num_computed_tokens == 4
    llm._abandon([request])
    assert list(parked) == []
    assert llm.engine.kv.usage()["in_use"] == 0
    (out,) = llm.generate(PROMPT, params())
    assert out.outputs[0].token_ids == greedy[:8]
    assert out.num_cached_tokens == 4, "the block that was filled stays matchable"
    run = parse_run(llm.last_run.to_bytes())
    assert len(run.results["0"]["prompt_logprobs"]) == 4
    verify(run)
