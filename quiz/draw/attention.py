"""Why a cache, and how many heads: what is computed again without one, what groups and windows
leave of it."""

from __future__ import annotations

from random import Random

from core.sizing import catalog
from core.sizing.geometry import KVHeads
from quiz.draw.common import (
    FORMATS,
    alike,
    calc,
    counted,
    geometry,
    grouped_models,
    misread,
    size,
    title,
)
from quiz.items import Answer, Drawn, Proof

WINDOWED = (
    "gemma-2-9b",
    "gemma-2-27b",
    "gemma-3-4b",
    "gemma-3-12b",
    "gemma-3-27b",
    "gpt-oss-20b",
    "gpt-oss-120b",
    "command-r7b",
)
"""Models some of whose layers look back a window, and all of whose layers are of one width."""


def without_cache(prompt: int, output: int) -> int:
    """Tokens that run through the model without a cache: each run has one more than the last."""
    return sum(range(prompt, prompt + output))


def recompute(rng: Random) -> Drawn:
    """Tokens that run through the model when nothing is kept between steps."""
    prompt, output = rng.randrange(6, 25), rng.randrange(4, 12)
    answers = {
        "right": without_cache(prompt, output),
        "cached": prompt + output - 1,
        "prompt_each": prompt * output,
        "longest_each": (prompt + output - 1) * output,
    }
    return Drawn(
        values={
            "prompt": prompt,
            "output": output,
            "longest": prompt + output - 1,
            "cached": answers["cached"],
        },
        answers={key: Answer(counted(value, "token")) for key, value in answers.items()},
        sign=f"{prompt}+{output}",
        given=(f"prompt {prompt} tokens", f"answer {output} tokens", "no KV cache"),
        proof=Proof({"run": "kv_cache_off", "step": 1}, page="prefill_decode"),
    )


def groups(rng: Random) -> Drawn:
    """How many times smaller grouped-query attention makes the cache."""
    model = rng.choice(grouped_models())
    shape = geometry(model)
    full = calc("kv_bytes_per_token", config=misread(model, shape["n_heads"]))
    right = float(full) / float(calc("kv_bytes_per_token", model=model))
    answers = {
        "right": right,
        "kv_heads": shape["n_kv_heads"],
        "query_heads": shape["n_heads"],
        "twice": 2 * right,
        "squared": right**2,
    }
    return Drawn(
        values={**shape, "model": title(model), "group": f"{right:g}"},
        answers=alike(answers, "×"),
        sign=model,
        drawn=title(model),
        given=(
            f"layers {shape['n_layers']}",
            f"query heads {shape['n_heads']}",
            f"KV heads {shape['n_kv_heads']}",
            f"head_dim {shape['d_head']}",
        ),
        proof=Proof({"model": model, "vs": "hypothetical-70b-mha"}, page="kv_sizing"),
    )


def one_head(rng: Random) -> Drawn:
    """Bytes of a token if all query heads shared one KV head."""
    model, dtype = rng.choice(grouped_models()), rng.choice(tuple(FORMATS))
    shape = geometry(model)

    def of(kv_heads: int, scope: str = "model") -> int:
        config = misread(model, kv_heads)
        return int(calc("kv_bytes_per_token", config=config, dtype=dtype, scope=scope))

    answers = {
        "right": of(1),
        "as_it_is": of(shape["n_kv_heads"]),
        "none_shared": of(shape["n_heads"]),
        "keys_only": of(1) // 2,
        "one_layer": of(1, "layer"),
    }
    return Drawn(
        values={
            **shape,
            "model": title(model),
            "dtype": FORMATS[dtype],
            "bytes": "2 bytes" if dtype == "bf16" else "1 byte",
        },
        answers={key: size(value) for key, value in answers.items()},
        sign=f"{model} {dtype}",
        drawn=title(model),
        given=(
            f"layers {shape['n_layers']}",
            f"query heads {shape['n_heads']}",
            f"KV heads {shape['n_kv_heads']}",
            f"head_dim {shape['d_head']}",
        ),
        proof=Proof({"model": model, "kv": dtype, "vs": "hypothetical-70b-mqa"}, page="kv_sizing"),
    )


def window(rng: Random) -> Drawn:
    """The cache of a sequence when most layers look back a window only."""
    model = rng.choice(WINDOWED)
    layers = [layer.cache for layer in catalog.get(model).layers]
    kept = [cache for cache in layers if isinstance(cache, KVHeads)]
    widths = [cache.window for cache in kept if cache.window is not None]
    local, back = len(widths), widths[0]
    tokens = back * rng.choice((2, 4, 8, 16))
    per_token = int(calc("kv_bytes_per_token", model=model))
    per_layer = per_token // len(layers)
    answers = {
        "right": int(calc("kv_bytes_sequence", model=model, tokens=tokens)),
        "no_window": per_token * tokens,
        "all_window": per_token * back,
        "nothing_local": per_layer * (len(layers) - local) * tokens,
        "one_window": per_layer * ((len(layers) - local) * tokens + back),
    }
    return Drawn(
        values={
            "model": title(model),
            "layers": len(layers),
            "local": local,
            "whole": len(layers) - local,
            "back": f"{back:,}",
            "tokens": f"{tokens:,}",
            "per_layer": f"{per_layer:,}",
        },
        answers={key: size(value) for key, value in answers.items()},
        sign=f"{model} {tokens}",
        drawn=title(model),
        given=(
            f"layers {len(layers)}",
            f"of them with a window {local}",
            f"window {back:,} tokens",
            f"a token in a layer {per_layer:,} B",
        ),
        proof=Proof({"model": model, "ctx": tokens, "n": 1}, page="kv_sizing"),
    )
