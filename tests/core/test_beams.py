"""Beam search: what is chosen, and what happens to the blocks, without a model.

A pseudo-model stands in: the log-probabilities of the next token are a function of all tokens
before it, so a naive search over plain lists of tokens is the oracle. The engine's one runs through
scheduler, blocks and prefix cache, with too few blocks, in chunks, beside others; its KV is read
back, and the events must lead to its state (`debug=True`).
"""

from __future__ import annotations

import math
import random
from hashlib import blake2b
from typing import Any

import pytest

from core.engine import Engine
from core.errors import MismatchError, RequestError, ScenarioError
from core.runner import Candidate, StepBatch, StepOutput
from core.scenario import RequestSpec, Scenario
from core.simulate import verify
from core.trace.run import Run, parse_run
from tests.core.memory_runner import MemoryRunner

VOCABULARY = 48
EOS = 3


def logprobs(tokens: list[int]) -> list[float]:
    """Of each token of the vocabulary, after these; six decimals, like a real model's."""
    seed = blake2b(repr(tokens).encode(), digest_size=8).digest()
    scores = random.Random(seed).choices([0.0, 1.0, 2.5, 4.0], [8, 4, 2, 1], k=VOCABULARY)
    scores = [score + random.Random(seed + bytes([i])).random() for i, score in enumerate(scores)]
    total = math.log(sum(math.exp(score) for score in scores))
    return [round(score - total, 6) for score in scores]


class BeamRunner(MemoryRunner):
    """The pseudo-model, on a KV that is read back."""

    vocab_size = VOCABULARY

    def __init__(self, block_size: int, window: int | None = None, gives_back: bool = True) -> None:
        super().__init__(block_size, window, gives_back)
        self._eos = frozenset({EOS})
        self._source = self._source | {"device": "CPU", "model": "pseudo"}

    def execute(self, batch: StepBatch) -> StepOutput:
        output = super().execute(batch)
        for item in batch.scheduled:
            best: list[Candidate] = []
            if item.num_candidates:
                assert item.num_scheduled_tokens + item.seq.num_computed_tokens == len(
                    item.seq.tokens
                )
                every = enumerate(logprobs(item.seq.tokens.tolist()))
                best = sorted(every, key=lambda c: (-c[1], c[0]))[: item.num_candidates]
            output.candidates.append(best)
        return output


def oracle(
    prompt: list[int], width: int, penalty: float, early: bool, limit: int, ends: frozenset[int]
) -> list[tuple[list[int], float]]:
    """Naive beam search: lists of tokens, everything sorted afresh. [(output tokens, score)]."""
    beams: list[tuple[float, list[int]]] = [(0.0, [])]
    done: list[tuple[float, list[int]]] = []
    keep = max(2, 1 + len(ends)) * width
    for length in range(1, limit + 1):
        every = [
            (total + value, i, token, [*tokens, token])
            for i, (total, tokens) in enumerate(beams)
            for token, value in enumerate(logprobs([*prompt, *tokens]))
        ]
        every.sort(key=lambda c: (-c[0], c[1], c[2]))
        best = [(total, tokens) for total, _, _, tokens in every[:keep]]
        last = length == limit
        ended = [b for b in best[:width] if last or b[1][-1] in ends]
        done += [(total / length**penalty, tokens) for total, tokens in ended]
        done = sorted(done, key=lambda d: -d[0])[:width]
        beams = [b for b in best if b[1][-1] not in ends][:width]
        if last or (len(done) == width and (early or beams[0][0] / length**penalty <= done[-1][0])):
            break
    return [(tokens, score) for score, tokens in done]


def build(engine: dict[str, Any], requests: list[dict[str, Any]]) -> Scenario:
    return Scenario.from_dict(
        {"schema": "scenario/1", "model": "pseudo", "engine": engine, "requests": requests}
    )


def random_case(seed: int) -> Scenario:
    """Beam searches and ordinary requests in a pool that is often too small."""
    rng = random.Random(seed)
    bs = rng.choice([1, 2, 4, 5])
    mml = rng.randint(10, 32)
    requests: list[dict[str, Any]] = []
    stem = [rng.randrange(VOCABULARY) for _ in range(12)]
    most = 1
    for i in range(rng.randint(1, 4)):
        prompt = [*stem[: rng.randint(1, 9)], rng.randrange(VOCABULARY)]
        prompt = prompt[: mml - 2]
        request: dict[str, Any] = {
            "id": f"R{i}",
            "prompt_tokens": prompt,
            "arrive_step": rng.randint(0, 5),
            "max_tokens": rng.randint(1, 12),
            "priority": rng.randint(0, 2),
        }
        width = 1
        if i == 0 or rng.random() < 0.6:
            width = rng.randint(2, 5)
            request |= {
                "beam_width": width,
                "length_penalty": rng.choice([1.0, 0.0, 0.7, 2.0, -1.0]),
                "early_stopping": rng.random() < 0.5,
                "ignore_eos": rng.random() < 0.2,
                "stop_token_ids": rng.choice([[], [], [7], [7, 11]]),
            }
        else:
            width = request["n"] = rng.choice([1, 1, 3])
        total = -(-(min(len(prompt) + request["max_tokens"], mml) - 1) // bs)
        shared = len(prompt) // bs
        most = max(most, shared + width * (total - shared))
        if rng.random() < 0.15:
            request["cancel_step"] = request["arrive_step"] + rng.randint(1, 12)
        requests.append(request)
    engine = {
        "num_blocks": most + rng.choice([0, 0, 1, 3, 40]),
        "block_size": bs,
        "max_num_seqs": rng.randint(5, 12),
        "max_num_batched_tokens": rng.choice([5, 7, 16, 64]),
        "max_model_len": mml,
        "prefix_cache": rng.choice(["radix", "hash", "off"]),
        "eviction": rng.choice(["lru", "fifo", "lfu"]),
        "policy": rng.choice(["fcfs", "priority"]),
        "long_prefill_token_threshold": rng.choice([0, 0, 1, 3]),
        "watermark": rng.choice([0.0, 0.1]),
    }
    return build(engine, requests)


def run(scenario: Scenario, window: int | None = None) -> tuple[Engine, Run]:
    gives_back = scenario.engine.prefix_cache != "radix"
    runner = BeamRunner(scenario.engine.block_size, window, gives_back)
    engine = Engine(scenario, runner, debug=True, label="LIVE")
    return engine, engine.run_to_end()


def answers(engine: Engine, index: int) -> list[tuple[list[int], float | None]]:
    group = engine.requests[index].beams
    assert group is not None
    return [(seq.output_tokens, seq.beam_score) for seq in group.hypotheses]


def assert_case(seed: int, window: int | None = None) -> tuple[int, int]:
    scenario = random_case(seed)
    engine, result = run(scenario, window)
    config = scenario.engine
    for index, spec in enumerate(scenario.requests):
        if not spec.beam_width or spec.cancel_step is not None:
            continue
        prompt = list(spec.prompt_tokens or ())
        limit = config.tokens_at_most(len(prompt), spec.max_tokens) - len(prompt)
        ends = frozenset(spec.stop_token_ids) | (frozenset() if spec.ignore_eos else {EOS})
        expected = oracle(
            prompt, spec.beam_width, spec.length_penalty, spec.early_stopping, limit, ends
        )
        found = answers(engine, index)
        assert [tokens for tokens, _ in found] == [tokens for tokens, _ in expected], spec.id
        for (_, score), (_, wanted) in zip(found, expected, strict=True):
            assert score == pytest.approx(wanted, rel=1e-9), spec.id
    assert engine.kv.usage()["in_use"] == 0
    verify(parse_run(result.to_bytes()))
    kinds = [event["type"] for step in result.steps for event in step["events"]]
    return kinds.count("preempted"), kinds.count("pruned")


@pytest.mark.parametrize("part", range(4))
def test_the_engine_finds_what_a_naive_search_finds(part: int) -> None:
    seen = [assert_case(seed) for seed in range(60 * part, 60 * (part + 1))]
    assert sum(preempted for preempted, _ in seen) > 2
    assert sum(pruned for _, pruned in seen) > 100


def test_a_sliding_window_changes_no_answer() -> None:
    """What the beams share, one gives back after another; what no one sees is free in between."""
    seen = [assert_case(seed, window=1 + seed % 9) for seed in range(300, 360)]
    assert sum(preempted for preempted, _ in seen) > 0
    assert sum(pruned for _, pruned in seen) > 20


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_the_engine_finds_what_a_naive_search_finds_in_many_cases(part: int) -> None:
    for seed in range(1000 + 500 * part, 1500 + 500 * part):
        assert_case(seed)


ENGINE = {"num_blocks": 16, "block_size": 4, "prefix_cache": "off"}
BEAM = {"id": "A", "prompt_tokens": [5, 6, 7, 8, 9], "beam_width": 3, "max_tokens": 9}


def events(result: Run, kind: str) -> list[dict[str, Any]]:
    return [event for step in result.steps for event in step["events"] if event["type"] == kind]


def test_a_beam_that_forks_shares_every_block_and_copies_one_when_it_writes() -> None:
    _, result = run(build(ENGINE, [BEAM | {"ignore_eos": True}]))
    first = events(result, "forked")[0]
    assert first["sequences"] == ["A#0", "A#1", "A#2"]
    assert first["blocks"] == [0, 1]
    copied = [e for e in result.steps[1]["events"] if e["type"] == "block_copied"]
    assert [(e["src"], e["index"], e["num_slots"]) for e in copied] == [(1, 1, 1), (1, 1, 1)]
    assert [e["sequence"] for e in copied] == ["A#0", "A#1"], "the last holder writes in place"


def test_pruning_frees_only_what_the_beam_alone_holds() -> None:
    _, result = run(build(ENGINE, [BEAM | {"ignore_eos": True}]))
    prunings = [e for e in events(result, "blocks_freed") if e["reason"] == "pruned"]
    assert any(e["to"] == "held" for e in prunings)
    freed = {block for e in prunings if e["to"] == "front" for block in e["blocks"]}
    assert freed, "private tails are freed"
    assert 0 not in freed, "the prompt's full block is everybody's"


def test_a_group_is_preempted_as_a_whole_and_comes_back_as_one() -> None:
    first = {"id": "A", "prompt_tokens": list(range(10, 18)), "max_tokens": 24}
    beams = BEAM | {"id": "B", "arrive_step": 1, "ignore_eos": True, "max_tokens": 12}
    tight = ENGINE | {"num_blocks": 11}
    engine, result = run(build(tight, [first, beams]))
    preempted = events(result, "preempted")
    assert preempted
    for event in preempted:
        assert event["sequence"] == "B#0"
        assert event["sequences"] == sorted(event["sequences"])
        assert len(event["sequences"]) == 3
    step = next(s for s in result.steps if any(e["type"] == "preempted" for e in s["events"]))
    assert not any(name.startswith("B") for name in step["scheduled"]), "none of them is computed"
    roomy, _ = run(build(ENGINE | {"num_blocks": 64}, [first, beams]))
    assert answers(engine, 1) == answers(roomy, 1)


def test_beams_are_scheduled_together_or_not_at_all() -> None:
    others = [
        {"id": f"B{i}", "prompt_tokens": [20 + i], "max_tokens": 10, "ignore_eos": True}
        for i in range(4)
    ]
    beams = BEAM | {"arrive_step": 1, "ignore_eos": True}
    tight = ENGINE | {"num_blocks": 64, "max_num_batched_tokens": 6}
    _, result = run(build(tight, [*others, beams]))
    for step in result.steps:
        shares = [share for name, share in step["scheduled"].items() if name.startswith("A")]
        assert len(shares) in (0, 1, 3)
        assert len({share["num_scheduled_tokens"] for share in shares}) <= 1


def test_a_cancelled_search_gives_everything_back() -> None:
    engine, result = run(build(ENGINE, [BEAM | {"ignore_eos": True, "cancel_step": 4}]))
    ended = [(e["sequence"], e["reason"]) for e in events(result, "finished")]
    assert ended == [(f"A#{i}", "cancelled") for i in range(3)]
    assert engine.kv.usage() == {"free": 16, "cached": 0, "in_use": 0}


def test_the_results_name_the_rank_of_each_answer() -> None:
    _, result = run(build(ENGINE, [BEAM]))
    ranks = {name: r["rank"] for name, r in result.results.items() if r["rank"] is not None}
    assert sorted(ranks.values()) == [0, 1, 2]
    scores = [result.results[name]["score"] for name in sorted(ranks, key=ranks.__getitem__)]
    assert scores == sorted(scores, reverse=True)
    for r in result.results.values():
        assert r["finish_reason"] in ("max_tokens", "stop_token", "pruned")
        assert (r["rank"] is None) >= (r["finish_reason"] == "pruned")


def test_a_changed_candidate_is_noticed_without_the_model() -> None:
    _, result = run(build(ENGINE, [BEAM]))
    for step in (0, 2):
        forged = parse_run(result.to_bytes())
        candidates = forged.steps[step]["candidates"]["A#0"]
        candidates[0][1] -= 50.0  # the best one becomes the worst
        with pytest.raises(MismatchError):
            verify(forged)
        forged = parse_run(result.to_bytes())
        del forged.steps[step]["candidates"]["A#0"]
        with pytest.raises(MismatchError, match="candidates"):
            verify(forged)


@pytest.mark.parametrize(
    ("request_fields", "engine_fields", "path"),
    [
        ({"beam_width": 1}, {}, "beam_width"),
        ({"n": 2}, {}, "n"),
        ({"temperature": 0.5}, {}, "temperature"),
        ({"top_k": 3}, {}, "top_k"),
        ({"stop": ["x"]}, {}, "stop"),
        ({}, {"batching": "static"}, "beam_width"),
        ({}, {"allocator": "contiguous"}, "beam_width"),
        ({}, {"kv_cache": False}, "beam_width"),
        ({}, {"max_num_batched_tokens": 2}, "beam_width"),
    ],
)
def test_what_a_search_cannot_be_combined_with_is_refused(
    request_fields: dict[str, Any], engine_fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        build(ENGINE | engine_fields, [BEAM | request_fields])
    assert caught.value.path == f"requests[0].{path}"


def test_a_vocabulary_too_small_for_so_many_beams_is_refused() -> None:
    scenario = build(ENGINE, [BEAM | {"beam_width": 8, "stop_token_ids": [1, 2, 4, 5, 6]}])
    with pytest.raises(ScenarioError, match="vocabulary"):
        Engine(scenario, BeamRunner(4))


def test_more_beams_than_sequences_may_run_are_rejected() -> None:
    engine = Engine(build(ENGINE | {"max_num_seqs": 2}, []), BeamRunner(4))
    with pytest.raises(RequestError, match="max_num_seqs"):
        engine.add([RequestSpec(id="A", prompt_tokens=(1, 2), beam_width=3)])
