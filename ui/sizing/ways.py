"""One layer kept in four ways: a head of its own for every query head, groups, one for all, or a
latent. The model's own way is one of them."""

from __future__ import annotations

from typing import Any

from core.sizing import compare, kv
from core.sizing.errors import SizingError
from core.sizing.geometry import KVHeads, Latent
from core.sizing.result import Result
from ui.sizing.figures import Sized, main_layer
from ui.sizing.shown import Json, figure

DEEPSEEK = {"d_latent": 512, "d_rope": 64}
"""The latent of DeepSeek-V2 and V3, for models that have none of their own."""


def ways_part(done: Sized) -> Json | None:
    """{layers, query, ways: [{id, mine, heads or latent, token, gpu, ratio}]}; None where no layer
    keeps keys and values. Of the layers that are most frequent, and as if none had a window."""
    found = main_layer(done.spec)
    if found is None:
        return None
    layer, count = found
    if not layer.num_query_heads:
        return None
    query, cache = layer.num_query_heads, layer.cache
    if isinstance(cache, KVHeads):
        key, value = cache.key_dim, cache.value_dim
        own = "mqa" if cache.num_kv_heads == 1 else "gqa"
        own = "mha" if cache.num_kv_heads == query else own
        group = cache.num_kv_heads if own == "gqa" else _group(query)
        latent = DEEPSEEK
    else:
        assert isinstance(cache, Latent)  # `main_layer` finds no other
        key, value, own, group = layer.query_dim, layer.output_dim, "mla", _group(query)
        latent = {"d_latent": cache.latent_dim, "d_rope": cache.rope_dim}
    heads = {"d_head": key} if key == value else {"d_head_k": key, "d_head_v": value}
    shapes: list[tuple[str, dict[str, Any]]] = [
        ("mha", {"attention": "mha", "n_kv_heads": query, **heads}),
        ("gqa", {"attention": "gqa", "n_kv_heads": group, **heads}),
        ("mqa", {"attention": "mqa", "n_kv_heads": 1, **heads}),
        ("mla", {"attention": "mla", **latent}),
    ]
    ways, mine = [], 0
    for name, shape in shapes:
        if name == "gqa" and name != own and group in (1, query):
            continue  # so many heads cannot be grouped
        given = {**shape, "n_layers": count, "dtype": done.place.kv}
        try:
            spec = compare.side(given, name).model
            token = kv.kv_bytes_per_token(spec, done.place.kv)
            on_gpu = _on_gpu(spec, done)
        except SizingError:  # a format that cannot keep this shape
            continue
        if name == own:
            mine = int(token.value or 0)
        ways.append(
            {
                "id": name,
                "mine": name == own,
                "heads": shape.get("n_kv_heads", 0),
                "latent": shape.get("d_latent", 0),
                "rope": shape.get("d_rope", 0),
                "token": figure(token, f"a token in {count} layers, {name.upper()}"),
                "gpu": figure(on_gpu, f"the same on each GPU, {name.upper()}"),
            }
        )
    for way in ways:
        way["ratio"] = way["token"]["value"] / mine if mine else None
    return {
        "layers": count,
        "of": done.spec.num_layers,
        "query": query,
        "gpus": done.place.gpus // done.place.adp,
        "borrowed": own != "mla",
        "ways": ways,
    }


def _on_gpu(spec: Any, done: Sized) -> Result:
    return kv.kv_bytes_per_token(
        spec, done.place.kv, "gpu", tp=done.place.gpus, attention_dp=done.place.adp
    )


def _group(query: int) -> int:
    """KV heads of a grouped version: an eighth of the query heads, or what divides them nearest."""
    dividers = [n for n in range(2, query) if query % n == 0]
    return min(dividers, key=lambda n: abs(n - query / 8)) if dividers else query
