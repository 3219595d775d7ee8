"""All figures of the page for one place, from the sizing library; the same place costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from core.sizing import balance, blocks, catalog, gpus, kv, layout, memory
from core.sizing.architectures import model_from_config
from core.sizing.deployment import Deployment
from core.sizing.errors import SizingError
from core.sizing.geometry import KVHeads, Latent, Layer, LayerCache, ModelSpec
from core.sizing.plan import Plan, plan
from core.sizing.result import Result
from ui.sizing.mine import kept
from ui.sizing.place import KV_FORMATS, Place, own_config
from ui.sizing.shown import Json, figure, lines

OWN = "your config.json"


@kept(64, lambda name, own="": own)
def model(name: str, own: str = "") -> ModelSpec:
    """A model of the catalogue, or what a config.json describes. Raises SizingError with the
    field's path."""
    return model_from_config(own_config(own), OWN, "pasted here") if own else catalog.get(name)


def title(place: Place) -> str:
    """The model's name for people."""
    return "Your config.json" if place.own else catalog.entries()[place.model].title


@dataclass(frozen=True)
class Sized:
    """One place, computed. planned: None where weights are not known, and `why` says so."""

    place: Place
    spec: ModelSpec
    token: Result
    token_gpu: Result
    token_layer: Result | None
    sequence: Result
    planned: Plan | None
    why: str


@kept(128, lambda place: place.own)
def sized(place: Place) -> Sized:
    """Raises SizingError where the model cannot be read or cannot be laid out on these GPUs."""
    spec = model(place.model, place.own)
    token = kv.kv_bytes_per_token(spec, place.kv)
    on_gpu = kv.kv_bytes_per_token(spec, place.kv, "gpu", tp=place.gpus, attention_dp=place.adp)
    try:
        layer: Result | None = kv.kv_bytes_per_token(spec, place.kv, "layer")
    except SizingError:  # the layers differ
        layer = None
    sequence = kv.kv_bytes_sequence(spec, place.ctx, place.kv)
    planned, why = None, ""
    if spec.params is None and spec.nominal_params is None:
        why = f"How many parameters {title(place)} has is not known, so weights have no size here."
    else:
        planned = plan(deployment(place, spec))
    return Sized(place, spec, token, on_gpu, layer, sequence, planned, why)


def counted(spec: ModelSpec) -> str:
    """Which count of parameters the weights are sized by."""
    return "exact" if spec.params is not None else "nominal"


def deployment(place: Place, spec: ModelSpec) -> Deployment:
    """The deployment that the page's controls describe: one replica, split by heads, attention in
    groups of its GPUs where it is so chosen."""
    longest = place.most or max(spec.max_position or place.ctx, place.ctx)
    return Deployment(
        spec,
        gpus.get(place.gpu),
        tp=place.gpus,
        attention_dp=place.adp,
        context=place.ctx,
        max_model_len=max(longest, place.ctx),
        weight_dtype=place.w,
        kv_dtype=place.kv,
        block_size=place.bs,
    )


def token_part(done: Sized) -> Json:
    """One token: whole model, a layer, a GPU; the formula in pieces; what each lever would do."""
    figures = {
        "model": figure(done.token, "a token, whole model"),
        "gpu": figure(done.token_gpu, "a token, on each GPU"),
        "sequence": figure(done.sequence, "a sequence, whole model"),
    }
    state = kv.fixed_state_bytes(done.spec, done.place.kv)
    if state.value:
        figures["state"] = figure(state, "fixed state of a sequence, whole model")
    if done.token_layer is not None:
        figures["layer"] = figure(done.token_layer, "a token, one layer")
    return {
        **figures,
        "lines": lines(done.token),
        "levers": levers(done),
        "dtype": KV_FORMATS[done.place.kv],
    }


def main_layer(spec: ModelSpec) -> tuple[Layer, int] | None:
    """The kind of layer that most layers with keys and values are of, and how many these are."""
    kept = [
        (layer, count)
        for layer, count in spec.layer_groups
        if isinstance(layer.cache, KVHeads | Latent)
    ]
    return max(kept, key=lambda pair: pair[1]) if kept else None


def levers(done: Sized) -> list[Json]:
    """[{id, moves: letters of the formula, values}]: what moves which term, in figures."""
    spec, place = done.spec, done.place
    out: list[Json] = []
    found = main_layer(spec)
    if found is not None:
        out.append({"id": "heads", "moves": ["n_kv", "d_latent", "d_rope"], **_shared(found[0])})
    out.append({"id": "bytes", "moves": ["b", "b_k", "b_v", "b_rope", "s"], **_smaller(done)})
    windows = [_window(layer.cache) for layer, _ in spec.layer_groups]
    widest = max(windows, default=0)
    out.append(
        {
            "id": "context",
            "moves": ["W"],
            "case": "window" if widest else "plain" if done.token.value else "none",
            "window": widest,
        }
    )
    whole, here = done.token.value or 0, done.token_gpu.value or 0
    together = place.gpus // place.adp
    copies = together * here / whole if whole else 1
    out.append(
        {
            "id": "gpus",
            "moves": ["n_kv"],
            "case": _gpus_case(done, copies),
            "gpus": together,
            "groups": place.adp,
            "value": here,
            "copies": round(copies, 2),
        }
    )
    return out


def _smaller(done: Sized) -> Json:
    """The nearest format that makes a token smaller, if there is one."""
    now = done.token.value or 0
    for name in ("fp8", "int4_per_token_head"):
        try:
            value = kv.kv_bytes_per_token(done.spec, name).value or 0
        except SizingError:  # a format that cannot keep this shape
            continue
        if value < now:
            return {"case": "less", "other": KV_FORMATS[name], "value": value}
    return {"case": "least"}


def _gpus_case(done: Sized, copies: float) -> str:
    """What more GPUs do to a token's bytes."""
    place = done.place
    if not done.token.value:
        return "none"
    if place.adp > 1:
        return "groups"
    if place.gpus == 1:
        try:
            layout.check(done.spec, layout.of(2))
            each = kv.kv_bytes_per_token(done.spec, place.kv, "gpu", tp=2).value or 0
        except SizingError:  # its heads do not divide
            return "alone"
        return "one" if 2 * each == done.token.value else "one-copies"
    return "copies" if copies > 1 else "split"


def _shared(layer: Layer) -> Json:
    """How a layer's query heads share what is kept."""
    query, cache = layer.num_query_heads, layer.cache
    if not isinstance(cache, KVHeads):
        return {"case": "latent", "heads": query}
    heads = cache.num_kv_heads
    case = "mha" if heads == query else "mqa" if heads == 1 else "gqa"
    return {"case": case, "heads": heads, "query": query, "ratio": round(query / heads, 2)}


def _window(cache: LayerCache) -> int:
    """Tokens that a layer keeps at most; 0: all."""
    return (cache.window or 0) if isinstance(cache, KVHeads | Latent) else 0


_LABELS = {
    "weights": "weights",
    "overhead": "overhead",
    "kv": "keys and values",
    "free": "free",
    "held_back": "held back",
    "total": "memory",
    "short": "short",
}


def memory_part(done: Sized) -> Json | None:
    """The bar, of one GPU and of all; what fits; where the cache weighs as much as the weights."""
    planned, place = done.planned, done.place
    if planned is None:
        return None
    one = memory.split(planned, place.n)
    every = memory.of_replica(planned, place.n)
    length = balance.kv_weights_balance(
        planned.model, place.kv, place.w, batch=place.n, count=counted(done.spec)
    )
    return {
        "gpu": {name: figure(part, _LABELS[name]) for name, part in one.items()},
        "all": {name: figure(part, _LABELS[name]) for name, part in every.items()},
        "pool": figure(planned.kv_pool_per_gpu, "left for keys and values, a GPU"),
        "model_weights": figure(planned.weights, "weights, whole model"),
        "fit": figure(planned.held_paged, "sequences that fit"),
        "balance_batch": figure(planned.balance_batch, "cache as large as the weights, sequences"),
        "balance_context": figure(length, "cache as large as the weights, tokens"),
        "copies": round(float(planned.kv_replication.value or 1), 2),
        "longest": memory.longest_context(planned, place.n),
        "utilization": planned.deployment.gpu_memory_utilization,
        "gpu_title": planned.deployment.gpu.title,
        "weight_format": planned.deployment.stored().name,
    }


def paging_part(done: Sized) -> Json | None:
    """Blocks as they are needed, against one reservation a sequence."""
    planned = done.planned
    if planned is None or not done.token.value:
        return None
    d = planned.deployment
    wasted = blocks.contiguous_waste_fraction(d.context, d.longest)
    return {
        "paged": figure(planned.held_paged, "sequences that fit, in blocks"),
        "contiguous": figure(planned.held_contiguous, "sequences that fit, reserved"),
        "fractional": figure(planned.held_fractional, "sequences that fit, to the token"),
        "blocks": figure(planned.blocks_per_sequence, "blocks of a sequence"),
        "pool_blocks": figure(planned.num_blocks, "blocks in the pool of a GPU"),
        "last": figure(planned.last_block_waste, "empty in the last block, on average"),
        "wasted": figure(wasted, "of a reservation that is empty"),
        "reserved": d.longest,
        "context": d.context,
        "block_size": d.block_size,
        "limit": done.spec.max_position,
    }


def beyond(done: Sized) -> list[str]:
    """A warning where the context is longer than the model was made for."""
    limit, asked = done.spec.max_position, done.place.ctx
    if limit is None or asked <= limit:
        return []
    return [f"{title(done.place)} was made for {limit:,} tokens; {asked:,} are sized all the same."]


def model_part(done: Sized) -> Json:
    """What is to be said of the model: warnings first."""
    spec = done.spec
    return {
        "title": title(done.place),
        "source": spec.source,
        "warnings": [*spec.warnings, *beyond(done)],
        "notes": list(spec.notes),
        "limit": spec.max_position,
        "fields": {k: v for k, v in spec.fields.items() if isinstance(v, int | float | str)},
        "own": bool(done.place.own),
    }
