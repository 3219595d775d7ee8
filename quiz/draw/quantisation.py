"""A cache in fewer bits: what its scales cost, what the bytes gain, and what an outlier takes."""

from __future__ import annotations

from random import Random

from core.sizing import catalog, gpus
from quiz.draw.common import GPUS, calc, counted, geometry, ms, percent, title, whole
from quiz.draw.figures import GIB, MODELS, exact
from quiz.items import Answer, Drawn, Proof

WIDTHS = {"int4": "half a byte", "int8": "one byte", "fp8": "one byte"}
NAMES = {"int4": "INT4", "int8": "INT8", "fp8": "FP8"}


def scaled_token(rng: Random) -> Drawn:
    """Bytes of a token in a quantised cache with a scale for each token and head."""
    model, dtype = rng.choice(MODELS), rng.choice(tuple(WIDTHS))
    shape = geometry(model)
    scaled = "kv_bytes_per_token_quantized"
    right = int(calc(scaled, model=model, dtype=dtype, scale="per_token_head"))
    plain = int(calc("kv_bytes_per_token", model=model, dtype=dtype))
    amounts = {
        "right": right,
        "no_scales": plain,
        "one_scale": plain + (right - plain) // 2,
        "per_layer": calc(scaled, model=model, dtype=dtype, scale="per_token"),
        "one_layer": calc(scaled, model=model, dtype=dtype, scale="per_token_head", scope="layer"),
        "sixteen": calc("kv_bytes_per_token", model=model, dtype="bf16"),
    }
    return Drawn(
        values={
            **shape,
            "model": title(model),
            "format": NAMES[dtype],
            "width": WIDTHS[dtype],
            "scales": whole(2 * shape["n_layers"] * shape["n_kv_heads"]),
            "extra": whole(right - plain),
            "plain": whole(plain),
        },
        answers={key: exact(value) for key, value in amounts.items()},
        sign=f"{model} {dtype}",
        drawn=title(model),
        given=(
            f"layers {shape['n_layers']}",
            f"KV heads {shape['n_kv_heads']}",
            f"head_dim {shape['d_head']}",
            f"{NAMES[dtype]}, {WIDTHS[dtype]} a number",
            "scale 2 B, one a token and head, for K and for V",
        ),
        proof=Proof({"model": model, "kv": f"{dtype}_per_token_head"}, page="kv_sizing"),
    )


def scaled_saving(rng: Random) -> Drawn:
    """The share that INT4 with scales and zero points saves against 16 bits."""
    heads, dim = rng.choice((1, 2, 4, 8, 16)), rng.choice((64, 80, 96, 128, 192, 256))
    scale, zero = rng.choice(((2, 1), (2, 2), (4, 1), (4, 4)))

    def of(dtype: str, **scales: int) -> int:
        shape = {"n_layers": 32, "n_kv_heads": heads, "d_head": dim}
        config = {
            "model_type": "llama",
            "num_hidden_layers": shape["n_layers"],
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "head_dim": dim,
            "hidden_size": heads * dim,
            "intermediate_size": 4 * heads * dim,
            "vocab_size": 32000,
        }
        if not scales:
            return int(calc("kv_bytes_per_token", config=config, dtype=dtype))
        scaled = "kv_bytes_per_token_quantized"
        return int(calc(scaled, config=config, dtype=dtype, scale="per_token_head", **scales))

    full, right = of("bf16"), of("int4", scale_bytes=scale, zero_bytes=zero)
    shares = {
        "right": 1 - right / full,
        "payload": 1 - of("int4") / full,
        "no_zero": 1 - of("int4", scale_bytes=scale) / full,
        "what_is_left": right / full,
        "of_eight": 1 - right / of("int8"),
    }
    return Drawn(
        values={
            "dim": dim,
            "heads": heads,
            "scale": scale,
            "zero": f"{zero} byte{'' if zero == 1 else 's'}",
            "full": 2 * dim,
            "packed": dim // 2,
            "each": scale + zero,
            "row": dim // 2 + scale + zero,
        },
        answers={key: Answer(percent(value)) for key, value in shares.items()},
        sign=f"{heads} {dim} {scale} {zero}",
        given=(
            f"KV heads {heads}",
            f"head_dim {dim}",
            f"scale {scale} B and zero point {zero} B a token and head, for K and for V",
        ),
        proof=Proof({"claim": "B077"}, page="claims_ledger"),
    )


def only_the_cache(rng: Random) -> Drawn:
    """Sequences that fit when the cache goes to FP8 and the weights stay in BF16."""
    model = rng.choice([name for name in MODELS if name != "llama-3.1-405b"])
    weights = round(float(calc("weight_bytes", model=model)) / GIB, 1)
    overhead, tokens = rng.choice((4, 6, 8, 12)), 1024 * rng.choice((2, 4, 8))
    total = round(weights * rng.choice((1.5, 1.75, 2, 2.5, 3))) + 2 * overhead

    def fits(dtype: str, taken: float) -> int:
        room = {"total_gib": total, "weights_gib": taken, "overhead_gib": overhead}
        return int(calc("max_streams", model=model, tokens=tokens, dtype=dtype, **room))

    before = fits("bf16", weights)
    answers = {
        "right": fits("fp8", weights),
        "weights_too": fits("fp8", weights / 2),
        "unchanged": before,
        "halved": before // 2,
        "no_weights": fits("fp8", 0),
    }
    return Drawn(
        values={
            "model": title(model),
            "total": total,
            "weights": f"{weights:g}",
            "overhead": overhead,
            "tokens": whole(tokens),
            "pool": f"{total - weights - overhead:.1f}",
            "token": whole(calc("kv_bytes_per_token", model=model, dtype="fp8")),
            "right": whole(answers["right"]),
        },
        answers={key: Answer(counted(value, "sequence")) for key, value in answers.items()},
        sign=f"{model} {total} {weights} {overhead} {tokens}",
        drawn=title(model),
        given=(
            f"memory {total} GiB",
            f"weights {weights:g} GiB in BF16",
            f"other {overhead} GiB",
            f"{tokens:,} tokens each",
            f"cache {calc('kv_bytes_per_token', model=model):,} B a token in BF16",
        ),
        proof=Proof({"claim": "L068"}, page="claims_ledger"),
    )


def fixed_scales(rng: Random) -> Drawn:
    """Bytes of scales that are fixed at loading, one for each KV head's keys and values."""
    model, tokens = rng.choice(MODELS), 1024 * rng.choice((1, 2, 4, 8))
    shape = geometry(model)
    online = calc(
        "kv_bytes_per_token_quantized", model=model, dtype="fp8", scale="per_token_head"
    ) - calc("kv_bytes_per_token", model=model, dtype="fp8")
    right = int(calc("kv_static_scale_bytes", model=model, scale="per_head_static"))
    amounts = {
        "right": right,
        "each_token": online * tokens,
        "keys_only": right // 2,
        "one_layer": right // shape["n_layers"],
        "one_a_tensor": calc("kv_static_scale_bytes", model=model),
    }
    return Drawn(
        values={**shape, "model": title(model), "tokens": whole(tokens), "right": whole(right)},
        answers={key: Answer(f"{whole(value)} B") for key, value in amounts.items()},
        sign=f"{model} {tokens}",
        drawn=title(model),
        given=(
            f"layers {shape['n_layers']}",
            f"KV heads {shape['n_kv_heads']}",
            "scale 2 B, fixed when the model is loaded",
            f"tokens {tokens:,}",
        ),
        proof=Proof({"claim": "B072"}, page="claims_ledger"),
    )


def outlier_levels(rng: Random) -> Drawn:
    """Integers of INT8 that an ordinary head uses when one scale follows an outlier head."""
    ordinary = rng.randrange(2, 10)
    ratio = rng.choice((3, 4, 5, 6, 8, 9, 10, 12, 14, 16, 20))
    most = round(127 / ratio)  # 127 / ratio is never half way between two integers
    counts = {
        "right": 2 * most + 1,
        "own_scale": 255,
        "one_sign": most + 1,
        "lost": 255 - (2 * most + 1),
        "one_bit": 127,
    }
    return Drawn(
        values={
            "ordinary": ordinary,
            "outlier": ordinary * ratio,
            "ratio": ratio,
            "most": most,
            "right": counts["right"],
        },
        answers={key: Answer(f"{value} integers") for key, value in counts.items()},
        sign=f"{ordinary} {ratio}",
        given=(
            f"most heads within ±{ordinary}",
            f"one head within ±{ordinary * ratio}",
            "INT8, −127 to 127",
            "one scale for all heads",
        ),
        proof=Proof({"claim": "B133"}, page="claims_ledger"),
    )


def narrower_cache(rng: Random) -> Drawn:
    """The least time of a decode step once the cache alone is in FP8."""
    gpu = rng.choice(tuple(GPUS))
    model = rng.choice(("llama-3.1-8b", "qwen2.5-7b", "qwen3-8b", "mistral-7b"))
    batch, context = 2 ** rng.randrange(3, 7), 1024 * rng.choice((2, 4, 8))
    args = {"model": model, "gpu": gpu, "batch": batch, "context": context}
    before = calc("decode_step_time", **args)
    spec = gpus.get(gpu)
    cache = {
        dtype: float(
            calc("decode_kv_bytes", model=model, context=context, dtype=dtype, batch=batch)
        )
        for dtype in ("bf16", "fp8")
    }
    seconds = {
        "right": calc("decode_step_time", kv="fp8", **args),
        "unchanged": before,
        "cache_alone": cache["fp8"] / spec.bandwidth,
        "cache_gone": calc("decode_weight_bytes", model=model, batch=batch) / spec.bandwidth,
        "weights_too": calc("decode_step_time", kv="fp8", weights="fp8", **args),
    }
    weights = float(calc("decode_weight_bytes", model=model, batch=batch))
    return Drawn(
        values={
            "model": title(model),
            "gpu": GPUS[gpu],
            "batch": batch,
            "context": whole(context),
            "weights": f"{weights / 1e9:.1f} GB",
            "cache": f"{cache['bf16'] / 1e9:.1f} GB",
            "halfcache": f"{cache['fp8'] / 1e9:.1f} GB",
            "before": ms(before),
        },
        answers={key: Answer(ms(value)) for key, value in seconds.items()},
        sign=f"{model} {gpu} {batch} {context}",
        drawn=f"{title(model)} on an {GPUS[gpu]}",
        given=(
            f"weights {weights / 1e9:.1f} GB in BF16",
            f"cache {cache['bf16'] / 1e9:.1f} GB in BF16",
            f"memory {spec.bandwidth / 1e12:.3g} TB/s",
            f"{batch} sequences of {context:,} tokens",
            f"parameters {catalog.get(model).params:,}",
        ),
        proof=Proof(
            {
                "model": model,
                "w": "bf16",
                "kv": "fp8",
                "roofs": f"{gpu}:bf16",
                "b": batch,
                "ctx": context,
            },
            page="roofline",
        ),
    )
