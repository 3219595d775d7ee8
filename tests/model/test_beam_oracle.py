"""Beam search against `transformers.generate(num_beams=…)`: the same hypotheses, in the same order.

Several searches share an engine, in roomy pools and in ones that are too small; random checkpoints
whose end-of-sequence token is one that they really sample, and the real model.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass

import families
import pytest
import torch
from matrix import TEXTS, TINY_PROMPTS
from model_driver import oracle

from core.engine import Engine
from core.model.model_runner import ModelRunner
from core.request import Request, Sequence
from core.scenario import Scenario
from core.simulate import verify
from core.trace.run import parse_run

TOLERANCE = 1e-4
"""Per output token, of a hypothesis' score."""
LIMIT = 10
WIDTHS = [2, 3, 4, 5, 6, 7, 8]
PENALTIES = [1.0, -1.0, 0.6, 2.0]
TINY = ["llama-mqa-tied", "mistral-window", "qwen2-window", "qwen3-layer-types"]
ENGINES = {
    "radix": {"prefix_cache": "radix"},
    "hash, blocks of 16": {"prefix_cache": "hash", "block_size": 16},
    "off, chunks of 7": {"prefix_cache": "off", "long_prefill_token_threshold": 7},
    "preempted, radix": {"prefix_cache": "radix", "num_blocks": 0},
    "preempted, hash": {"prefix_cache": "hash", "num_blocks": 0, "policy": "priority"},
    "preempted, off": {"prefix_cache": "off", "num_blocks": 0, "block_size": 3},
}


@dataclass(frozen=True)
class Search:
    """A prompt's beam search, as both sides are asked for it."""

    prompt: tuple[int, ...]
    width: int
    length_penalty: float
    early_stopping: bool
    max_tokens: int = LIMIT


def searches(prompts: list[list[int]]) -> list[Search]:
    """One for each prompt; widths, penalties and both ways of stopping take turns."""
    return [
        Search(tuple(prompt), WIDTHS[i % 7], PENALTIES[i % 4], i % 3 == 0)
        for i, prompt in enumerate(prompts)
    ]


class Oracle:
    """`transformers`' hypotheses: (output tokens, score), best first; each search is made once."""

    def __init__(self, directory, eos: tuple[int, ...]) -> None:
        self.model = oracle(directory)
        self.eos = eos
        self._known: dict[Search, list[tuple[list[int], float]]] = {}

    def __call__(self, search: Search) -> list[tuple[list[int], float]]:
        if search not in self._known:
            self._known[search] = self._search(search)
        return self._known[search]

    def _search(self, search: Search) -> list[tuple[list[int], float]]:
        ids = torch.tensor([search.prompt])
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                num_beams=search.width,
                num_return_sequences=search.width,
                length_penalty=search.length_penalty,
                early_stopping=search.early_stopping,
                max_new_tokens=search.max_tokens,
                do_sample=False,
                eos_token_id=list(self.eos),
                pad_token_id=0,
                return_dict_in_generate=True,
                output_scores=True,
            )
        outputs = [self._unpadded(row[ids.shape[1] :].tolist()) for row in found.sequences]
        return list(zip(outputs, found.sequences_scores.tolist(), strict=True))

    def _unpadded(self, tokens: list[int]) -> list[int]:
        end = next((i + 1 for i, token in enumerate(tokens) if token in self.eos), len(tokens))
        return tokens[:end]


def run(runner: ModelRunner, asked: list[Search], settings: dict) -> Engine:
    """All searches in one engine; every second one arrives later. num_blocks 0: too few."""
    settings = {"block_size": 4, "num_blocks": 2000, "max_model_len": 96, **settings}
    size = settings["block_size"]
    if not settings["num_blocks"]:
        settings["num_blocks"] = max(_blocks_at_most(search, size) for search in asked)
    requests = [
        {
            "id": f"B{i}",
            "prompt_tokens": search.prompt,
            "beam_width": search.width,
            "length_penalty": search.length_penalty,
            "early_stopping": search.early_stopping,
            "max_tokens": search.max_tokens,
            "arrive_step": i % 2,
            "priority": i // 3 % 2,
        }
        for i, search in enumerate(asked)
    ]
    scenario = {"schema": "scenario/1", "model": "any", "requests": requests}
    scenario["engine"] = {"max_num_seqs": 48, "max_num_batched_tokens": 96, **settings}
    runner.bind(settings["num_blocks"], size)
    engine = Engine(Scenario.from_dict(scenario), runner, debug=True, label="LIVE")
    engine.finish()
    return engine


def _blocks_at_most(search: Search, size: int) -> int:
    total = -(-(len(search.prompt) + search.max_tokens - 1) // size)
    shared = len(search.prompt) // size
    return shared + search.width * (total - shared)


def check(engine: Engine, asked: list[Search], expected: Oracle) -> Counter[str]:
    """Compare all hypotheses; how often each thing happened, and each reason for an end."""
    assert engine.kv.usage()["in_use"] == 0
    seen: Counter[str] = Counter()
    for request, search in zip(engine.requests, asked, strict=True):
        hypotheses = _hypotheses(request)
        _check_search(hypotheses, expected(search), search)
        seen.update(seq.finish_reason for seq in hypotheses)
    run = engine.run()
    verify(parse_run(run.to_bytes()))
    seen.update(event["type"] for step in run.steps for event in step["events"])
    return seen


def _hypotheses(request: Request) -> list[Sequence]:
    assert request.beams is not None
    return request.beams.hypotheses


def _check_search(
    found: list[Sequence], expected: list[tuple[list[int], float]], search: Search
) -> None:
    """Scores rank by rank; tokens too, where the neighbours' scores are not as good as equal."""
    assert len(found) == len(expected) == search.width
    scores = [score for _, score in expected]
    for rank, (seq, (tokens, score)) in enumerate(zip(found, expected, strict=True)):
        # The score is the sum of log-probabilities over n^length_penalty: below 0 that multiplies.
        num = len(tokens)
        tolerance = TOLERANCE * max(num, num ** (1 - search.length_penalty))
        assert seq.beam_score == pytest.approx(score, abs=tolerance), (search, rank)
        near = [i for i, other in enumerate(scores) if abs(other - score) <= tolerance]
        if near == [rank]:
            assert seq.output_tokens == tokens, (search, rank)
        else:
            assert seq.output_tokens in [expected[i][0] for i in near], (search, rank)


# ---- random checkpoints --------------------------------------------------------------------------


@pytest.fixture(scope="module", params=TINY)
def tiny_pair(request, tmp_path_factory):
    """(runner, oracle, searches) of a checkpoint that ends its texts with what it often samples."""
    config = families.CONFIGS[request.param]
    directory = tmp_path_factory.mktemp("beams")
    families.write(config, directory / "endless")
    asked = searches(TINY_PROMPTS[:12] + TINY_PROMPTS[-9:-4])
    endless = Oracle(directory / "endless", (0,))
    sampled = Counter(
        token for search in asked[::3] for tokens, _ in endless(search) for token in tokens[1:5]
    )
    eos = [token for token, _ in sampled.most_common(3)]
    families.write({**config, "eos_token_id": eos}, directory / "ending")
    runner = ModelRunner(directory / "ending", "float32", "cpu", num_blocks=1, block_size=1)
    assert runner.eos_token_ids == set(eos)
    return runner, Oracle(directory / "ending", tuple(eos)), asked


@pytest.mark.parametrize("settings", ENGINES.values(), ids=ENGINES)
def test_random_checkpoints_agree(tiny_pair, settings):
    runner, expected, asked = tiny_pair
    assert len(asked) >= 10
    seen = check(run(runner, asked, settings), asked, expected)
    assert seen["stop_token"] > 10 and seen["max_tokens"] > 10
    assert seen["pruned"] and seen["forked"]
    assert ("num_blocks" in settings) == bool(seen["preempted"])
    assert seen["block_copied"] or settings.get("block_size") == 1


# ---- the real model ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real_oracle(model_dir, smollm):
    return Oracle(model_dir, tuple(smollm.eos_token_ids))


def real_searches(smollm, texts: list[str]) -> list[Search]:
    return searches([smollm.tokenize(text) for text in texts])


ENDING = "<|im_start|>user\nSay only the word yes.<|im_end|>\n<|im_start|>assistant\n"
"""A prompt after which the real model ends its text soon."""


@pytest.mark.model
def test_the_real_model_agrees(smollm, real_oracle):
    asked = real_searches(smollm, [ENDING, *TEXTS[:3]])
    settings = {"num_blocks": 0, "prefix_cache": "hash"}
    seen = check(run(smollm, asked, settings), asked, real_oracle)
    assert seen["preempted"] and seen["stop_token"]


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(0)
@pytest.mark.parametrize("settings", ENGINES.values(), ids=ENGINES)
def test_the_real_model_agrees_at_length(smollm, real_oracle, settings):
    texts = [ENDING, *(text for text in TEXTS if len(smollm.tokenize(text)) < 30)]
    asked = real_searches(smollm, texts)
    assert len(asked) >= 20
    seen = check(run(smollm, asked, settings), asked, real_oracle)
    assert seen["stop_token"]
    assert ("num_blocks" in settings) == bool(seen["preempted"])
