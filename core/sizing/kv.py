"""Bytes of the KV cache: per token, per sequence, per GPU.

    M_tok = 2 · L · n_kv · d_head · b          K and V of every layer (MHA, GQA, MQA)
    M_tok = L · (d_latent + d_rope) · b        one latent and one rotary key (MLA)
    M_seq = Σ over layers of M_layer · S, or · min(S, W) under a window of W tokens

Layers without a cache of their own (cross-layer sharing) add nothing. What linear attention, state
spaces and convolutions keep does not grow with the sequence: it is `fixed_state_bytes`, apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.sizing import checks, kv_format, kv_layers, kv_text, layout, scales
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec, SharedKV
from core.sizing.kv_format import KVDtype, KVFormat
from core.sizing.kv_layers import LayerBytes
from core.sizing.layout import Layout
from core.sizing.result import Result
from core.sizing.units import both

SCOPES = ("layer", "gpu", "model")


def kv_bytes_per_token(
    model: ModelSpec,
    dtype: KVDtype = "bf16",
    scope: str = "model",
    layer: int | None = None,
    tp: int = 1,
    pp: int = 1,
    attention_dp: int = 1,
    stages: Sequence[int] | None = None,
    stage: int | None = None,
) -> Result:
    """Bytes that one token keeps, every layer counted: what a sequence within its windows grows by.

    dtype: a format's name, or an object with scales and exceptions (`kv_format`). scope: "model",
    "layer" (`layer`: which one, if they differ) or "gpu" (one GPU of a tp × pp replica, of the
    `stage` with that index, or of the one that keeps most).
    """
    fmt = kv_format.of(dtype)
    checks.choice(scope, "scope", SCOPES)
    if scope != "layer" and layer is not None:
        raise SizingError("layer", 'goes with scope "layer" alone')
    if scope != "gpu" and stage is not None:
        raise SizingError("stage", 'goes with scope "gpu" alone')
    where = layout.of(tp, pp, 1, attention_dp, stages)
    if scope == "layer":
        return _one_layer(model, fmt, layer)
    if scope == "gpu":
        return _per_gpu(model, fmt, where, stage)
    if where is not layout.ONE_GPU:
        raise SizingError("tp", 'the whole model has no tp: ask for scope "gpu"')
    rows = kv_layers.of_model(model, fmt)
    return _token_result(model, rows, fmt, "model")


def kv_bytes_per_token_quantized(
    model: ModelSpec,
    dtype: KVDtype,
    scale: str = "per_token_head",
    scale_bytes: int = 2,
    zero_bytes: int = 0,
    group_size: int | None = None,
    scope: str = "model",
) -> Result:
    """`kv_bytes_per_token` with scales beside the numbers.

    scale: per_tensor and per_head_static add nothing per token (`kv_static_scale_bytes`);
    per_token, per_token_head and per_group (of group_size numbers) do. zero_bytes: of a zero point
    beside each scale, if the format is not symmetric.
    """
    what = scales.of(scale, scale_bytes, zero_bytes, group_size)
    return kv_bytes_per_token(model, kv_format.with_scales(kv_format.of(dtype), what), scope)


def kv_static_scale_bytes(
    model: ModelSpec, scale: str = "per_tensor", scale_bytes: int = 2, zero_bytes: int = 0
) -> Result:
    """Bytes of scales that are fixed when the model is loaded, whatever is cached.

    scale: per_tensor (K and V of each layer) or per_head_static (and of each KV head).
    """
    what = scales.of(scale, scale_bytes, zero_bytes)
    if what.kind not in scales.STATIC:
        raise SizingError(
            "scale", f"must be one of {', '.join(scales.STATIC)}: the others grow with each token"
        )
    fmt = kv_format.with_scales(kv_format.of("fp8"), what)
    rows = kv_layers.of_model(model, fmt)
    letters = kv_text.Letters(rows, fmt)
    return Result(
        kv_layers.static(rows),
        "B",
        letters.symbols,
        kv_text.with_sum(kv_text.static_steps(rows, fmt, letters), "B"),
        scope="model",
        notes=("the same for every batch and context: not part of the bytes per token",),
    )


def kv_bytes_sequence(
    model: ModelSpec,
    tokens: int,
    dtype: KVDtype = "bf16",
    window: int | None = None,
    n_local_layers: int | None = None,
    scope: str = "model",
    tp: int = 1,
    pp: int = 1,
    attention_dp: int = 1,
    stages: Sequence[int] | None = None,
) -> Result:
    """Bytes of keys and values of one sequence of `tokens` tokens, to the token (no blocks).

    window, n_local_layers: instead of the model's own windows, so many layers keep at most
    `window` tokens and the rest keep all; n_local_layers 0: every layer keeps all. Left out (None):
    as the config says. From JSON (`calls`) they may only repeat what the config says. Fixed state
    is apart (`fixed_state_bytes`), as are static scales.
    """
    fmt = kv_format.of(dtype)
    length = checks.whole(tokens, "tokens")
    checks.choice(scope, "scope", ("gpu", "model"))
    where = layout.of(tp, pp, 1, attention_dp, stages)
    if scope == "model" and where is not layout.ONE_GPU:
        raise SizingError("tp", 'the whole model has no tp: ask for scope "gpu"')
    stage_rows = kv_layers.of_stages(model, fmt, where, window, n_local_layers)
    rows = max(stage_rows, key=lambda stage: kv_layers.per_sequence(stage, length))
    value = kv_layers.per_sequence(rows, length)
    letters = kv_text.Letters(rows, fmt)
    steps, named = kv_text.sequence_steps(rows, length, fmt, letters)
    return Result(
        value,
        "B",
        (*letters.symbols, *named, kv_text.length_symbol(length)),
        tuple(steps),
        scope=scope,
        notes=(
            *_sequence_notes(model, rows, length, value),
            *_indexer_notes(rows, fmt),
            *layout_notes(model, where),
        ),
    )


def kv_growth_bytes_per_token(
    model: ModelSpec, tokens: int, dtype: KVDtype = "bf16", scope: str = "model", tp: int = 1
) -> Result:
    """Bytes that the next token adds to a sequence of `tokens` tokens.

    A layer whose window is full drops a token for each that it takes, and so adds none.
    """
    fmt = kv_format.of(dtype)
    length = checks.whole(tokens, "tokens")
    checks.choice(scope, "scope", ("gpu", "model"))
    where = layout.of(tp)
    if scope == "model" and where is not layout.ONE_GPU:
        raise SizingError("tp", 'the whole model has no tp: ask for scope "gpu"')
    rows = kv_layers.of_stages(model, fmt, where)[0]
    growing = [row for row in rows if row.window is None or row.window > length]
    letters = kv_text.Letters(growing, fmt)
    return Result(
        kv_layers.growth(rows, length),
        "B",
        (*letters.symbols, kv_text.length_symbol(length)),
        kv_text.with_sum(kv_text.token_steps(growing, fmt, letters), "B"),
        scope=scope,
        notes=_window_notes(rows),
    )


def fixed_state_bytes(
    model: ModelSpec, dtype: KVDtype = "bf16", scope: str = "model", tp: int = 1
) -> Result:
    """Bytes per sequence that do not grow with it: linear attention, state spaces, convolutions.

    Parts whose width the architecture fixes (fp32 states) keep it; the rest is in the cache's
    format, or in bf16 if that is quantised.
    """
    fmt = kv_format.of(dtype)
    checks.choice(scope, "scope", ("gpu", "model"))
    where = layout.of(tp)
    if scope == "model" and where is not layout.ONE_GPU:
        raise SizingError("tp", 'the whole model has no tp: ask for scope "gpu"')
    rows = kv_layers.of_stages(model, fmt, where)[0]
    value = kv_layers.state(rows)
    steps, letters = kv_text.state_steps(model, fmt, where.head_split)
    notes = () if value else ("no layer of this model keeps a fixed state",)
    return Result(value, "B", letters, steps, scope=scope, notes=notes)


def _one_layer(model: ModelSpec, fmt: KVFormat, layer: int | None) -> Result:
    rows = [row for row in kv_layers.of_model(model, fmt) if row.per_token]
    if layer is not None:
        index = checks.whole(layer, "layer", 0, model.num_layers - 1)
        key, value = fmt.of_layer(index)
        alone = KVFormat(key, value, fmt.scales, fmt.rope, fmt.indexer, fmt.state)
        one = kv_layers.of_one(model.layers[index], alone)
        if one is None or not one.per_token:
            text = _why_nothing(model, index)
            return Result(0, "B", scope="layer", notes=(text,))
    else:
        if len({row.per_token for row in rows}) > 1:
            each = ", ".join(f"{row.count} keep {row.per_token:,} B" for row in rows)
            raise SizingError("layer", f"is missing: the layers differ per token ({each})")
        if not rows:
            return Result(0, "B", scope="layer", notes=("no layer caches anything per token",))
        one = rows[0]
    return _token_result(model, [replace(one, count=1)], fmt, "layer")


def _why_nothing(model: ModelSpec, index: int) -> str:
    cache = model.layers[index].cache
    if isinstance(cache, SharedKV):
        return f"layer {index} reads the keys and values of layer {cache.layer}"
    return f"layer {index} caches nothing per token"


def _per_gpu(model: ModelSpec, fmt: KVFormat, where: Layout, stage: int | None) -> Result:
    stages = kv_layers.of_stages(model, fmt, where)
    if stage is None:
        rows = max(stages, key=kv_layers.per_token)
    else:
        rows = stages[checks.whole(stage, "stage", 0, len(stages) - 1)]
    result = _token_result(model, rows, fmt, "gpu")
    notes = (*result.notes, *layout_notes(model, where))
    return Result(result.value, "B", result.symbols, result.steps, "gpu", notes)


def _token_result(model: ModelSpec, rows: list[LayerBytes], fmt: KVFormat, scope: str) -> Result:
    notes = list(_window_notes(rows))
    shared = sum(n for layer, n in model.layer_groups if isinstance(layer.cache, SharedKV))
    if shared and scope == "model":
        notes.append(f"{shared} layers read another layer's keys and values and keep none")
    notes += _indexer_notes(rows, fmt)
    if kv_layers.state(rows):
        notes.append("beside it each sequence keeps a fixed state (fixed_state_bytes)")
    letters = kv_text.Letters(rows, fmt)
    return Result(
        kv_layers.per_token(rows),
        "B",
        letters.symbols,
        kv_text.with_sum(kv_text.token_steps(rows, fmt, letters), "B"),
        scope=scope,
        notes=tuple(notes),
    )


def _indexer_notes(rows: list[LayerBytes], fmt: KVFormat) -> tuple[str, ...]:
    """Engines keep an indexer's keys in a format of their own, whatever that of the cache."""
    indexed = [row for row in rows if row.indexer]
    if not indexed or fmt.indexer is not None:
        return ()
    return (
        f"indexer keys are counted in {fmt.key.name}, {indexed[0].indexer:,} B a token and layer; "
        "vLLM keeps them as 128 fp8 numbers and a 4-byte scale, 132 B, in every cache format: "
        '"indexer": "fp8_g128" in the dtype object',
    )


def _window_notes(rows: list[LayerBytes]) -> tuple[str, ...]:
    local = [row for row in rows if row.window is not None]
    if not local:
        return ()
    count, total = sum(row.count for row in local), sum(row.count for row in rows)
    widest = max(row.window or 0 for row in local)
    past = kv_layers.growth(rows, widest)
    return (
        f"{count} of {total} layers keep at most {widest:,} tokens: past that length a token adds "
        f"{past:,} B",
    )


def _sequence_notes(
    model: ModelSpec, rows: list[LayerBytes], length: int, value: int
) -> tuple[str, ...]:
    notes = []
    local = [row for row in rows if row.window is not None]
    if local:
        constant = kv_layers.per_sequence(local, length)
        full = all(length >= (row.window or 0) for row in local)
        word = "constant from here on" if full else "still growing"
        notes.append(f"of this the layers with a window hold {constant:,} B, {word}")
    fixed = kv_layers.state(rows)
    if fixed:
        notes.append(
            f"beside it the sequence keeps a fixed state of {fixed:,} B: {both(value + fixed)} "
            "in all"
        )
    if model.max_position is not None and length > model.max_position:
        notes.append(
            f"{length:,} tokens are more than the model's {model.max_position:,} positions"
        )
    return tuple(notes)


def layout_notes(model: ModelSpec, where: Layout) -> tuple[str, ...]:
    """What a reader should know of a split: what is copied, and what an engine would refuse."""
    split, notes = where.head_split, []
    copied = {
        kv_text.copies(layer.cache, split) for layer, _ in model.layer_groups if layer.cache
    } - {""}
    notes.extend(sorted(copied))
    odd = {n for layer, _ in model.layer_groups if (n := layer.num_query_heads) and n % split}
    notes.extend(
        f"{n} query heads do not divide over {split} GPUs: an engine refuses this split"
        for n in sorted(odd)
    )
    return tuple(notes)
