"""Where two costs meet that grow with the length, when layers with windows stop growing.

A layer with window W adds to a cost up to W tokens and then no more (bytes kept), or ever more
slowly (pairs of tokens). Between the windows each cost is a polynomial of degree two, so the point
where they meet has a closed form in each piece, and nothing needs to be searched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

Terms = Mapping[int | None, float]
"""Coefficient of each window; None: no window."""


def crossing(pairs: Terms, kept: Terms, slope: float = 0.0, constant: float = 0.0) -> float | None:
    """The positive t at which g turns from below 0 to above it, or None.

    g(t) = Σ pairs_w · p_w(t) + Σ kept_w · min(t, w) + slope · t + constant, where p_w(t) is t² / 2
    up to w and w · t − w² / 2 beyond: the pairs of a causal mask with a window.

    There is at most one: callers give pairs ≥ 0 and kept ≤ 0 (or the other one empty and g rising),
    so that g is convex with g(0) ≤ 0, or rises throughout.
    """
    ends = sorted({w for w in (*pairs, *kept) if w is not None})
    for start, end in zip((0, *ends), (*ends, math.inf), strict=True):
        a, b, c = _piece(start, pairs, kept, slope, constant)
        if end != math.inf and (a * end + b) * end + c < 0:
            continue
        root = _rising_root(a, b, c)
        return root if root is not None and root > 0 else None
    return None


def _piece(
    start: float, pairs: Terms, kept: Terms, slope: float, constant: float
) -> tuple[float, float, float]:
    """a, b, c of a · t² + b · t + c on the piece that begins at start."""
    a, b, c = 0.0, slope, constant
    for w, k in pairs.items():
        if w is None or w > start:
            a += k / 2
        else:
            b += k * w
            c -= k * w * w / 2
    for w, k in kept.items():
        if w is None or w > start:
            b += k
        else:
            c += k * w
    return a, b, c


def _rising_root(a: float, b: float, c: float) -> float | None:
    """The root at which a · t² + b · t + c rises through 0, for a ≥ 0."""
    if a == 0:
        return -c / b if b > 0 else None
    if c == 0:
        return max(-b / a, 0.0)
    under = b * b - 4 * a * c
    if under < 0:
        return None
    root = math.sqrt(under)
    # The larger root; written so that b and the square root never cancel.
    return (root - b) / (2 * a) if b <= 0 else -2 * c / (b + root)
