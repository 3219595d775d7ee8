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
from core.sampling.staging import Download, to_device


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


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens that are being chosen, on the device of the logits: nothing has waited for it yet.

    ids: [n] int64, one for each spec; what comes next on the device may read it. `read` waits.
    """

    ids: torch.Tensor
    _download: Download

    def read(self) -> list[int]:
        """The tokens. Raises FloatingPointError if a row held NaN: a model that computes nonsense
        must not look like one that babbles."""
        *tokens, finite = self._download.read().tolist()
        if not finite:
            raise FloatingPointError("the model's logits are not finite numbers")
        return tokens


def sample(logits: torch.Tensor, specs: Seq[SampleSpec]) -> list[int]:
    """One token for each spec. logits: [rows, vocab_size], any float dtype and device.

    Greedy: the largest logit, the lowest id of equal ones. Raises FloatingPointError as `Draft`.
    """
    return draft(logits, specs).read()


def draft(logits: torch.Tensor, specs: Seq[SampleSpec]) -> Draft:
    """The same, queued: on a GPU only what comes back to main memory at the end is waited for."""
    plain: list[int] = []
    penalised: list[int] = []
    drawn: list[int] = []
    for i, spec in enumerate(specs):
        if spec.temperature != 0.0:
            drawn.append(i)
        else:
            (plain if spec.repetition_penalty == 1.0 else penalised).append(i)
    # One more than there are tokens: 1 if all rows are finite, so that one copy brings both.
    out = torch.ones(len(specs) + 1, dtype=torch.int64, device=logits.device)
    if plain:
        best, chosen = _rows(logits, [specs[i].row for i in plain]).max(dim=-1)
        _put(out, plain, chosen, best)
    if penalised:
        best, rows = _penalised_logits(logits, [specs[i] for i in penalised])
        _put(out, penalised, rows.argmax(dim=-1), best)
    if drawn:
        some = [specs[i] for i in drawn]
        numbers = [uniform(spec.key, spec.index, spec.position) for spec in some]
        best, weights = _probabilities(logits, some)
        _put(out, drawn, invert_cdf(weights, numbers), best)
    return Draft(out[:-1], Download(out))


def probabilities(logits: torch.Tensor, specs: Seq[SampleSpec]) -> torch.Tensor:
    """The distribution that each spec draws from, up to a factor. Temperatures are above 0.

    [rows, vocab_size] → [len(specs), vocab_size] float64, so that the sum over a large vocabulary
    is right to far below one of the 2⁵³ steps that decide a draw.
    """
    return _probabilities(logits, specs)[1]


def _probabilities(
    logits: torch.Tensor, specs: Seq[SampleSpec]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows' largest logits, [n], and the distributions."""
    best, x = _penalised_logits(logits, specs)
    temperature = to_device([s.temperature for s in specs], x.dtype, x.device)
    # The maximum goes first: a tiny temperature then gives exp(−∞) = 0, not ∞/∞.
    x = x.sub_(x.amax(dim=-1, keepdim=True)).div_(temperature[:, None])
    x = drop_below_min_p(x, [s.min_p for s in specs])
    x = keep_top_k(x, [s.top_k for s in specs])
    return best, keep_top_p(torch.softmax(x, dim=-1), [s.top_p for s in specs])


def invert_cdf(probabilities: torch.Tensor, numbers: Seq[float]) -> torch.Tensor:
    """For each row the first token whose cumulative probability exceeds the row's number: [n].

    probabilities: [n, vocab_size] float64, need not sum to 1. numbers: n in [0, 1).
    """
    cdf = probabilities.cumsum(dim=-1)
    target = to_device(numbers, torch.float64, cdf.device)[:, None] * cdf[:, -1:]
    # right=True: a token of probability 0 occupies no interval and is never chosen.
    index = torch.searchsorted(cdf, target, right=True).squeeze(-1)
    return index.clamp_(max=cdf.shape[-1] - 1)


def _penalised_logits(
    logits: torch.Tensor, specs: Seq[SampleSpec]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each spec's row in float64, its penalty applied; before them their largest logits, [n]."""
    rows = _rows(logits, [s.row for s in specs])
    penalties = [s.repetition_penalty for s in specs]
    numbers = rows.to(torch.float64, copy=True)
    return rows.amax(dim=-1), penalise_repetition(numbers, penalties, [s.tokens for s in specs])


def _put(out: torch.Tensor, places: list[int], tokens: torch.Tensor, best: torch.Tensor) -> None:
    """Tokens to their places in out; its last number becomes 0 if one of best is not finite."""
    if len(places) == len(out) - 1:
        out[:-1] = tokens
    else:
        out.index_copy_(0, to_device(places, torch.int64, out.device), tokens)
    out[-1] *= torch.isfinite(best).all()


def _rows(logits: torch.Tensor, rows: list[int]) -> torch.Tensor:
    if rows == list(range(len(logits))):
        return logits
    return logits.index_select(0, to_device(rows, torch.int64, logits.device))
