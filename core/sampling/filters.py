"""What changes a distribution before a token is drawn from it.

Each function works on a batch of rows and changes only those that ask for it. All judge a row by
itself, so that its tokens do not depend on its neighbours'.

Which equal tokens stay is a rule, not chance: `min_p` and `top_k` keep or drop equal values
together (with ties at the k-th place more than k stay); `top_p` takes the lower token id first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq

import numpy as np
import torch

from core.sampling.staging import to_device, upload


def penalise_repetition(
    logits: torch.Tensor, penalties: Seq[float], seen: Seq[Seq[int]]
) -> torch.Tensor:
    """Make tokens that a sequence holds already less likely (CTRL, Keskar et al. 2019), in place.

    logits: [n, vocab_size] float64. seen: for each row the ids of its prompt and outputs; those of
    a row whose penalty is 1 are not read. A positive logit is divided by the penalty, a negative
    one multiplied, once however often the token occurs: `transformers`' and vLLM's rule.
    """
    rows = [i for i, penalty in enumerate(penalties) if penalty != 1.0]
    if not rows:
        return logits
    ids = [np.unique(np.asarray(seen[i], dtype=np.int64)) for i in rows]
    lengths = [len(one) for one in ids]
    device = logits.device
    row = upload(torch.from_numpy(np.repeat(np.array(rows), lengths)), device)
    column = upload(torch.from_numpy(np.concatenate(ids)), device)
    of_rows = np.repeat([penalties[i] for i in rows], lengths)
    penalty = upload(torch.from_numpy(of_rows), device)
    before = logits[row, column]
    after = torch.where(before > 0, before / penalty, before * penalty)
    # A penalty close to 0 may overflow; ∞ − ∞ would then be no number.
    logits[row, column] = after.clamp_(max=torch.finfo(torch.float64).max)
    return logits


def drop_below_min_p(logits: torch.Tensor, min_ps: Seq[float]) -> torch.Tensor:
    """Drop tokens less than min_p times as likely as the likeliest (Nguyen et al. 2024), in place.

    logits: [n, vocab_size], each row's maximum 0: a logit is the logarithm of that ratio.
    """
    if not any(min_ps):
        return logits
    least = [math.log(p) if p > 0.0 else -math.inf for p in min_ps]
    return logits.masked_fill_(logits < _column(least, logits), -math.inf)


def keep_top_k(logits: torch.Tensor, top_ks: Seq[int]) -> torch.Tensor:
    """Keep the k largest logits of each row (Fan et al. 2018), in place; 0 keeps all.

    Those equal to the k-th largest stay, all of them.
    """
    vocab_size = logits.shape[-1]
    rows = [i for i, k in enumerate(top_ks) if 0 < k < vocab_size]
    if not rows:
        return logits
    index = to_device(rows, torch.int64, logits.device)
    part = logits.index_select(0, index)
    last = to_device([top_ks[i] - 1 for i in rows], torch.int64, logits.device)[:, None]
    largest = part.topk(max(top_ks[i] for i in rows), dim=-1).values
    part.masked_fill_(part < largest.gather(1, last), -math.inf)
    return logits.index_copy_(0, index, part)


def keep_top_p(probabilities: torch.Tensor, top_ps: Seq[float]) -> torch.Tensor:
    """Keep the nucleus (Holtzman et al. 2020), in place: the others' probabilities become 0.

    probabilities: [n, vocab_size] float64, rows of sum 1. The nucleus is the smallest set of the
    likeliest tokens that weighs at least top_p; never empty. What stays is not scaled up.
    """
    rows = [i for i, p in enumerate(top_ps) if p < 1.0]
    if not rows:
        return probabilities
    index = to_device(rows, torch.int64, probabilities.device)
    part = probabilities.index_select(0, index)
    top_p = _column([top_ps[i] for i in rows], part)
    kept = _nucleus(part, top_p) if part.device.type == "cpu" else _sorted_nucleus(part, top_p)
    return probabilities.index_copy_(0, index, kept)


def _sorted_nucleus(probabilities: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """The nuclei, the rest 0, from whole rows in order: on a GPU sorting is cheaper than to ask,
    as `_nucleus` does, how much there is to sort."""
    values, ids = probabilities.sort(dim=-1, descending=True, stable=True)
    stays = _weight_before(values) < top_p
    return torch.zeros_like(probabilities).scatter_(1, ids, values * stays)


def _nucleus(probabilities: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """The same, from as few tokens in order as may be."""
    floor = _nucleus_floor(probabilities, top_p)
    count = max(1, int((probabilities >= floor).sum(dim=-1).max()))
    values, ids = _likeliest(probabilities, count)
    # The floor is a row's own, while `count` is the batch's: no row may see more for its company.
    stays = (_weight_before(values) < top_p) & (values >= floor)
    return torch.zeros_like(probabilities).scatter_(1, ids, values * stays)


def _weight_before(values: torch.Tensor) -> torch.Tensor:
    """[n, k] → [n, k]: the sum of what stands before each in its row."""
    before = torch.zeros_like(values)
    before[:, 1:] = values.cumsum(dim=-1)[:, :-1]
    return before


def _nucleus_floor(probabilities: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """For each row a probability that no token of the nucleus is below: [n, 1].

    Found by going down until what is above weighs enough: few tokens of a vocabulary are left to
    sort then. No further than where all that is below weighs less than 1 − top_p (half of that, so
    that no rounding can drop the likeliest).
    """
    lowest = (1.0 - top_p) / probabilities.shape[-1] / 2
    floor = probabilities.amax(dim=-1, keepdim=True)
    while True:
        weight = probabilities.where(probabilities >= floor, 0.0).sum(dim=-1, keepdim=True)
        too_light = (weight < top_p) & (floor > lowest)
        if not bool(too_light.any()):
            return floor
        floor = torch.where(too_light, torch.maximum(floor / 8, lowest), floor)


def _likeliest(probabilities: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` or more likeliest of each row and their ids; of equals the lower id first."""
    if 4 * count > probabilities.shape[-1]:  # nothing to be gained by choosing first
        values, ids = probabilities.sort(dim=-1, descending=True, stable=True)
        return values, ids
    # `topk` promises no order of equal values: so by id first, then by value, keeping that order.
    ids = probabilities.topk(count, dim=-1).indices.sort(dim=-1).values
    values, order = probabilities.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    return values, ids.gather(1, order)


def _column(values: list[float], like: torch.Tensor) -> torch.Tensor:
    return to_device(values, torch.float64, like.device)[:, None]
