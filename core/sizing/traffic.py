"""Bytes that a decode step reads from memory: the weights once, and each sequence's cache.

Weights are read once per step, whatever the batch: that is what batching shares. A mixture of
experts reads the experts that its tokens visit, more of them the larger the batch: of E experts,
k per token, B tokens visit E · (1 − (1 − k / E)^B) in the mean if all are liked equally.

The cache is read in full by every step, at most a window of it in a layer with a window. A layer
that shares another's keys and values keeps none of its own but reads the other's again. Fixed
state is read and written back.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from core.sizing import checks, copies, formats, kv_format, kv_layers, layout, stored
from core.sizing.compute import (
    COUNTED,
    COUNTS,
    MLA_PATHS,
    attention_terms,
    index_flops,
    params_per_token,
    read_cache,
)
from core.sizing.formats import Format
from core.sizing.geometry import ModelSpec, SharedKV
from core.sizing.kv_format import KVDtype
from core.sizing.layout import Layout
from core.sizing.result import CONVENTION, Result, Step, Symbol, symbols
from core.sizing.stored import Stored, WeightDtype
from core.sizing.text import num, short
from core.sizing.weights import rows_of


class Read(NamedTuple):
    """Parameters that a step reads: those of one token, and ⌊idle · woken⌋ of the experts that it
    leaves alone, because other tokens of the batch visit them."""

    params: int
    one: int
    idle: int
    woken: float
    notes: tuple[str, ...]


def experts_visited(model: ModelSpec) -> float | None:
    """k / E: the share of its experts that one token visits; None if the model has none."""
    total, visited = model.fields.get("n_experts"), model.fields.get("n_active_experts")
    if isinstance(total, int) and isinstance(visited, int) and total > 0:
        return visited / total
    for part in model.parts:
        if part.name == "experts" and part.params:
            return part.active / part.params
    return None


def weights_read(model: ModelSpec, batch: int, count: str = "active") -> Read:
    """Parameters read in a step of `batch` tokens. Unchecked; see decode_weight_bytes."""
    params, notes = params_per_token(model, count)
    if model.params is None or model.active_params is None or model.params == model.active_params:
        return Read(params, params, 0, 0.0, notes)
    idle = model.params - model.active_params  # experts that one token does not visit
    share = experts_visited(model)
    if share is None:
        why = "how many experts it has is not known: those of one token are counted"
        return Read(params, params, 0, 0.0, (*notes, why))
    woken = round(1 - (1 - share) ** (batch - 1), 12)
    read = params + math.floor(idle * Fraction(repr(woken)))
    why = (
        f"a token visits {short(share)} of the experts; they are taken to be visited equally often"
    )
    return Read(read, params, idle, woken, (*notes, why))


def numbers_read(
    model: ModelSpec, read: Read, kept: Stored, count: str = "active"
) -> dict[Format, int]:
    """How many of the parameters that a step reads are in each format."""
    if kept.plain or not model.parts:
        return {kept.main: read.params}
    if count == "matmul":
        amounts = [(part.name, part.matmul, 0) for part in model.parts]
    else:
        amounts = [*model.met]
    others = read.params - read.one
    if others:
        idle = next(part for part in model.parts if part.params > part.active)
        bare = math.floor((idle.vectors - max(0, idle.active - idle.matmul)) * read.woken)
        amounts.append((idle.name, others - bare, bare))
    return kept.numbers(amounts)


class Held(NamedTuple):
    """Bytes that one GPU reads of the weights: its even share of `whole`, and `copied`."""

    whole: int
    copied: int
    tp: int

    @property
    def each(self) -> float:
        return self.whole / self.tp + self.copied


def weights_on_gpu(
    model: ModelSpec, read: Read, kept: Stored, where: Layout, count: str = "active"
) -> Held:
    """What one GPU of a tensor-parallel group reads in a step. Unchecked."""
    whole, copied = kept.size(numbers_read(model, read, kept, count)), 0
    if where.tp > 1:
        mixing = [(part.name, part.active) for part in model.parts if part.name in copies.MIXING]
        extra = copies.beyond_share(model, where, mixing, 0, model.num_layers)
        copied = kept.size(kept.numbers((name, n, 0) for name, n in extra)) if extra else 0
    return Held(whole, copied, where.tp)


def decode_weight_bytes(
    model: ModelSpec, dtype: WeightDtype = "bf16", batch: int = 1, count: str = "active"
) -> Result:
    """Bytes of weights that one decode step of `batch` sequences reads, the whole model."""
    kept = stored.of(dtype, model)
    batch = checks.whole(batch, "batch", 1)
    checks.choice(count, "count", COUNTS)
    read = weights_read(model, batch, count)
    rows = rows_of("P_r", kept, numbers_read(model, read, kept, count))
    return Result(
        rows.size,
        "B",
        (
            *symbols(
                ("P", COUNTED[count], read.one),
                ("idle", "parameters of the experts that it leaves alone", read.idle),
                ("woken", "share of them that others visit: 1 − (1 − k / E)^(B − 1)", read.woken),
                ("B", "sequences", batch),
            ),
            *rows.symbols,
        ),
        (
            Step(
                "P_r = P + ⌊idle · woken⌋",
                f"{read.one} + ⌊{read.idle} · {num(read.woken)}⌋",
                read.params,
                "params",
            ),
            *rows.steps,
        ),
        scope="model",
        notes=read.notes,
        basis=CONVENTION if model.params != model.active_params and batch > 1 else "arithmetic",
    )


def weight_size(params: int, dtype: str, path: str = "dtype") -> int:
    """Bytes of so many weights."""
    return formats.bytes_of(params, formats.get(dtype, path))


def kv_read(model: ModelSpec, context: int, dtype: KVDtype, where: Layout = layout.ONE_GPU) -> int:
    """Bytes of cache and state that one GPU moves per sequence and step. Unchecked."""
    return sum(
        count * tokens * size for count, tokens, size in _reads(model, context, dtype, where)
    )


def _reads(
    model: ModelSpec, context: int, dtype: KVDtype, where: Layout
) -> list[tuple[int, int, int]]:
    """(layers, tokens, bytes of a token in one layer): what one GPU moves per sequence."""
    fmt = kv_format.of(dtype)
    out = []
    for stage in kv_layers.of_stages(_own_kv(model), fmt, where):
        for row in stage:
            keys_and_values = row.attended(context), row.payload + row.scale
            parts = keys_and_values, (row.tokens(context), row.indexer), (2, row.state)
            out += [(row.count, times, size) for times, size in parts if size]
    return out


def decode_kv_bytes(
    model: ModelSpec,
    context: int,
    dtype: KVDtype = "bf16",
    batch: int = 1,
    tp: int = 1,
    attention_dp: int = 1,
) -> Result:
    """Bytes of KV cache and fixed state that one decode step moves on one GPU.

    batch: sequences of the whole replica, `context` tokens each. Under tensor parallelism each GPU
    reads its own heads, and a replicated head or latent whole; attention_dp groups split the batch.
    """
    context = checks.whole(context, "context")
    batch = checks.whole(batch, "batch", 1)
    where = layout.of(tp, 1, 1, attention_dp)
    layout.check(model, where)
    reads = _reads(model, context, dtype, where)
    each = sum(count * tokens * size for count, tokens, size in reads)
    local = -(-batch // where.attention_dp)
    value = local * each
    return Result(
        value,
        "B",
        symbols(
            ("S", "context", context, "tokens"),
            ("B", "sequences", batch),
            ("dp", "attention groups", where.attention_dp),
            ("M_S", "read per sequence", each, "B"),
        ),
        (
            Step(
                "M_S = Σ layers · tokens read · bytes; state is read and written",
                " + ".join(f"{n} · {t} · {size}" for n, t, size in reads) or "0",
                each,
                "B",
            ),
            Step("⌈B / dp⌉ · M_S", f"⌈{batch} / {where.attention_dp}⌉ · {num(each)}", value, "B"),
        ),
        scope="gpu",
        notes=_shared_note(model),
    )


def arithmetic_intensity_attention_decode(
    model: ModelSpec,
    dtype: KVDtype = "bf16",
    context: int | None = None,
    mla: str = "absorbed",
    tp: int = 1,
) -> Result:
    """FLOP per byte of decode's attention: 2 · n_q / (n_kv · b) at any batch and context.

    One query token meets each cached token once per query head, and query heads that share a KV
    head share the read. MLA absorbed: all heads share one latent, so it lies near the ridge.
    context: only matters if layers differ and some have windows; None: within every window. tp:
    per GPU; a replicated KV head serves fewer query heads there.
    """
    checks.choice(mla, "mla", MLA_PATHS)
    where = layout.of(tp)
    layout.check(model, where)
    length = 1 if context is None else checks.whole(context, "context", 1)
    flops = 0
    for window, per_pair in attention_terms(model, mla).items():
        flops += per_pair * (length if window is None else min(length, window))
    moved = kv_read(attention_alone(model), length, dtype, where)
    if not flops or not moved:
        return Result(None, "FLOP/B", notes=("no layer attends to cached tokens",))
    split, index = where.head_split, index_flops(model) * length
    value = ((flops - index) / split + index) / moved
    return Result(
        value,
        "FLOP/B",
        (
            Symbol("F", "FLOPs of one token's attention", flops, "FLOP"),
            Symbol("M", "bytes of cache read for it, one GPU", moved, "B"),
            Symbol("tp", "GPUs that share the heads", split),
            *(
                [Symbol("I", "of F, the indexers' scores, which every GPU computes", index, "FLOP")]
                if index
                else []
            ),
            *_head_symbols(model),
        ),
        (
            Step(
                "((F − I) / tp + I) / M" if index else "F / tp / M",
                f"(({flops} − {index}) / {split} + {index}) / {num(moved)}"
                if index
                else f"{num(flops)} / {split} / {num(moved)}",
                value,
                "FLOP/B",
            ),
        ),
        scope="gpu",
        notes=_shared_note(model),
    )


def _head_symbols(model: ModelSpec) -> tuple[Symbol, ...]:
    kinds = {
        (layer.num_query_heads, getattr(read_cache(model, layer), "num_kv_heads", None))
        for layer, _ in model.layer_groups
        if layer.num_query_heads
    }
    if len(kinds) != 1:
        return ()
    query, kv = kinds.pop()
    rows = symbols(("n_q", "query heads", query))
    return rows if kv is None else (*rows, Symbol("n_kv", "KV heads", kv))


def _shared_note(model: ModelSpec) -> tuple[str, ...]:
    if any(isinstance(layer.cache, SharedKV) for layer, _ in model.layer_groups):
        return ("layers that share another's keys and values read them again",)
    return ()


def _own_kv(model: ModelSpec) -> ModelSpec:
    """The model as its reads see it: a layer that shares another's cache reads all of that."""
    if not any(isinstance(layer.cache, SharedKV) for layer, _ in model.layer_groups):
        return model
    return _reading(model)


@lru_cache(maxsize=64)
def _reading(model: ModelSpec) -> ModelSpec:
    return replace(
        model, layers=tuple(replace(x, cache=read_cache(model, x)) for x in model.layers)
    )


def attention_alone(model: ModelSpec) -> ModelSpec:
    """The model's attention over cached tokens: layers of linear attention, state spaces and
    convolutions left out."""
    if all(layer.num_query_heads and layer.state is None for layer, _ in model.layer_groups):
        return model
    return _attending(_own_kv(model))


@lru_cache(maxsize=64)
def _attending(model: ModelSpec) -> ModelSpec:
    layers = tuple(replace(x, state=None) for x in model.layers if x.num_query_heads)
    return replace(model, layers=layers)
