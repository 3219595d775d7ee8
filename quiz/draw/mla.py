"""Latent attention: what one latent for all heads keeps, what it costs, and against what.

DeepSeek-V2 and its successors; a layer keeps latent_dim + rope_dim numbers of a token.
"""

from __future__ import annotations

from random import Random

from core.sizing import catalog
from core.sizing.geometry import Latent
from quiz.draw.common import FORMATS, calc, counted, geometry, title, whole
from quiz.draw.figures import GIB, exact, gib, three, times
from quiz.items import Answer, Drawn, Proof

LATENT = ("deepseek-v2", "deepseek-v3", "deepseek-v2-lite", "kimi-k2")
RANKS = (
    ("deepseek-v2", 4),
    ("deepseek-v2", 8),
    ("deepseek-v3", 8),
    ("deepseek-v3", 16),
    ("kimi-k2", 16),
)
"""Models and GPUs that hold them."""
GROUPED = ("llama-3.1-70b", "llama-3.1-8b", "qwen3-32b", "qwen2.5-72b", "llama-3.1-405b")


def _shape(model: str) -> dict[str, int]:
    spec = catalog.get(model)
    layer = spec.layers[0]
    assert isinstance(layer.cache, Latent)
    return {
        "layers": len(spec.layers),
        "heads": layer.num_query_heads,
        "latent": layer.cache.latent_dim,
        "rope": layer.cache.rope_dim,
        "key": layer.query_dim,
        "value": layer.output_dim,
    }


def latent_token(rng: Random) -> Drawn:
    """Bytes of one token over the whole model."""
    model, dtype = rng.choice(LATENT), rng.choice(tuple(FORMATS))
    shape, width = _shape(model), 1 if dtype == "fp8" else 2
    right = int(calc("kv_bytes_per_token", model=model, dtype=dtype))
    amounts = {
        "right": right,
        "one_layer": calc("kv_bytes_per_token", model=model, dtype=dtype, scope="layer"),
        "no_rope": shape["layers"] * shape["latent"] * width,
        "twice": 2 * right,
        "every_head": shape["layers"] * shape["heads"] * (shape["key"] + shape["value"]) * width,
    }
    return Drawn(
        values={
            **shape,
            "model": title(model),
            "format": FORMATS[dtype],
            "bytes": "1 byte" if dtype == "fp8" else "2 bytes",
            "numbers": shape["latent"] + shape["rope"],
            "layer": whole(amounts["one_layer"]),
        },
        answers={key: exact(value) for key, value in amounts.items()},
        sign=f"{model} {dtype}",
        drawn=title(model),
        given=(
            f"layers {shape['layers']}",
            f"heads {shape['heads']}, key {shape['key']}, value {shape['value']}",
            f"latent {shape['latent']}",
            f"rotary key {shape['rope']}",
        ),
        proof=Proof({"model": model, "kv": dtype, "n": 1, "vs": "llama-3.1-70b"}, page="kv_sizing"),
    )


def long_request(rng: Random) -> Drawn:
    """What one long request keeps."""
    model, tokens = rng.choice(LATENT), 1024 * rng.choice((16, 24, 32, 48, 64, 96, 128))
    shape = _shape(model)
    right = float(calc("kv_bytes_sequence", model=model, tokens=tokens, dtype="bf16"))
    row = shape["latent"] + shape["rope"]
    amounts = {
        "right": right,
        "one_layer": right / shape["layers"],
        "grouped": 2 * right,
        "every_head": right / row * shape["heads"] * (shape["key"] + shape["value"]),
        "no_rope": right / row * shape["latent"],
    }
    return Drawn(
        values={
            **shape,
            "model": title(model),
            "tokens": whole(tokens),
            "token": whole(calc("kv_bytes_per_token", model=model)),
            "row": whole(2 * row),
        },
        answers={key: Answer(gib(value)) for key, value in amounts.items()},
        sign=f"{model} {tokens}",
        drawn=title(model),
        given=(
            f"layers {shape['layers']}",
            f"{2 * row:,} B a token and layer in BF16",
            f"tokens {tokens:,}",
        ),
        proof=Proof({"model": model, "ctx": tokens, "n": 1}, page="kv_sizing"),
    )


def each_rank(rng: Random) -> Drawn:
    """Requests that fit when plain tensor parallelism keeps the latent on every GPU."""
    model, tp = rng.choice(RANKS)
    tokens, pool = 1024 * rng.choice((16, 32, 64, 128)), rng.choice((20, 30, 40, 50))
    inputs = {"model": model, "tokens": tokens, "per_gpu_pool_bytes": pool * GIB, "tp": tp}
    right = int(calc("max_streams", **inputs))
    shape = _shape(model)
    shape["row"] = 2 * (shape["latent"] + shape["rope"])
    per_request = float(calc("kv_bytes_sequence", model=model, tokens=tokens))
    answers = {
        "right": right,
        "shared_out": calc("max_streams", attention_dp=tp, **inputs),
        "one_layer": pool * GIB * shape["layers"] // int(per_request),
        "split_pool": right // tp,
        "with_values": pool * GIB // int(2 * per_request),
    }
    return Drawn(
        values={
            "model": title(model),
            "tp": tp,
            "tokens": whole(tokens),
            "pool": pool,
            "request": gib(per_request),
            "right": right,
            "shared": whole(answers["shared_out"]),
            "layers": shape["layers"],
        },
        answers={key: Answer(counted(int(value), "request")) for key, value in answers.items()},
        sign=f"{model} {tp} {tokens} {pool}",
        drawn=title(model),
        given=(
            f"{shape['row']:,} B a token and layer in BF16, layers {shape['layers']}",
            f"pool {pool} GiB on each of {tp} GPUs",
            f"plain tensor parallelism, {tp} ranks",
        ),
        proof=Proof(
            {"model": model, "gpu": "h200-sxm", "gpus": tp, "ctx": tokens, "of": "gpu"},
            page="kv_sizing",
        ),
    )


def as_heads(rng: Random) -> Drawn:
    """KV heads of a grouped layer that keep as much as a latent."""
    latent, rope = rng.choice((256, 384, 512, 768, 1024)), rng.choice((32, 64, 96))
    head = rng.choice((64, 96, 128, 192))
    right = float(calc("mla_equivalent_gqa_heads", d_latent=latent, d_rope=rope, d_head=head))
    heads = {
        "right": right,
        "keys_only": 2 * right,
        "no_rope": latent / (2 * head),
        "rope_twice": (latent + 2 * rope) / (2 * head),
        "latent_alone": latent / head,
    }
    return Drawn(
        values={
            "latent": latent,
            "rope": rope,
            "head": head,
            "kept": latent + rope,
            "pair": 2 * head,
            "right": three(right),
        },
        answers={key: Answer(f"{three(value)} heads") for key, value in heads.items()},
        sign=f"{latent} {rope} {head}",
        given=(f"latent {latent}", f"rotary key {rope}", f"head_dim {head}"),
        proof=Proof({"claim": "B121"}, page="claims_ledger"),
    )


def against_groups(rng: Random) -> Drawn:
    """Bytes of a grouped model's token over those of a latent model's."""
    grouped, latent = rng.choice(GROUPED), rng.choice(LATENT)
    formats = rng.choice((("bf16", "bf16"), ("fp8", "bf16"), ("fp8", "fp8")))
    a, b = {"model": grouped, "dtype": formats[0]}, {"model": latent, "dtype": formats[1]}
    shape = _shape(latent)
    right = float(calc("kv_ratio", a=a, b=b))
    row = shape["latent"] + shape["rope"]
    ratios = {
        "right": right,
        "layer_for_model": right * shape["layers"],
        "own_heads": shape["heads"] * (shape["key"] + shape["value"]) / row,
        "layer_by_layer": calc("kv_ratio", a=a, b=b, scope="layer"),
        "upside_down": 1 / right,
    }
    each = [whole(calc("kv_bytes_per_token", **one)) for one in (a, b)]
    return Drawn(
        values={
            "grouped": title(grouped),
            "latent": title(latent),
            "one": FORMATS[formats[0]],
            "other": FORMATS[formats[1]],
            "big": each[0],
            "small": each[1],
            "layers": shape["layers"],
            "own": geometry(grouped)["n_layers"],
        },
        answers={key: Answer(times(value)) for key, value in ratios.items()},
        sign=f"{grouped} {formats[0]} {latent} {formats[1]}",
        drawn=f"{title(grouped)} and {title(latent)}",
        given=(
            f"{title(grouped)}: layers {geometry(grouped)['n_layers']}, "
            f"KV heads {geometry(grouped)['n_kv_heads']}, "
            f"head_dim {geometry(grouped)['d_head']}, {FORMATS[formats[0]]}",
            f"{title(latent)}: layers {shape['layers']}, {row} numbers a layer, "
            f"{FORMATS[formats[1]]}",
        ),
        proof=Proof({"model": grouped, "kv": formats[0], "vs": latent}, page="kv_sizing"),
    )


def absorbed_intensity(rng: Random) -> Drawn:
    """FLOP a byte of decode's attention over a latent, with the up-projections absorbed."""
    model, dtype = rng.choice(LATENT), rng.choice(tuple(FORMATS))
    shape, width = _shape(model), 1 if dtype == "fp8" else 2
    right = float(calc("arithmetic_intensity_attention_decode", model=model, dtype=dtype))
    rates = {
        "right": right,
        "one_head": right / shape["heads"],
        "scores_alone": 2 * shape["heads"] / width,
        "no_sharing": 2 / width,
        "other_format": right * (0.5 if dtype == "fp8" else 2),
    }
    row = shape["latent"] + shape["rope"]
    return Drawn(
        values={
            **shape,
            "model": title(model),
            "format": FORMATS[dtype],
            "row": row,
            "flops": whole(2 * shape["heads"] * (row + shape["latent"])),
            "bytes": whole(row * width),
            "right": three(right),
        },
        answers={key: Answer(f"{three(value)} FLOP/B") for key, value in rates.items()},
        sign=f"{model} {dtype}",
        drawn=title(model),
        given=(
            f"heads {shape['heads']}",
            f"latent {shape['latent']}",
            f"rotary key {shape['rope']}",
            f"cache in {FORMATS[dtype]}",
        ),
        proof=Proof(
            {"model": model, "kv": dtype, "w": "fp8", "roofs": "h200-sxm:bf16"}, page="roofline"
        ),
    )
