"""Weights that a GPU of a tensor-parallel group holds, and reads, beyond its even share.

Projections to KV heads are copied with the heads past their number, and under data-parallel
attention every group holds the whole of what mixes tokens: attention, or what stands for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from core.sizing.geometry import KVHeads, Latent, ModelSpec
from core.sizing.layout import Layout

MIXING = ("attention", "linear attention", "state space", "convolution")
"""Names of the parts that mix tokens: what an attention group has to itself."""


def beyond_share(
    model: ModelSpec, where: Layout, mixing: Iterable[tuple[str, int]], start: int, stop: int
) -> list[tuple[str, int]]:
    """(part, parameters) that one GPU has beyond its even share of the layers from start to stop.

    mixing: parameters of each of `MIXING` in those layers, as far as they are known.
    """
    out = [("attention", -int(-_projections(model, where, start, stop) // 1))]
    if where.attention_dp > 1:
        more = Fraction(1, where.head_split) - Fraction(1, where.tp)
        out += [(name, -int(-number * more // 1)) for name, number in mixing]
    return [(name, number) for name, number in out if number]


def _projections(model: ModelSpec, where: Layout, start: int, stop: int) -> Fraction:
    """Parameters of K and V projections that one GPU holds beyond its part of the heads."""
    split, extra = where.head_split, Fraction(0)
    if split == 1:
        return extra
    whole = stop - start == model.num_layers
    kinds = model.layer_groups if whole else tuple(Counter(model.layers[start:stop]).items())
    for layer, count in kinds:
        cache = layer.cache
        if isinstance(cache, KVHeads) and split > cache.num_kv_heads:
            beyond = 1 - Fraction(cache.num_kv_heads, split)
            extra += count * beyond * model.hidden_size * (cache.key_dim + cache.value_dim)
    return extra


def notes(model: ModelSpec, where: Layout) -> tuple[str, ...]:
    """What is to be said of weights that are copied, and of some that are taken as divided."""
    out: tuple[str, ...] = ()
    if where.attention_dp > 1 and not any(part.name in MIXING for part in model.parts):
        out += ("each attention group holds the attention's weights again: they are not counted",)
    if where.head_split > 1 and any(isinstance(x.cache, Latent) for x, _ in model.layer_groups):
        out += ("MLA's down-projections are on every GPU; they are taken as divided here",)
    if where.head_split > 1 and any(x.indexer_dim for x, _ in model.layer_groups):
        out += ("an indexer's matrices are on every GPU; they are taken as divided here",)
    return out
