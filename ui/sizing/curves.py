"""Curves of the page: how caches grow with the context, and where they weigh as much as weights."""

from __future__ import annotations

from core.sizing import balance, capacity, catalog, parallel
from core.sizing.errors import SizingError
from ui.sizing.figures import Sized, counted, model, title
from ui.sizing.mine import kept
from ui.sizing.place import KV_FORMATS, Place
from ui.sizing.shown import Json

POINTS = 32
_SHORT = {
    "bf16": "BF16",
    "fp8": "FP8",
    "fp8_per_token_head": "FP8 + scales",
    "int8_per_token_head": "INT8 + scales",
    "int4_per_token_head": "INT4 + scales",
    "fp32": "FP32",
}


def last_context(tokens: int) -> int:
    """Where the axis ends: a power of two that is at least twice the chosen context."""
    return max(32_768, 1 << (2 * tokens - 1).bit_length())


@kept(512, lambda name, own, *_: own)
def _grown(
    name: str, own: str, dtype: str, tp: int, adp: int, block_size: int, last: int
) -> tuple[int, ...] | None:
    """Bytes of one sequence on all GPUs that serve it together at POINTS places up to `last`; None
    where the model cannot be laid out so."""
    spec = model(name, own)
    try:
        return (
            0,
            *(
                tp
                // adp
                * int(
                    capacity.sequence_bytes_in_pool(
                        spec,
                        last * i // POINTS,
                        dtype,
                        "paged",
                        block_size,
                        tp=tp,
                        attention_dp=adp,
                    ).value
                    or 0
                )
                for i in range(1, POINTS + 1)
            ),
        )
    except SizingError:
        return None


def growth_part(done: Sized) -> Json:
    """All sequences' keys and values against the context: this model in three formats, and others
    in the chosen one. `budget`: the pool of all GPUs."""
    place = done.place
    last = last_context(place.ctx)
    lines: list[Json] = []
    left_out: list[str] = []

    def add(name: str, own: str, dtype: str, label: str, kind: str) -> None:
        each = _grown(name, own, dtype, place.gpus, place.adp, place.bs, last)
        if each is None:
            left_out.append(label)
        else:
            copies = (
                parallel.kv_replication_factor(model(name, own), place.gpus, place.adp).value or 1
            )
            lines.append(
                {
                    "name": label,
                    "kind": kind,
                    "values": [place.n * v for v in each],
                    "copies": round(float(copies), 2),
                }
            )

    add(place.model, place.own, place.kv, f"{title(place)}, {_SHORT[place.kv]}", "own")
    others = [d for d in ("bf16", "fp8", "int4_per_token_head") if d != place.kv][:2]
    for dtype in others:
        add(place.model, place.own, dtype, f"the same, {_SHORT[dtype]}", "format")
    for name in place.vs:
        if place.own or name != place.model:
            label = catalog.entries()[name].title.replace(" (not a real model)", "*")
            add(name, "", place.kv, label, "model")
    pool = done.planned.kv_pool_per_gpu.value if done.planned else None
    return {
        "contexts": [last * i // POINTS for i in range(POINTS + 1)],
        "lines": lines,
        "budget": None if pool is None else place.gpus * int(pool),
        "left_out": left_out,
        "at": place.ctx,
        "n": place.n,
        "format": KV_FORMATS[place.kv],
    }


@kept(128, lambda name, own, *_: own)
def _frontier(
    name: str, own: str, dtype: str, w: str, tp: int, adp: int, block_size: int, pool: int
) -> tuple[tuple[int, float | None, int | None], ...]:
    """(context, sequences at which the cache weighs as much as the weights, sequences that fit)."""
    spec = model(name, own)
    out = []
    for power in range(7, 21):
        tokens = 1 << power
        even = balance.kv_weights_balance(spec, dtype, w, tokens=tokens, count=counted(spec)).value
        fit = capacity.max_streams(
            spec,
            tokens,
            dtype,
            "paged",
            block_size,
            per_gpu_pool_bytes=pool,
            tp=tp,
            attention_dp=adp,
        ).value
        out.append((tokens, even, None if fit is None else int(fit)))
    return tuple(out)


def balance_part(done: Sized) -> Json | None:
    """Sequences over context, both in powers of two: where the cache is as large as the weights,
    and where the pool is full."""
    place: Place = done.place
    if done.planned is None:
        return None
    rows = _frontier(
        place.model,
        place.own,
        place.kv,
        place.w,
        place.gpus,
        place.adp,
        place.bs,
        int(done.planned.kv_pool_per_gpu.value or 0),
    )
    return {
        "contexts": [row[0] for row in rows],
        "even": [row[1] for row in rows],
        "fit": [row[2] for row in rows],
        "at": [place.ctx, place.n],
    }
