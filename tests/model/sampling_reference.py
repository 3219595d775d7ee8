"""What sampling should do, written again in plain Python, one token after another."""

from __future__ import annotations

import math


def naive_distribution(
    logits,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    min_p=0.0,
    repetition_penalty=1.0,
    tokens=(),
):
    """Probability of each token id, in the documented order of the settings."""
    x = list(logits)
    for token in set(tokens):
        x[token] = x[token] / repetition_penalty if x[token] > 0 else x[token] * repetition_penalty
    best = max(x)
    weights = [math.exp((value - best) / temperature) for value in x]
    weights = [w if w >= min_p else 0.0 for w in weights]
    if 0 < top_k < len(x):
        last = sorted(weights)[-top_k]
        weights = [w if w >= last else 0.0 for w in weights]
    total = math.fsum(weights)
    kept, mass = set(), []
    for token in sorted(range(len(x)), key=lambda t: (-weights[t], t)):
        if kept and (top_p < 1 and math.fsum(mass) / total >= top_p):
            break
        kept.add(token)
        mass.append(weights[token])
    total = math.fsum(mass)
    return [weights[t] / total if t in kept else 0.0 for t in range(len(x))]


def chi_square(counts, probabilities, draws):
    """(statistic, its 0.1 % point): tokens expected less than 5 times are put together.

    The point is Wilson and Hilferty's approximation, 2 % too large at most. Tokens that cannot
    come must not have come.
    """
    expected = [draws * p for p in probabilities]
    assert all(e > 0 for t, e in enumerate(expected) if counts.get(t, 0)), "an impossible token"
    cells = [(counts.get(t, 0), e) for t, e in enumerate(expected) if e > 5]
    rest = (draws - sum(c for c, _ in cells), draws - sum(e for _, e in cells))
    if rest[1] > 5:
        cells.append(rest)
    dof = len(cells) - 1
    point = dof * (1 - 2 / (9 * dof) + 3.0902 * math.sqrt(2 / (9 * dof))) ** 3
    return sum((c - e) ** 2 / e for c, e in cells), point
