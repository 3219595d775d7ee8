"""The roofline: where it bends, what it allows, and what a step reads and takes."""

from __future__ import annotations

from random import Random

from core.sizing import catalog, gpus
from quiz.draw.common import (
    FORMATS,
    GPUS,
    alike,
    calc,
    geometry,
    gpu_title,
    grouped_models,
    misread,
    ms,
    percent,
    size,
    three,
    title,
    whole,
)
from quiz.items import Answer, Drawn, Proof

DTYPES = {"bf16": "BF16", "fp8": "FP8"}


def _sheet(gpu: str, dtype: str = "bf16") -> tuple[str, str]:
    spec = gpus.get(gpu)
    return (
        f"memory {spec.bandwidth / 1e12:.4g} TB/s",
        f"dense {DTYPES[dtype]} {spec.peaks[dtype] / 1e12:,.5g} TFLOP/s",
    )


def _roofs() -> list[tuple[str, str]]:
    return [
        (name, dtype) for name in gpus.names() for dtype in DTYPES if dtype in gpus.get(name).peaks
    ]


def ridge(rng: Random) -> Drawn:
    """FLOP a byte at which the roof bends."""
    gpu, dtype = rng.choice(_roofs())
    spec = gpus.get(gpu)
    right = float(calc("ridge_point", gpu=gpu, dtype=dtype))
    answers = {
        "right": right,
        "sparse": 2 * right,
        "half": right / 2,
        "peak_alone": spec.peaks[dtype] / 1e12,
    }
    return Drawn(
        values={
            "gpu": gpu_title(gpu),
            "dtype": DTYPES[dtype],
            "peak": f"{spec.peaks[dtype] / 1e12:,.5g}",
            "bandwidth": f"{spec.bandwidth / 1e12:.4g}",
            "right": f"{right:,.1f}",
        },
        answers={key: Answer(f"{value:,.1f} FLOP/B") for key, value in answers.items()},
        sign=f"{gpu} {dtype}",
        drawn=gpu_title(gpu),
        given=_sheet(gpu, dtype),
        proof=Proof({"roofs": f"{gpu}:{dtype}"}, page="roofline"),
    )


def attainable(rng: Random) -> Drawn:
    """TFLOP/s that the roof allows at an intensity."""
    gpu, dtype = rng.choice(_roofs())
    spec = gpus.get(gpu)
    bend = float(calc("ridge_point", gpu=gpu, dtype=dtype))
    intensity = max(2, round(bend * rng.choice((0.02, 0.05, 0.1, 0.2, 0.3, 0.7, 1.6, 2.5))))
    right = float(calc("attainable_flops", gpu=gpu, intensity=intensity, dtype=dtype))
    rates = {
        "right": right,
        "peak": spec.peaks[dtype],
        "slope": intensity * spec.bandwidth,
        "doubled": 2 * right,
        "halved": right / 2,
    }
    below = intensity < bend
    return Drawn(
        values={
            "gpu": gpu_title(gpu),
            "dtype": DTYPES[dtype],
            "intensity": intensity,
            "ridge": f"{bend:,.0f}",
            "bandwidth": f"{spec.bandwidth / 1e12:.4g}",
            "side": "left" if below else "right",
            "limit": "memory sets the pace" if below else "the peak is the limit",
            "right": f"{three(right / 1e12)} TFLOP/s",
        },
        answers={key: Answer(f"{three(value / 1e12)} TFLOP/s") for key, value in rates.items()},
        sign=f"{gpu} {dtype} {intensity}",
        drawn=gpu_title(gpu),
        given=(*_sheet(gpu, dtype), f"intensity {intensity} FLOP/B"),
        proof=Proof({"roofs": f"{gpu}:{dtype}"}, page="roofline"),
    )


def share(rng: Random) -> Drawn:
    """The share of the peak that a batch lets the matrices reach."""
    gpu = rng.choice([name for name in gpus.names() if "bf16" in gpus.get(name).peaks])
    bend = float(calc("ridge_point", gpu=gpu))
    batch = max(1, round(bend * rng.uniform(0.02, 0.45)))

    def of(weight_bytes: int) -> float:
        return float(calc("roofline_utilization", gpu=gpu, batch=batch, weight_bytes=weight_bytes))

    shares = {"right": of(2), "busy": 1.0, "one_flop": of(4), "one_byte": of(1)}
    return Drawn(
        values={
            "gpu": gpu_title(gpu),
            "batch": batch,
            "ridge": f"{bend:,.0f}",
            "right": percent(shares["right"]),
        },
        answers={key: Answer(percent(value)) for key, value in shares.items()},
        sign=f"{gpu} {batch}",
        drawn=gpu_title(gpu),
        given=(*_sheet(gpu), f"batch {batch}", "weights in BF16"),
        proof=Proof({"roofs": f"{gpu}:bf16", "b": batch}, page="roofline"),
    )


def kv_read(rng: Random) -> Drawn:
    """Bytes of cache that a decode step of a batch reads."""
    model, dtype = rng.choice(grouped_models()), rng.choice(tuple(FORMATS))
    batch, context = rng.choice((8, 16, 24, 32, 48, 64)), 1024 * rng.choice((1, 2, 4, 8))
    shape = geometry(model)

    def of(**inputs: int | str | dict[str, object]) -> int:
        return int(calc("decode_kv_bytes", context=context, dtype=dtype, **inputs))

    right = of(model=model, batch=batch)
    amounts = {
        "right": right,
        "one_sequence": of(model=model, batch=1),
        "query_heads": of(config=misread(model, shape["n_heads"]), batch=batch),
        "newest_only": right // context,
        "keys_only": right // 2,
    }
    return Drawn(
        values={
            **shape,
            "model": title(model),
            "dtype": FORMATS[dtype],
            "batch": batch,
            "context": whole(context),
            "group": f"{shape['n_heads'] / shape['n_kv_heads']:g}",
        },
        answers={key: size(value) for key, value in amounts.items()},
        sign=f"{model} {dtype} {batch} {context}",
        drawn=title(model),
        given=(
            f"layers {shape['n_layers']}",
            f"query heads {shape['n_heads']}",
            f"KV heads {shape['n_kv_heads']}",
            f"head_dim {shape['d_head']}",
            f"batch {batch}",
            f"context {context:,} tokens",
        ),
        proof=Proof({"model": model, "kv": dtype, "n": batch, "ctx": context}, page="kv_sizing"),
    )


def _fits(model: str, gpu: str) -> bool:
    """Whether one GPU holds it with room for caches, and each token visits all of it."""
    spec = catalog.get(model)
    held = float(calc("weight_bytes", model=model)) < 0.7 * gpus.get(gpu).visible_bytes
    return held and spec.params == spec.active_params


def step_time(rng: Random) -> Drawn:
    """The least time of a decode step of a batch."""
    gpu = rng.choice(tuple(GPUS))
    model = rng.choice([one for one in grouped_models() if _fits(one, gpu)])
    batch, context = rng.choice((8, 16, 24, 32)), 1024 * rng.choice((2, 4, 8))
    spec = gpus.get(gpu)
    args = {"model": model, "gpu": gpu, "context": context}
    alone = float(calc("decode_step_time", **args))
    weights = float(calc("decode_weight_bytes", model=model))
    caches = float(calc("decode_kv_bytes", model=model, context=context, batch=batch))
    flops = float(calc("decode_flops", model=model, context=context, batch=batch))
    times = {
        "right": float(calc("decode_step_time", batch=batch, **args)),
        "one_by_one": batch * alone,
        "weights_only": weights / spec.bandwidth,
        "one_cache": alone,
        "compute": flops / spec.peaks["bf16"],
    }
    return Drawn(
        values={
            "model": title(model),
            "gpu": GPUS[gpu],
            "batch": batch,
            "context": whole(context),
            "weights": f"{three(weights / 1e9)} GB",
            "caches": f"{three(caches / 1e9)} GB",
            "bandwidth": f"{spec.bandwidth / 1e12:.4g} TB/s",
            "compute": ms(times["compute"]),
        },
        answers={key: Answer(ms(value)) for key, value in times.items()},
        sign=f"{model} {gpu} {batch} {context}",
        drawn=f"{title(model)} on an {GPUS[gpu]}",
        given=(
            f"weights {three(weights / 1e9)} GB",
            f"{batch} caches {three(caches / 1e9)} GB",
            *_sheet(gpu),
        ),
        proof=Proof(
            {"model": model, "b": batch, "ctx": context, "roofs": f"{gpu}:bf16"}, page="roofline"
        ),
    )


def measured_share(rng: Random) -> Drawn:
    """The share of memory bandwidth that a measured decode step reached."""
    gpu = rng.choice(tuple(GPUS))
    model = rng.choice([one for one in grouped_models() if _fits(one, gpu)])
    context = 1024 * rng.choice((1, 2, 4))
    spec = gpus.get(gpu)
    floor = float(calc("decode_step_time", model=model, gpu=gpu, context=context))
    took = round(1000 * floor / rng.uniform(0.35, 0.85), 2)
    weights = float(calc("decode_weight_bytes", model=model))
    caches = float(calc("decode_kv_bytes", model=model, context=context))
    flops = float(calc("decode_flops", model=model, context=context))
    seconds = took / 1000
    right = float(calc("achieved_mbu", model=model, gpu=gpu, seconds=seconds, context=context))
    shares = {
        "right": right,
        "rest": 1 - right,
        "of_the_peak": flops / seconds / spec.peaks["bf16"],
        "one_byte": right / 2,
        "cache_alone": caches / seconds / spec.bandwidth,
    }
    return Drawn(
        values={
            "model": title(model),
            "gpu": GPUS[gpu],
            "context": whole(context),
            "took": f"{took:.2f}",
            "read": f"{three((weights + caches) / 1e9)} GB",
            "rate": f"{three((weights + caches) / seconds / 1e12)} TB/s",
            "bandwidth": f"{spec.bandwidth / 1e12:.4g} TB/s",
        },
        answers={key: Answer(percent(value)) for key, value in shares.items()},
        sign=f"{model} {gpu} {context} {took}",
        drawn=f"{title(model)} on an {GPUS[gpu]}",
        given=(
            f"weights {three(weights / 1e9)} GB",
            f"cache {three(caches / 1e9)} GB",
            f"step {took:.2f} ms",
            *_sheet(gpu),
        ),
        proof=Proof(
            {"model": model, "b": 1, "ctx": context, "roofs": f"{gpu}:bf16"}, page="roofline"
        ),
    )


def crossing(rng: Random) -> Drawn:
    """The prompt length at which attention costs as much as all matrices."""
    model = rng.choice([one for one in grouped_models() if not _experts(one)])
    shape = geometry(model)
    right = float(calc("attention_equals_linear_tokens", model=model))
    lengths = {
        "right": right,
        "no_mask": float(calc("attention_equals_linear_tokens", model=model, causal=False)),
        "kv_heads": right * shape["n_heads"] / shape["n_kv_heads"],
        "hidden": shape["d_model"],
        "one_layer": right * shape["n_layers"],
    }
    params = catalog.get(model).params or 0
    return Drawn(
        values={
            **shape,
            "model": title(model),
            "right": whole(round(right)),
            "params": f"{three(params / 1e9)} billion",
        },
        answers=alike({key: round(value) for key, value in lengths.items()}, "tokens"),
        sign=model,
        drawn=title(model),
        given=(
            f"parameters {params:,}",
            f"layers {shape['n_layers']}",
            f"query heads {shape['n_heads']}",
            f"KV heads {shape['n_kv_heads']}",
            f"head_dim {shape['d_head']}",
            f"hidden {shape['d_model']:,}",
        ),
        proof=Proof({"model": model, "n": min(round(right), 1 << 20)}, page="roofline"),
    )


def _experts(model: str) -> bool:
    spec = catalog.get(model)
    return spec.params != spec.active_params
