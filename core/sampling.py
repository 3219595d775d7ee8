"""From logits to tokens: greedy, or drawn at a temperature.

A draw's random number depends on nothing but (seed, sequence index, position). Not on how often
the generator was used before: so it cannot matter in which batch a sequence runs, whether it was
preempted and computed again, or when it forked. That is why there is no generator with a state
here but a counter-based one: Philox (Salmon et al. 2011) turns a key and a counter into random
bits, any of them at once, in any order.

A draw goes in three moves: logits → `scaled_probabilities` (where filters such as top-k belong) →
one uniform number → the token, by inverting the cumulative distribution.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
import torch

from core.runner import Candidate

_MASK_64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """How one token is to be chosen.

    row: which row of the logits. temperature: 0 is greedy. key: 128 bits, the request's seed.
    index: the sequence within its request. position: of the new token in its sequence, from 0.
    """

    row: int
    temperature: float
    key: tuple[int, int]
    index: int
    position: int


def request_key(seed: int | None, scenario_seed: int, order: int) -> tuple[int, int]:
    """The Philox key of a request: its own seed, else one from the scenario's and its place.

    Two requests with the same seed of their own draw the same numbers; without one, no two requests
    of a scenario do, and neither does any share a key with a seeded one (second word 0).
    """
    if seed is not None:
        return (seed & _MASK_64, 0)
    return (scenario_seed & _MASK_64, order + 1)


def uniform(key: tuple[int, int], index: int, position: int) -> float:
    """A number in [0, 1), one of 2⁵³, that only these arguments decide."""
    generator = np.random.Philox(
        key=np.array(key, dtype=np.uint64),
        counter=np.array([0, position, index, 0], dtype=np.uint64),
    )
    # Raw bits, not Generator.random(): numpy promises that the former never change.
    return (int(generator.random_raw()) >> 11) * 2.0**-53


def sample(logits: torch.Tensor, specs: Seq[SampleSpec]) -> list[int]:
    """One token for each spec. logits: [rows, vocab_size], any float dtype and device.

    Greedy: the largest logit, the lowest id of equal ones. Raises FloatingPointError if a row holds
    NaN: a model that computes nonsense must not look like one that babbles.
    """
    if not specs:
        return []
    tokens = [0] * len(specs)
    greedy = [i for i, spec in enumerate(specs) if spec.temperature == 0.0]
    drawn = [i for i, spec in enumerate(specs) if spec.temperature != 0.0]
    if greedy:
        rows = _rows(logits, [specs[i].row for i in greedy])
        best, argbest = rows.max(dim=-1)
        _refuse_nan(best)
        for i, token in zip(greedy, argbest.tolist(), strict=True):
            tokens[i] = token
    if drawn:
        rows = _rows(logits, [specs[i].row for i in drawn])
        _refuse_nan(rows.amax(dim=-1))
        probabilities = scaled_probabilities(rows, [specs[i].temperature for i in drawn])
        numbers = [uniform(specs[i].key, specs[i].index, specs[i].position) for i in drawn]
        for i, token in zip(drawn, invert_cdf(probabilities, numbers), strict=True):
            tokens[i] = token
    return tokens


def top_candidates(logits: torch.Tensor, counts: Seq[int]) -> list[list[Candidate]]:
    """For each row its `counts` likeliest tokens with their log-probabilities, likeliest first.

    logits: [rows, vocab_size]. The log-probabilities are rounded to six decimals, so that a beam
    search chooses by exactly the numbers that its run records.
    """
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    values, tokens = logprobs.topk(max(counts), dim=-1)
    return [
        [(token, round(value, 6)) for token, value in zip(ids[:n], of_row[:n], strict=True)]
        for n, ids, of_row in zip(counts, tokens.tolist(), values.tolist(), strict=True)
    ]


def scaled_probabilities(logits: torch.Tensor, temperatures: Seq[float]) -> torch.Tensor:
    """softmax(logits / temperature), in float64. [n, vocab_size] → [n, vocab_size].

    float64, so that the sum of a large vocabulary's probabilities is right to far below one of the
    2⁵³ steps that decide a draw. The maximum is subtracted first: a tiny temperature then gives
    exp(−∞) = 0, not ∞/∞.
    """
    scale = torch.tensor(temperatures, dtype=torch.float64, device=logits.device)
    x = logits.double()
    x = (x - x.amax(dim=-1, keepdim=True)) / scale[:, None]
    return torch.softmax(x, dim=-1)


def invert_cdf(probabilities: torch.Tensor, numbers: Seq[float]) -> list[int]:
    """For each row the first token whose cumulative probability exceeds the row's number.

    probabilities: [n, vocab_size] float64, need not sum to 1. numbers: n in [0, 1).
    """
    cdf = probabilities.cumsum(dim=-1)
    target = torch.tensor(numbers, dtype=torch.float64, device=cdf.device)[:, None] * cdf[:, -1:]
    # right=True: a token of probability 0 occupies no interval and is never chosen.
    index = torch.searchsorted(cdf, target, right=True).squeeze(-1)
    tokens: list[int] = index.clamp_(max=cdf.shape[-1] - 1).tolist()
    return tokens


def _rows(logits: torch.Tensor, rows: list[int]) -> torch.Tensor:
    if rows == list(range(len(logits))):
        return logits
    return logits.index_select(0, torch.tensor(rows, device=logits.device))


def _refuse_nan(row_maxima: torch.Tensor) -> None:
    if not bool(torch.isfinite(row_maxima).all()):
        raise FloatingPointError("the model's logits are not finite numbers")
