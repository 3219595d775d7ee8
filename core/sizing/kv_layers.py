"""What each layer of a model keeps, in bytes, on one GPU: the ground of all KV arithmetic.

A layer keeps some bytes per token (numbers, scales, indexer keys), up to its window if it has one;
some per sequence, whatever its length (fixed state); and some once (static scales). Layers that
keep the same are one `LayerBytes` with a count, so a model is a handful of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from core.sizing import checks, formats, layout, scales
from core.sizing.errors import SizingError
from core.sizing.formats import Format
from core.sizing.geometry import FixedState, KVHeads, Latent, Layer, ModelSpec
from core.sizing.kv_format import KVFormat
from core.sizing.layout import Layout


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """`count` layers that keep the same, on one GPU.

    heads: KV heads kept (1 for a latent). payload, scale, indexer: bytes per token of one layer.
    static: bytes of its fixed scales. state: bytes per sequence, whatever its length.
    window: at most so many tokens are kept; None if all are. top_k: as `Layer` has it.
    """

    count: int
    cache: KVHeads | Latent | None
    key: Format
    value: Format
    heads: int = 0
    payload: int = 0
    scale: int = 0
    indexer: int = 0
    static: int = 0
    state: int = 0
    window: int | None = None
    top_k: int | None = None

    @property
    def per_token(self) -> int:
        """Bytes of one token in one of these layers."""
        return self.payload + self.scale + self.indexer

    def tokens(self, length: int) -> int:
        """Tokens that are kept of a sequence of that length."""
        return length if self.window is None else min(length, self.window)

    def blocks(self, length: int, size: int) -> int:
        """Blocks of `size` tokens that are kept of such a sequence: of a window those that W tokens
        can touch, wherever they start."""
        total = -(-length // size)
        return total if self.window is None else min(total, -(-(self.window - 1) // size) + 1)

    def attended(self, length: int) -> int:
        """Tokens that the next one attends to: those kept, or the top k of them."""
        kept = self.tokens(length)
        return kept if self.top_k is None else min(kept, self.top_k)


def of_stages(
    model: ModelSpec,
    fmt: KVFormat,
    where: Layout = layout.ONE_GPU,
    window: int | None = None,
    n_local_layers: int | None = None,
) -> list[list[LayerBytes]]:
    """What one GPU of each pipeline stage keeps. Layers that keep nothing are left out. Not to be
    changed: what was computed once for a model is given again.

    window, n_local_layers: as `kv.kv_bytes_sequence` takes them.
    """
    for index, _, _ in fmt.layers:
        if index >= model.num_layers:
            raise SizingError(
                "dtype.layers", f"names layer {index}, but the last one is {model.num_layers - 1}"
            )
    if n_local_layers is None and window is not None:
        raise SizingError("n_local_layers", "is missing: how many layers the window applies to")
    known: dict[tuple[KVFormat, Layout], list[list[LayerBytes]]]
    known = model.__dict__.setdefault("_rows_of_stages", {})
    out = known.get((fmt, where))
    if out is None:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        out = known[fmt, where] = _stages(model, fmt, where)
    return out if n_local_layers is None else _with_windows(out, window, n_local_layers)


_MOST_KNOWN = 64
"""Formats and layouts of which a model's rows are remembered: a plan asks some twenty times."""


def _stages(model: ModelSpec, fmt: KVFormat, where: Layout) -> list[list[LayerBytes]]:
    out, start = [], 0
    for stage in layout.stage_layers(model, where):
        groups = _groups(model, stage, start, fmt)
        rows = [_layer_bytes(layer, n, key, value, fmt, where) for layer, n, key, value in groups]
        out.append([row for row in rows if row is not None])
        start += len(stage)
    return out


def of_model(model: ModelSpec, fmt: KVFormat) -> list[LayerBytes]:
    """What the whole model keeps, as if on one GPU."""
    return of_stages(model, fmt)[0]


def of_one(layer: Layer, fmt: KVFormat) -> LayerBytes | None:
    """What one layer keeps on one GPU; None if nothing."""
    return _layer_bytes(layer, 1, fmt.key, fmt.value, fmt, layout.ONE_GPU)


def per_token(rows: Iterable[LayerBytes]) -> int:
    """Bytes of one token in all layers, each counted as if the token lay in its window."""
    return sum(row.count * row.per_token for row in rows)


def per_sequence(rows: Iterable[LayerBytes], length: int) -> int:
    """Bytes of keys and values of one sequence, windows counted; without fixed state."""
    return sum(row.count * row.per_token * row.tokens(length) for row in rows)


def growth(rows: Iterable[LayerBytes], length: int) -> int:
    """Bytes that the next token adds to a sequence of that length."""
    return sum(
        row.count * row.per_token for row in rows if row.window is None or row.window > length
    )


def state(rows: Iterable[LayerBytes]) -> int:
    """Bytes of fixed state of one sequence."""
    return sum(row.count * row.state for row in rows)


def static(rows: Iterable[LayerBytes]) -> int:
    """Bytes of scales that are kept once."""
    return sum(row.count * row.static for row in rows)


def _groups(
    model: ModelSpec, stage: tuple[Layer, ...], start: int, fmt: KVFormat
) -> list[tuple[Layer, int, Format, Format]]:
    if not fmt.layers:
        whole = len(stage) == model.num_layers
        kinds = model.layer_groups if whole else tuple(Counter(stage).items())
        return [(layer, count, fmt.key, fmt.value) for layer, count in kinds]
    counted = Counter((layer, *fmt.of_layer(i)) for i, layer in enumerate(stage, start))
    return [(layer, count, key, value) for (layer, key, value), count in counted.items()]


def _layer_bytes(
    layer: Layer, count: int, key: Format, value: Format, fmt: KVFormat, where: Layout
) -> LayerBytes | None:
    split, cache, main = where.head_split, layer.cache, None
    state_bytes = heads = payload = growing = fixed = 0
    if isinstance(layer.state, FixedState):
        state_bytes += _state_bytes(layer.state, fmt, split)
    if isinstance(cache, FixedState):
        state_bytes += _state_bytes(cache, fmt, split)
    elif isinstance(cache, KVHeads | Latent):
        main, heads = cache, layout.kept_heads(cache, split)
        if isinstance(cache, Latent):
            rope = fmt.rope or key
            if rope is key:
                payload = _vector(cache.latent_dim + cache.rope_dim, key)
            else:
                payload = _vector(cache.latent_dim, key) + _vector(cache.rope_dim, rope)
        else:
            payload = heads * (_vector(cache.key_dim, key) + _vector(cache.value_dim, value))
        growing, fixed = _scale_bytes(cache, heads, key, value, fmt)
    indexer = _vector(layer.indexer_dim, fmt.indexer or key) if layer.indexer_dim else 0
    if main is None and not state_bytes and not indexer:
        return None
    return LayerBytes(
        count,
        main,
        key,
        value,
        heads,
        payload,
        growing,
        indexer,
        fixed,
        state_bytes,
        None if main is None else main.window,
        layer.top_k,
    )


def _vector(dim: int, fmt: Format) -> int:
    """Bytes of one head's vector. Its last byte may be half empty; a block may not."""
    if fmt.own_scales and dim % fmt.block_elements:
        raise SizingError(
            "dtype",
            f"{fmt.name} packs {fmt.block_elements} numbers to a block, and a vector of {dim} "
            "does not divide into blocks",
        )
    return formats.bytes_of(dim, fmt)


def _scale_bytes(
    cache: KVHeads | Latent, heads: int, key: Format, value: Format, fmt: KVFormat
) -> tuple[int, int]:
    """(bytes per token, bytes once) of a layer's scales. A side that has no use for scales, being
    16 bits wide or packed with its own, is left out."""
    what = fmt.scales
    if what is scales.NO_SCALES:
        return 0, 0
    if isinstance(cache, Latent):
        total = what.count(cache, heads, rope_apart=fmt.rope is not None) if _needs(key) else 0
    elif _needs(key) and _needs(value):
        total = what.count(cache, heads)
    else:
        total = 0
        for side, dim in ((key, cache.key_dim), (value, cache.value_dim)):
            if _needs(side):
                total += what.count(KVHeads(cache.num_kv_heads, dim, 0), heads)
    size = total * what.each
    return (0, size) if what.kind in scales.STATIC else (size, 0)


def _needs(fmt: Format) -> bool:
    return fmt.quantised and not fmt.own_scales


def _state_bytes(fixed: FixedState, fmt: KVFormat, split: int) -> int:
    total = 0
    for name, elements, width in fixed.parts:
        if elements % split:
            raise SizingError(
                "tp",
                f"{elements:,} numbers of {fixed.kind} state ({name}) do not divide over "
                f"{split} GPUs",
            )
        share = elements // split
        total += share * width if width else formats.bytes_of(share, fmt.state_format)
    return total


def _with_windows(
    stages: list[list[LayerBytes]], window: int | None, n_local_layers: int
) -> list[list[LayerBytes]]:
    """The same layers with `n_local_layers` of them under one window and the rest under none."""
    n_local = checks.whole(n_local_layers, "n_local_layers", 0, 1 << 20)
    if n_local and window is None:
        raise SizingError("window", f"is missing: that of the {n_local} local layers")
    if window is not None:
        window = checks.whole(window, "window", 1)
    caching = [row for rows in stages for row in rows if row.cache is not None]
    total = sum(row.count for row in caching)
    if n_local > total:
        raise SizingError("n_local_layers", f"{n_local} of {total} layers that keep a cache")
    own = sum(row.count for row in caching if row.window is not None)
    if n_local in (0, own, total):  # no layer, the model's own, or every one: no doubt which
        return [
            [
                replace(row, window=window if _is_local(row, n_local, total) else None)
                for row in rows
            ]
            for rows in stages
        ]
    if len(stages) > 1 or len({(row.per_token, row.state) for row in caching}) > 1:
        raise SizingError(
            "n_local_layers",
            "is ambiguous: the layers differ, and the config says which of them are local",
        )
    out = [row for row in stages[0] if row.cache is None]
    if caching:
        one = caching[0]
        out += [
            replace(one, count=count, window=w)
            for count, w in ((total - n_local, None), (n_local, window))
            if count
        ]
    return [out]


def _is_local(row: LayerBytes, n_local: int, total: int) -> bool:
    if row.cache is None or n_local == 0:
        return False
    return n_local == total or row.window is not None
