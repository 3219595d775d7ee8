"""The cache in a pool: blocks, the longest sequence, scales, and its share on each of many GPUs."""

from __future__ import annotations

from random import Random
from typing import Any

from quiz.draw.common import (
    FORMATS,
    calc,
    counted,
    geometry,
    grouped_models,
    misread,
    size,
    title,
    whole,
)
from quiz.items import Answer, Drawn, Proof

TENSOR = (2, 4, 8, 16)


def _given(shape: dict[str, int], *more: str) -> tuple[str, ...]:
    return (
        f"layers {shape['n_layers']}",
        f"query heads {shape['n_heads']}",
        f"KV heads {shape['n_kv_heads']}",
        f"head_dim {shape['d_head']}",
        *more,
    )


def _values(model: str, dtype: str) -> dict[str, Any]:
    shape = geometry(model)
    return {
        **shape,
        "model": title(model),
        "format": FORMATS.get(dtype, dtype.upper()),
        "bytes": "2 bytes" if dtype == "bf16" else "1 byte",
        "group": f"{shape['n_heads'] / shape['n_kv_heads']:g}",
    }


def _per_token(model: str, dtype: str) -> dict[str, int]:
    """Bytes of a token, right and by the slips of the product."""
    shape = geometry(model)
    right = int(calc("kv_bytes_per_token", model=model, dtype=dtype))
    every = misread(model, shape["n_heads"])
    return {
        "right": right,
        "query_heads": int(calc("kv_bytes_per_token", config=every, dtype=dtype)),
        "keys_only": right // 2,
        "one_layer": right // shape["n_layers"],
    }


def block(rng: Random) -> Drawn:
    """Bytes of one block, all layers."""
    model, dtype = rng.choice(grouped_models()), rng.choice(tuple(FORMATS))
    slots = rng.choice((8, 16, 32, 64))
    amounts = {key: value * slots for key, value in _per_token(model, dtype).items()}
    amounts["one_token"] = amounts["right"] // slots
    amounts["right"] = int(calc("block_bytes", model=model, dtype=dtype, block_size=slots))
    return Drawn(
        values={
            **_values(model, dtype),
            "slots": slots,
            "per_token": whole(amounts["one_token"]),
            "per_layer": whole(amounts["one_layer"]),
        },
        answers={key: size(value) for key, value in amounts.items()},
        sign=f"{model} {dtype} {slots}",
        drawn=title(model),
        given=_given(geometry(model), f"block_size {slots}"),
        proof=Proof({"model": model, "kv": dtype, "bs": slots}, page="kv_sizing"),
    )


def longest(rng: Random) -> Drawn:
    """The longest sequence that a pool holds when it is alone."""
    model, dtype = rng.choice(grouped_models()), rng.choice(tuple(FORMATS))
    gib = rng.choice((4, 6, 8, 10, 12, 16, 20, 24, 32, 40))
    per_token = _per_token(model, dtype)
    if dtype == "fp8":
        per_token["two_bytes"] = int(calc("kv_bytes_per_token", model=model, dtype="bf16"))
    blocks = calc("num_blocks", pool_bytes=gib * 2**30, model=model, dtype=dtype, block_size=16)
    held = {key: gib * 2**30 // (16 * value) * 16 for key, value in per_token.items()}
    held["right"] = int(blocks) * 16
    held["decimal"] = gib * 10**9 // (16 * per_token["right"]) * 16
    return Drawn(
        values={
            **_values(model, dtype),
            "pool": gib,
            "per_token": whole(per_token["right"]),
            "right": whole(held["right"]),
        },
        answers={key: Answer(f"{value:,} tokens") for key, value in held.items()},
        sign=f"{model} {dtype} {gib}",
        drawn=title(model),
        given=_given(geometry(model), "block_size 16", f"pool {gib} GiB"),
        proof=Proof(
            {"model": model, "kv": dtype, "ctx": min(held["right"], 1 << 20), "n": 1},
            page="kv_sizing",
        ),
    )


def scales(rng: Random) -> Drawn:
    """Bytes of a token when each key and value vector has a scale of its own."""
    model, dtype = rng.choice(grouped_models()), rng.choice(("fp8", "int8", "int4"))
    shape = geometry(model)
    vectors = 2 * shape["n_layers"] * shape["n_kv_heads"]
    bare = int(calc("kv_bytes_per_token", model=model, dtype=dtype))
    amounts = {
        "right": int(calc("kv_bytes_per_token_quantized", model=model, dtype=dtype)),
        "bare": bare,
        "one_each_layer": bare + 2 * 2 * shape["n_layers"],
        "keys_alone": bare + vectors,
        "each_number": bare + 2 * vectors * shape["d_head"],
    }
    width = {"fp8": "1 byte", "int8": "1 byte", "int4": "half a byte"}[dtype]
    return Drawn(
        values={
            **_values(model, dtype),
            "width": width,
            "vectors": whole(vectors),
            "bare": whole(bare),
            "numbers": whole(vectors * shape["d_head"]),
        },
        answers={key: size(value) for key, value in amounts.items()},
        sign=f"{model} {dtype}",
        drawn=title(model),
        given=_given(shape, f"{dtype.upper()}, {width} a number", "scale 2 bytes"),
        proof=Proof({"model": model, "kv": f"{dtype}_per_token_head"}, page="kv_sizing"),
    )


def share(rng: Random) -> Drawn:
    """Bytes of a token on each of the GPUs that the heads are dealt to."""
    model, gpus = rng.choice([(m, n) for m in grouped_models() for n in TENSOR if _deals(m, n)])
    dtype = rng.choice(tuple(FORMATS))
    shape = geometry(model)
    per_token = _per_token(model, dtype)
    right = calc("kv_bytes_per_token_per_gpu", model=model, dtype=dtype, tp=gpus)
    heads, copies = max(1, shape["n_kv_heads"] // gpus), max(1, gpus // shape["n_kv_heads"])
    amounts = {
        "right": int(right),
        "left_whole": per_token["right"],
        "query_heads": per_token["query_heads"] // gpus,
        "divided": per_token["right"] // gpus,
        "keys_only": int(right) // 2,
        "by_layers": per_token["one_layer"],
    }
    return Drawn(
        values={
            **_values(model, dtype),
            "gpus": gpus,
            "heads": counted(heads, "KV head"),
            "copies": copies,
            "kept": "none of them twice" if copies == 1 else f"each of them {copies} times over",
        },
        answers={key: size(value) for key, value in amounts.items()},
        sign=f"{model} {dtype} {gpus}",
        drawn=title(model),
        given=_given(shape, f"tensor parallel {gpus}"),
        proof=Proof({"model": model, "kv": dtype, "gpus": gpus, "of": "gpu"}, page="kv_sizing"),
    )


def _deals(model: str, gpus: int) -> bool:
    """Whether the heads can be dealt out whole, or each kept on equally many GPUs."""
    heads, kv_heads = geometry(model)["n_heads"], geometry(model)["n_kv_heads"]
    return heads % gpus == 0 and (kv_heads % gpus == 0 or gpus % kv_heads == 0)
