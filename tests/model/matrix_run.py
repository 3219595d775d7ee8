"""Runs a case of the matrix and compares all that comes out with the oracle.

Every prompt is asked greedily; some are asked again with a seed. A third of the requests ask for
log-probabilities of their prompts too (and so do not read the prefix cache).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from collections.abc import Sequence as Listing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import families
from matrix import LONG, SMOLLM, TEXTS, TINY_PROMPTS, Case
from model_driver import oracle
from oracle_tokens import Chain, read_all

from core.engine import Engine
from core.model.cache import load_path
from core.model.model_runner import ModelRunner
from core.request import Request
from core.scenario import Scenario
from core.simulate import verify
from core.trace.run import parse_run

Json = dict[str, Any]

NUM_PLACES = 3
MAX_MODEL_LEN = 96
TOLERANCE = 1e-4
FIRST_CALL = ".first"
EVERY = slice(None)
DRAW = {"temperature": 0.8, "top_k": 60, "top_p": 0.95}


@dataclass
class Subject:
    """A model, its prompts, and what `transformers` answers.

    greedy: a chain for each prompt. drawn: (prompt, index of the sequence) → chain.
    """

    runner: ModelRunner
    prompts: list[list[int]]
    num_tokens: int
    greedy: list[Chain]
    drawn: dict[tuple[int, int], Chain]

    @property
    def sampled(self) -> range:
        """The prompts that are drawn from as well."""
        return range(2, len(self.prompts), 6)


def make_subject(model: str, directory: Path) -> Subject:
    """directory: where to write a tiny checkpoint."""
    if model == SMOLLM:
        directory, num_tokens = load_path(SMOLLM), 6
    else:
        directory, num_tokens = families.FAMILIES[model](directory / model), 8
    runner = ModelRunner(directory, dtype="float32", device="cpu", num_blocks=1, block_size=16)
    prompts = [runner.tokenize(text) for text in TEXTS] if model == SMOLLM else TINY_PROMPTS
    greedy = [Chain(prompt, num_tokens) for prompt in prompts]
    subject = Subject(runner, prompts, num_tokens, greedy, {})
    for i, index in itertools.product(subject.sampled, range(NUM_PLACES)):
        settings = DRAW | {"seed": _seed(i)}
        subject.drawn[i, index] = Chain(prompts[i], num_tokens, settings, index)
    drafts = _drafts(subject)
    chains = [*subject.greedy, *subject.drawn.values()]
    for chain, draft in zip(chains, drafts, strict=True):
        chain.draft = draft
    read_all(oracle(directory), chains)
    assert sum(len(c.tokens) for c in chains) > 0.95 * num_tokens * len(chains), "too close to call"
    return subject


def _drafts(subject: Subject) -> list[list[int]]:
    """The answers of the plainest engine, in the order of the chains."""
    plain = Case("", 64, 0, "off", "forked", "fcfs", "paged", "continuous")
    (engine,) = run_case(plain, subject)
    found = {seq.id: seq.output_tokens for seq in engine.sequences().values()}
    greedy = [found[f"g{i}#0"] for i in range(len(subject.prompts))]
    return greedy + [found[f"s{i}#{index}"] for i, index in subject.drawn]


# ---- running -------------------------------------------------------------------------------------


def _seed(prompt: int) -> int:
    return 1000 + prompt


def run_case(
    case: Case, subject: Subject, part: slice = EVERY, kv_cache: bool = True
) -> list[Engine]:
    """The engines of a case, run to their ends. part: of the prompts."""
    prompts = [
        i
        for i, prompt in list(enumerate(subject.prompts))[part]
        if len(prompt) <= LONG or case.block_size == 64
    ]
    if "preempted" in case.situation:  # many run together, and grow
        prompts.sort(key=lambda i: len(subject.prompts[i]))
    requests = _requests(case, subject, prompts)
    if case.situation == "alone":
        engines = [_engine(case, subject, [request], kv_cache=kv_cache) for request in requests]
    elif case.situation == "hits":
        first = [r | {"id": r["id"] + FIRST_CALL} for r in requests if int(r["id"][1:]) % 4 < 2]
        engines = [_engine(case, subject, first, requests, kv_cache)]
    else:
        engines = [_engine(case, subject, requests, kv_cache=kv_cache)]
    return engines


def _requests(case: Case, subject: Subject, prompts: Iterable[int]) -> list[Json]:
    """The requests of a call: the drawn ones stand among the greedy ones."""
    requests: list[Json] = []
    for i in prompts:
        requests.append({"id": f"g{i}", "logprobs": 1, "prompt_logprobs": int(i % 3 == 2)})
        if i in subject.sampled:
            requests.append({"id": f"s{i}", "seed": _seed(i), **DRAW})
        for request in requests[-2:]:
            request.setdefault("prompt_tokens", subject.prompts[i])
    for order, request in enumerate(requests):
        request |= {"max_tokens": subject.num_tokens, "ignore_eos": True}
        if "forked" in case.situation:
            request["n"] = NUM_PLACES
        if case.situation == "mixed":
            request["arrive_step"] = order
        if case.policy == "priority":
            request["priority"] = order // 5 % 3
    return requests


def _engine(
    case: Case,
    subject: Subject,
    requests: list[Json],
    more: Listing[Json] = (),
    kv_cache: bool = True,
) -> Engine:
    """Run requests, and then those of a second call."""
    blocks = [_blocks_at_most(case, request) for request in (*requests, *more)]
    num_blocks = max(blocks) if "preempted" in case.situation else sum(blocks)
    if case.allocator == "contiguous":
        num_blocks = 6 * -(-MAX_MODEL_LEN // case.block_size)  # six at once: the others wait
    scenario = Scenario.from_dict(
        {
            "schema": "scenario/1",
            "model": "any",
            "requests": requests,
            "engine": {
                "num_blocks": num_blocks,
                "block_size": case.block_size,
                "max_num_seqs": 48,
                "max_num_batched_tokens": 128,
                "max_model_len": MAX_MODEL_LEN,
                "long_prefill_token_threshold": case.chunk,
                "prefix_cache": case.prefix_cache,
                "eviction": {1: "fifo", 7: "lfu"}.get(case.chunk, "lru"),
                "policy": case.policy,
                "allocator": case.allocator,
                "reserve": "request" if case.policy == "priority" else "max_model_len",
                "batching": case.batching,
                "kv_cache": kv_cache,
            },
        }
    )
    subject.runner.bind(scenario.engine.num_kv_blocks, case.block_size)
    engine = Engine(scenario, subject.runner, debug=True, label="LIVE")
    engine.finish()
    if more:
        later = Scenario.from_dict(scenario.to_dict() | {"requests": list(more)}).requests
        now = engine.num_steps
        engine.add([dataclasses.replace(spec, arrive_step=now) for spec in later])
        engine.finish()
    return engine


def _blocks_at_most(case: Case, request: Json) -> int:
    """That a request may hold, alone in the engine: the smallest pool that can serve it."""
    size, num_prompt_tokens = case.block_size, len(request["prompt_tokens"])
    total = -(-(num_prompt_tokens + request["max_tokens"] - 1) // size)
    shared = num_prompt_tokens // size
    return shared + request.get("n", 1) * (total - shared)


# ---- what must hold ------------------------------------------------------------------------------


def check(case: Case, subject: Subject, engines: list[Engine]) -> None:
    """Every answer is the oracle's, and what the case is about did happen."""
    for engine in engines:
        assert engine.kv.usage()["in_use"] == 0
        for request in engine.requests:
            _check_request(request, subject)
        verify(parse_run(engine.run().to_bytes()))
    _check_situation(case, engines[0])


def _check_request(request: Request, subject: Subject) -> None:
    name = request.id.removesuffix(FIRST_CALL)
    prompt = int(name[1:])
    assert len(request.sequences) == request.spec.n
    for seq in request.sequences:
        drawn = name.startswith("s")
        chain = subject.drawn[prompt, seq.index] if drawn else subject.greedy[prompt]
        assert seq.num_output_tokens == subject.num_tokens
        assert seq.output_tokens[: len(chain.tokens)] == chain.tokens, seq.id
        if not drawn:
            own = [entry.logprob for entry in seq.logprobs]
            assert len(own) == subject.num_tokens
            assert_close(own[: len(chain.tokens)], chain.logprobs, seq.id)
    if request.spec.prompt_logprobs:
        own = [entry.logprob for entry in request.prompt_logprobs]
        assert len(own) == len(request.prompt_tokens) - 1
        assert_close(own, subject.greedy[prompt].prompt_logprobs, request.id)


def assert_close(own: list[float], expected: list[float], name: str) -> None:
    worst = max((abs(a - b) for a, b in zip(own, expected, strict=True)), default=0.0)
    assert worst <= TOLERANCE, f"{name}: log-probabilities differ by {worst}"


def _check_situation(case: Case, engine: Engine) -> None:
    steps = engine.run().steps
    kinds = {event["type"] for step in steps for event in step["events"]}
    if "preempted" in case.situation and not _gives_back(engine):
        assert kinds >= {"preempted", "resumed"}
    if "forked" in case.situation:
        assert "forked" in kinds
        # A block of one token is full when it is shared: nobody writes into it.
        copies = case.block_size > 1 and engine.config.kv_cache
        assert ("block_copied" in kinds) == copies
    if case.situation == "batch":
        assert max(len(step["scheduled"]) for step in steps) > 5
    if case.situation == "mixed":
        assert any(_is_mixed(engine, step["scheduled"]) for step in steps)
    if case.situation == "hits":
        _check_hits(case, engine)


def _gives_back(engine: Engine) -> bool:
    """Whether a sliding window frees blocks on the way, so that a small pool may suffice."""
    return engine.kv.sliding_window is not None


def _is_mixed(engine: Engine, scheduled: Json) -> bool:
    """Whether some compute their prompt while others compute their own outputs."""
    sequences = engine.sequences()
    in_prompt = {
        sum(share.values()) <= sequences[name].num_prompt_tokens
        for name, share in scheduled.items()
    }
    return in_prompt == {True, False}


def _check_hits(case: Case, engine: Engine) -> None:
    """The second call reads what the first one cached; some hits end inside a shared block."""
    cached = [r.prompt_tokens.tolist() for r in engine.requests if r.id.endswith(FIRST_CALL)]
    ends_inside = 0
    for request in engine.requests[len(cached) :]:
        prompt, hit = request.prompt_tokens.tolist(), request.num_cached_tokens
        if request.spec.prompt_logprobs:
            assert hit == 0
            continue
        shared = max(_num_shared(prompt, other) for other in cached)
        findable = min(shared, len(prompt) - 1) // case.block_size * case.block_size
        assert hit is not None and hit >= findable
        ends_inside += 0 < hit < shared < len(prompt)
    assert ends_inside or case.block_size == 1


def _num_shared(a: list[int], b: list[int]) -> int:
    """Length of the common prefix."""
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )
