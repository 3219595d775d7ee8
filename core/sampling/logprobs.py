"""How likely tokens were, under the model's own distribution.

Temperature, penalties and filters do not enter: log-probabilities are the logarithm of the softmax
of the untouched logits, as in vLLM (`raw_logprobs`) and OpenAI's interface.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch

from core.runner import Candidate, TokenLogprobs

FLOOR = -9999.0
"""Stands for −∞, which JSON cannot write: OpenAI's convention for "too unlikely to say"."""

MAX_ELEMENTS = 1 << 22
"""Logits looked at in one go: 16 MiB in float32 and twice that for their ranks."""


def rows_at_once(vocab_size: int) -> int:
    """Rows of logits that may be looked at in one go, at least 1."""
    return max(1, MAX_ELEMENTS // vocab_size)


def token_logprobs(
    logits: torch.Tensor, token_ids: Seq[int], num_tops: Seq[int]
) -> list[TokenLogprobs]:
    """For each row of logits its token's log-probability and rank, and the likeliest tokens.

    logits: [n, vocab_size], any float dtype and device; computed in float32. token_ids: n.
    num_tops: n, how many of the likeliest tokens to name. Equally likely tokens rank by id, the
    lower one first, so a token of rank r ≤ num_tops is `top[r − 1]`.

    Raises FloatingPointError if a row is not made of numbers.
    """
    step = rows_at_once(logits.shape[-1])
    out: list[TokenLogprobs] = []
    for i in range(0, len(token_ids), step):
        part = slice(i, i + step)
        out += _token_logprobs(logits[part], token_ids[part], num_tops[part])
    return out


def top_candidates(logits: torch.Tensor, counts: Seq[int]) -> list[list[Candidate]]:
    """For each row its `counts` likeliest tokens with their log-probabilities, likeliest first.

    logits: [rows, vocab_size]. The log-probabilities are rounded to six decimals, so that a beam
    search chooses by exactly the numbers that its run records. Raises FloatingPointError as
    `token_logprobs` does.
    """
    x = logits.float()
    total = _log_normaliser(x)
    # By value, then by id: `topk` alone orders equal values as it likes, and differently for
    # another count, so that one group's beams would depend on who else is in the batch.
    tokens = _order(x).topk(max(counts), dim=-1).indices
    values = (x.gather(1, tokens) - total).clamp_(min=FLOOR)
    return [
        [(token, round(value, 6)) for token, value in zip(ids[:n], of_row[:n], strict=True)]
        for n, ids, of_row in zip(counts, tokens.tolist(), values.tolist(), strict=True)
    ]


def _token_logprobs(
    logits: torch.Tensor, token_ids: Seq[int], num_tops: Seq[int]
) -> list[TokenLogprobs]:
    x = logits.float()
    total = _log_normaliser(x)
    ids = torch.tensor(list(token_ids), device=x.device)[:, None]
    order = _order(x)
    rank = (order > order.gather(1, ids)).sum(dim=-1) + 1
    top = order.topk(min(max(num_tops), x.shape[-1]), dim=-1).indices
    wanted = torch.cat([ids, top], dim=-1)
    values = (x.gather(1, wanted) - total).clamp_(min=FLOOR)
    rows = zip(wanted.tolist(), values.tolist(), rank.tolist(), num_tops, strict=True)
    return [
        TokenLogprobs(named[0], logprob[0], place, tuple(zip(named, logprob, strict=True))[1:][:k])
        for named, logprob, place, k in rows
    ]


def _log_normaliser(x: torch.Tensor) -> torch.Tensor:
    """log Σ exp of each row, [n, 1]. Raises FloatingPointError."""
    total = torch.logsumexp(x, dim=-1, keepdim=True)
    if not bool(torch.isfinite(total).all()):
        raise FloatingPointError("the model's logits are not finite numbers")
    return total


def _order(x: torch.Tensor) -> torch.Tensor:
    """An int64 for each float32 of a row, all different: larger value first, then lower id.

    The bits of a float, read as an integer, grow with it, once those of negative ones are flipped.
    """
    bits = (x + 0.0).view(torch.int32)  # + 0.0: −0 and 0 are equal, and so must be their bits
    ordered = bits ^ ((bits >> 31) & 0x7FFF_FFFF)
    return (ordered.long() << 32) - torch.arange(x.shape[-1], device=x.device)
