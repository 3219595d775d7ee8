"""A model's geometry under short names: what is the same in all its layers."""

from __future__ import annotations

from core.sizing.geometry import KVHeads, Latent, ModelSpec


def summary(model: ModelSpec) -> dict[str, object]:
    """n_layers, d_model, vocab, max_position, attention; and n_heads, n_kv_heads, d_head (d_head_k
    and d_head_v if they differ), d_latent, d_rope, window where all attention layers agree."""
    out: dict[str, object] = {
        "attention": attention_kind(model),
        "n_layers": model.num_layers,
        "d_model": model.hidden_size,
        "vocab": model.vocab_size,
        "max_position": model.max_position,
        "n_heads": _same({layer.num_query_heads for layer, _ in model.layer_groups} - {0}),
    }
    caches = [layer.cache for layer, _ in model.layer_groups]
    heads = [cache for cache in caches if isinstance(cache, KVHeads)]
    latents = [cache for cache in caches if isinstance(cache, Latent)]
    if heads and not latents:
        out["n_kv_heads"] = _same({cache.num_kv_heads for cache in heads})
        keys, values = _same({c.key_dim for c in heads}), _same({c.value_dim for c in heads})
        out.update({"d_head": keys} if keys == values else {"d_head_k": keys, "d_head_v": values})
        out["window"] = _same({cache.window for cache in heads})
    elif latents and not heads:
        out["d_latent"] = _same({cache.latent_dim for cache in latents})
        out["d_rope"] = _same({cache.rope_dim for cache in latents})
    return {name: value for name, value in out.items() if value is not None}


def attention_kind(model: ModelSpec) -> str:
    """ "MHA", "GQA", "MQA" or "MLA"; joined by " + " if layers differ, with what else there is."""
    found: dict[str, None] = {}
    for layer, _ in model.layer_groups:
        cache = layer.cache
        if isinstance(cache, KVHeads):
            groups = {1: "MQA", layer.num_query_heads: "MHA"}
            found[groups.get(cache.num_kv_heads, "GQA")] = None
        elif isinstance(cache, Latent):
            found["MLA"] = None
    extra = {
        "sliding window": any(getattr(lay.cache, "window", None) for lay, _ in model.layer_groups),
        "fixed state": any(
            lay.state is not None or hasattr(lay.cache, "parts") for lay, _ in model.layer_groups
        ),
    }
    return " + ".join([*found, *(name for name, there in extra.items() if there)]) or "none"


def _same(values: set[object] | set[int] | set[int | None]) -> object:
    return next(iter(values)) if len(values) == 1 else None
