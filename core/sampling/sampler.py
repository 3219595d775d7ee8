"""One token from each row of logits: greedy, or drawn.

The steps and their order are vLLM's (`vllm.v1.sample.sampler`), so that settings mean the same:

    logits ─▶ repetition penalty ─▶ largest one                                            greedy
                                 └▶ ÷ temperature ─▶ min-p ─▶ top-k ─▶ softmax ─▶ top-p ─▶ draw

Each filter sees what the one before it left: top-p weighs what min-p and top-k keep. (The order is
no law: `transformers` applies top-k, top-p, min-p.) The filters never drop the likeliest token, so
they change nothing at temperature 0.

A draw is one uniform number (see `random`) and the token whose interval of the cumulative
distribution it falls into.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import torch

from core.sampling.filters import (
    drop_below_min_p,
    keep_top_k,
    keep_top_p,
    penalise_repetition,
)
from core.sampling.random import uniform


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """How one token is to be chosen.

    row: which row of the logits. temperature: 0 is greedy. key: 128 bits, the request's seed.
    index: the sequence within its request. position: of the new token in its sequence, from 0.
    top_k 0, top_p 1, min_p 0, repetition_penalty 1: off. tokens: ids that the penalty applies to,
    prompt and outputs; not read without one.
    """

    row: int
    temperature: float
    key: tuple[int, int]
    index: int
    position: int
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    tokens: Seq[int] = ()


def sample(logits: torch.Tensor, specs: Seq[SampleSpec]) -> list[int]:
    """One token for each spec. logits: [rows, vocab_size], any float dtype and device.

    Greedy: the largest logit, the lowest id of equal ones. Raises FloatingPointError if a row holds
    NaN: a model that computes nonsense must not look like one that babbles.
    """
    plain: list[int] = []
    penalised: list[int] = []
    drawn: list[int] = []
    for i, spec in enumerate(specs):
        if spec.temperature != 0.0:
            drawn.append(i)
        else:
            (plain if spec.repetition_penalty == 1.0 else penalised).append(i)
    tokens = [0] * len(specs)
    if plain:
        best, chosen = _rows(logits, [specs[i].row for i in plain]).max(dim=-1)
        _refuse_nan(best)
        _put(tokens, plain, chosen.tolist())
    if penalised:
        rows = _penalised_logits(logits, [specs[i] for i in penalised])
        _put(tokens, penalised, rows.argmax(dim=-1).tolist())
    if drawn:
        some = [specs[i] for i in drawn]
        numbers = [uniform(spec.key, spec.index, spec.position) for spec in some]
        _put(tokens, drawn, invert_cdf(probabilities(logits, some), numbers))
    return tokens


def probabilities(logits: torch.Tensor, specs: Seq[SampleSpec]) -> torch.Tensor:
    """The distribution that each spec draws from, up to a factor. Temperatures are above 0.

    [rows, vocab_size] → [len(specs), vocab_size] float64, so that the sum over a large vocabulary
    is right to far below one of the 2⁵³ steps that decide a draw. Raises FloatingPointError.
    """
    x = _penalised_logits(logits, specs)
    temperature = torch.tensor([s.temperature for s in specs], dtype=x.dtype, device=x.device)
    # The maximum goes first: a tiny temperature then gives exp(−∞) = 0, not ∞/∞.
    x = x.sub_(x.amax(dim=-1, keepdim=True)).div_(temperature[:, None])
    x = drop_below_min_p(x, [s.min_p for s in specs])
    x = keep_top_k(x, [s.top_k for s in specs])
    return keep_top_p(torch.softmax(x, dim=-1), [s.top_p for s in specs])


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


def _penalised_logits(logits: torch.Tensor, specs: Seq[SampleSpec]) -> torch.Tensor:
    """Each spec's row in float64, its penalty applied. Raises FloatingPointError."""
    rows = logits.index_select(0, torch.tensor([s.row for s in specs], device=logits.device))
    _refuse_nan(rows.amax(dim=-1))
    penalties = [s.repetition_penalty for s in specs]
    return penalise_repetition(rows.double(), penalties, [s.tokens for s in specs])


def _put(tokens: list[int], places: list[int], chosen: list[int]) -> None:
    for place, token in zip(places, chosen, strict=True):
        tokens[place] = token


def _rows(logits: torch.Tensor, rows: list[int]) -> torch.Tensor:
    if rows == list(range(len(logits))):
        return logits
    return logits.index_select(0, torch.tensor(rows, device=logits.device))


def _refuse_nan(row_maxima: torch.Tensor) -> None:
    if not bool(torch.isfinite(row_maxima).all()):
        raise FloatingPointError("the model's logits are not finite numbers")
