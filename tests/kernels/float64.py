"""Attention in float64, and how far from it a kernel may be: shares no code with the kernels.

`kernels/README.md` states the tolerances and where they come from; the functions here are those
formulas. Everything is numpy, row by row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

UNIT = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
"""Unit roundoff: the largest relative error of one rounding to nearest."""

LARGEST = {"int8": 127, "int4": 7, "fp8_e4m3": 448}


@dataclass(frozen=True, slots=True)
class Exact:
    """One query token's attention. out [n_q, d]. magnitude [n_q, d]: Σ p |v|, what relative errors
    of the weights p act on. sharpness [n_q]: the largest scale · Σ |q| |k| of a key, what relative
    errors of the products act on. peak [n_q, d]: largest |v|. num_keys: in view."""

    out: np.ndarray
    magnitude: np.ndarray
    sharpness: np.ndarray
    peak: np.ndarray
    num_keys: int


def numbers(stored: torch.Tensor, scale: torch.Tensor | None) -> np.ndarray:
    """Codes [num_blocks, n_kv, block_size, d] (int4: d / 2 bytes), scales [num_blocks, n_kv,
    block_size] or None → float64 numbers [num_blocks, n_kv, block_size, d]."""
    stored = stored.cpu()
    if stored.dtype == torch.float8_e4m3fn:
        codes = e4m3(stored.view(torch.uint8).numpy())
    elif stored.dtype == torch.uint8:
        pairs = stored.numpy()
        codes = np.empty((*pairs.shape[:-1], 2 * pairs.shape[-1]))
        codes[..., 0::2] = pairs % 16 - 8.0
        codes[..., 1::2] = pairs // 16 - 8.0
    else:
        codes = stored.double().numpy()
    return codes if scale is None else codes * scale.cpu().double().numpy()[..., None]


def e4m3(byte: np.ndarray) -> np.ndarray:
    """(−1)^s · 2^(e − 7) · (1 + m / 8); e = 0: (−1)^s · 2^−6 · m / 8 (OCP 8-bit FP, 2023)."""
    byte = byte.astype(np.int64)
    sign, exponent, mantissa = byte >> 7, byte >> 3 & 15, byte & 7
    size = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    size = np.where(byte & 127 == 127, np.nan, size)
    return np.where(sign == 1, -size, size)


def in_order(pool: np.ndarray, table: np.ndarray, first: int, last: int) -> np.ndarray:
    """Positions first … last − 1 of a sequence whose blocks table names: [L, n_kv, …]."""
    size = pool.shape[2]
    return np.stack([pool[table[p // size], :, p % size] for p in range(first, last)])


def attention(query: np.ndarray, key: np.ndarray, value: np.ndarray, scale: float) -> Exact:
    """query [n_q, d], key and value [L, n_kv, d], L ≥ 1."""
    group = query.shape[0] // key.shape[1]
    rows = [[] for _ in range(4)]
    for head, q in enumerate(query):
        k, v = key[:, head // group], value[:, head // group]
        scores = k @ q * scale
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        rows[0].append(weights @ v)
        rows[1].append(weights @ np.abs(v))
        rows[2].append((np.abs(k) @ np.abs(q)).max() * scale)
        rows[3].append(np.abs(v).max(0))
    return Exact(*(np.array(row) for row in rows), len(key))


def arithmetic(
    exact: Exact, dtype: torch.dtype, weights: torch.dtype, truncates: bool = False
) -> np.ndarray:
    """How far float32 sums may be from exact.out, [n_q, d].

    dtype: of queries and result. weights: to which they are rounded before they meet the values.
    truncates: whether float32 is cut to bfloat16, as Triton's interpreter does it (a GPU rounds).
    """
    d = exact.out.shape[1]
    unit = UNIT | ({torch.bfloat16: 2.0**-7} if truncates else {})
    u = UNIT[torch.float32]
    score = 2 * d**0.5 * u * exact.sharpness[:, None]
    relative = 2 * score + unit[weights] + (2 * exact.num_keys**0.5 + 16) * u
    tolerance = relative * exact.magnitude + unit[dtype] * np.abs(exact.out)
    if torch.float16 in (dtype, weights):  # what is below 2⁻¹⁴ keeps no relative precision there
        tolerance += 2.0**-25 * (1 + exact.num_keys * exact.peak.max(1, keepdims=True))
    return tolerance


def rounding(x: np.ndarray, form: str, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers [..., d] stored with scale [...] → the most that each may change, and the standard
    deviation of its change were it even over its step. float64, [..., d] both."""
    if form == "native":
        return np.zeros_like(x), np.zeros_like(x)
    scale = np.broadcast_to(scale[..., None], x.shape)
    top = LARGEST[form] * scale
    if form == "fp8_e4m3":
        # Eight steps to a power of two, from 2⁻⁶ on; even steps of 2⁻⁹ below.
        binade = np.floor(np.log2(np.maximum(np.abs(x) / scale, 2.0**-6)))
        step = 2.0 ** (np.minimum(binade, 8) - 3) * scale
    else:
        step = scale
    clamped = np.maximum(np.abs(x) - top, 0)
    # The quotient of x and scale is rounded to float32 before it is rounded to a code.
    return np.maximum(0.5 * step, clamped) * (1 + 2.0**-12), step / 12**0.5


def quantisation(
    exact: Exact,
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    scale: float,
    most: tuple[np.ndarray, np.ndarray],
    deviation: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """How far rounded keys and values move exact.out: at most, and in standard deviations.

    most, deviation: `rounding` of K and of V, [L, n_kv, d] each. Both results [n_q, d]. With the
    scores moved by at most D, a weight becomes between e^(−2D) and e^(2D) times itself. The
    deviation is that of a first-order expansion with independent errors.
    """
    group = query.shape[0] // key.shape[1]
    bound, spread = [], []
    for head, q in enumerate(query):
        one = head // group
        v = value[:, one]
        scores = key[:, one] @ q * scale
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        growth = np.exp(2 * scale * (most[0][:, one] @ np.abs(q)).max())
        bound.append(growth * (weights @ most[1][:, one]) + (growth - 1) * exact.magnitude[head])
        of_scores = scale**2 * (deviation[0][:, one] ** 2 @ q**2)
        variance = weights**2 @ deviation[1][:, one] ** 2
        variance += (weights**2 * of_scores) @ (v - exact.out[head]) ** 2
        spread.append(np.sqrt(variance))
    return np.array(bound), np.array(spread)
