"""The size of keys and values: grouped-query attention, and what people forget in the product."""

from __future__ import annotations

from random import Random
from typing import Any

from quiz.draw.common import FORMATS, calc, geometry, grouped_models, misread, size, title, whole
from quiz.items import Answer, Drawn, Line, Proof

ENGINE_MODEL = "smollm2-135m"
RUN = "two_answers_one_prefix"


def _given(shape: dict[str, int]) -> tuple[str, ...]:
    return (
        f"layers {shape['n_layers']}",
        f"query heads {shape['n_heads']}",
        f"KV heads {shape['n_kv_heads']}",
        f"head_dim {shape['d_head']}",
        f"hidden {shape['d_model']:,}",
    )


def _per_token(model: str, dtype: str) -> dict[str, int]:
    """Bytes a token, right and by each misconception."""
    shape = geometry(model)

    def of(**inputs: Any) -> int:
        return int(calc("kv_bytes_per_token", dtype=dtype, **inputs))

    right = of(model=model)
    amounts = {
        "right": right,
        "query_heads": of(config=misread(model, shape["n_heads"])),
        "keys_only": right // 2,
        "one_layer": of(model=model, scope="layer"),
        "one_kv_head": of(config=misread(model, 1)),
    }
    if dtype == "fp8":
        amounts["two_bytes"] = int(calc("kv_bytes_per_token", model=model, dtype="bf16"))
    return amounts


def _lines() -> dict[str, Line]:
    """The same misconceptions on the model that the engine here runs, in 16 bits."""
    shape = geometry(ENGINE_MODEL)
    amounts = _per_token(ENGINE_MODEL, "bf16")
    factors = [
        "2",
        f"{shape['n_layers']} layers",
        f"{shape['n_kv_heads']} heads",
        str(shape["d_head"]),
        "2 B",
    ]
    changes = {
        "right": (-1, ""),
        "query_heads": (2, f"{shape['n_heads']} heads"),
        "keys_only": (0, "1"),
        "one_layer": (1, "1 layer"),
        "one_kv_head": (2, "1 head"),
    }
    lines = {}
    for key, (place, instead) in changes.items():
        changed = [instead if i == place else factor for i, factor in enumerate(factors)]
        who = "engine" if key == "right" else "yours"
        lines[key] = Line(who, tuple(changed), f"{amounts[key]:,} B", place)
    return lines


def _values(model: str, dtype: str) -> dict[str, Any]:
    shape, here = geometry(model), geometry(ENGINE_MODEL)
    per_token = _per_token(ENGINE_MODEL, "bf16")["right"]
    return {
        **shape,
        "model": title(model),
        "format": FORMATS[dtype],
        "bytes": "2 bytes" if dtype == "bf16" else "1 byte",
        "group": f"{shape['n_heads'] / shape['n_kv_heads']:g}",
        "here_layers": here["n_layers"],
        "here_heads": here["n_heads"],
        "here_kv": here["n_kv_heads"],
        "here_token": whole(per_token),
        "here_block": whole(4 * per_token),
    }


def _proof(model: str) -> Proof:
    shape = geometry(model)
    return Proof(
        {"run": RUN, "step": 2, "block": 0}, _lines(), (shape["n_heads"], shape["n_kv_heads"])
    )


def _draw(rng: Random) -> tuple[str, str]:
    return rng.choice(grouped_models()), rng.choice(tuple(FORMATS))


def bytes_per_token(rng: Random) -> Drawn:
    """Bytes of keys and values of one token, over the whole model."""
    model, dtype = _draw(rng)
    return Drawn(
        values=_values(model, dtype),
        answers={key: size(value) for key, value in _per_token(model, dtype).items()},
        sign=f"{model} {dtype}",
        drawn=title(model),
        given=_given(geometry(model)),
        proof=_proof(model),
    )


def bytes_sequence(rng: Random) -> Drawn:
    """Bytes of one sequence of a given length."""
    model, dtype = _draw(rng)
    tokens = 1024 * rng.choice((2, 4, 8, 16, 32))
    per_token = _per_token(model, dtype)
    right = int(calc("kv_bytes_sequence", model=model, tokens=tokens, dtype=dtype))
    answers = {key: size(value * tokens) for key, value in per_token.items()}
    return Drawn(
        values={**_values(model, dtype), "tokens": f"{tokens:,}"},
        answers={**answers, "right": size(right)},
        sign=f"{model} {dtype} {tokens}",
        drawn=title(model),
        given=(*_given(geometry(model)), f"tokens {tokens:,}"),
        proof=_proof(model),
    )


def streams(rng: Random) -> Drawn:
    """Sequences that a pool holds at the same time."""
    model, dtype = _draw(rng)
    tokens = 1024 * rng.choice((2, 4, 8))
    block = int(calc("block_bytes", model=model, dtype=dtype))
    # A pool for some 24 to 96 of them, so that no answer is zero.
    gib = max(1, round(rng.randrange(24, 97) * block * tokens / 16 / 2**30))
    per_token = _per_token(model, dtype)
    right = int(
        calc("max_streams", model=model, tokens=tokens, dtype=dtype, pool_gib=gib, block_size=16)
    )
    held = {key: gib * 2**30 // (value * tokens) for key, value in per_token.items()}
    held["right"] = right
    return Drawn(
        values={**_values(model, dtype), "tokens": f"{tokens:,}", "pool": gib, "right": right},
        answers={key: Answer(f"{value:,} sequences") for key, value in held.items()},
        sign=f"{model} {dtype} {tokens} {gib}",
        drawn=title(model),
        given=(*_given(geometry(model)), f"tokens {tokens:,}", f"pool {gib} GiB"),
        proof=_proof(model),
    )
