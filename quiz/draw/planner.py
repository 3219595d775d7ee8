"""Planning: what is left of a GPU for the cache, how many GPUs it takes, and what they cost."""

from __future__ import annotations

from random import Random
from typing import Any

from core.sizing import gpus
from quiz.draw.common import calc, counted, gb, gpu_title, three, title
from quiz.items import Answer, Drawn, Proof

LARGE = ("h100-sxm5", "h200-sxm", "a100-sxm4-80", "b200-sxm")
MODELS = ("llama-3.1-8b", "qwen3-8b", "mistral-small-3", "qwen3-32b")
FORMATS = {"bf16": "BF16", "fp8": "FP8"}
OVERHEAD = 5_000_000_000
"""What the runtime takes beside weights and pool, as the page on numbers has it."""


def _pool(gpu: str, model: str, weights: str, util: float, tp: int = 1) -> float:
    """Bytes of one GPU's pool."""
    args: dict[str, Any] = {"gpu": gpu, "model": model, "weight_dtype": weights, "tp": tp}
    args |= {"gpu_memory_utilization": util, "overhead_bytes": OVERHEAD}
    return float(calc("kv_pool_bytes_per_gpu", **args))


def _weights(model: str, weights: str) -> float:
    return float(calc("weight_bytes", model=model, dtype=weights))


def _link(gpu: str, model: str, weights: str, **more: Any) -> dict[str, Any]:
    return {"gpu": gpu, "model": model, "w": weights if weights == "fp8" else "checkpoint", **more}


def pool(rng: Random) -> Drawn:
    """Bytes of a GPU that are left for blocks."""
    gpu, model, weights = rng.choice(LARGE), rng.choice(MODELS[:3]), rng.choice(tuple(FORMATS))
    util = rng.choice((80, 85, 90, 92))
    held = _weights(model, weights)
    seen = gpus.get(gpu).visible_bytes
    amounts = {
        "right": _pool(gpu, model, weights, util / 100),
        "all_of_it": seen - held - OVERHEAD,
        "no_weights": seen * util / 100 - OVERHEAD,
        "of_the_rest": (seen - held - OVERHEAD) * util / 100,
        "unused_share": seen * (1 - util / 100),
    }
    return Drawn(
        values={
            "gpu": gpu_title(gpu),
            "model": title(model),
            "seen": gb(seen),
            "held": gb(held),
            "util": f"{util}\u2009%",
            "allowed": gb(seen * util / 100),
            "right": gb(amounts["right"]),
        },
        answers={key: Answer(gb(value)) for key, value in amounts.items()},
        sign=f"{gpu} {model} {weights} {util}",
        drawn=f"{title(model)} on one {gpu_title(gpu)}",
        given=(
            f"memory {gb(seen)}",
            f"gpu_memory_utilization {util / 100:.2f}",
            f"weights {gb(held)}",
            f"runtime {gb(OVERHEAD)}",
        ),
        proof=Proof(_link(gpu, model, weights, tp=1, r=1, util=util), page="capacity_planner"),
    )


def two_gpus(rng: Random) -> Drawn:
    """Sequences on two GPUs, when one holds so many beside its weights."""
    gpu, model = rng.choice(LARGE[:3]), rng.choice(("mistral-small-3", "qwen3-32b"))
    weights, tokens = ("fp8" if model == "qwen3-32b" else "bf16"), 1024 * rng.choice((2, 4, 8))
    args = {"model": model, "tokens": tokens, "dtype": "bf16"}
    alone, split = _pool(gpu, model, weights, 0.92), _pool(gpu, model, weights, 0.92, tp=2)
    one = int(calc("max_streams", per_gpu_pool_bytes=alone, **args))
    two = int(calc("max_streams", per_gpu_pool_bytes=split, tp=2, **args))
    sequence = int(calc("kv_bytes_sequence", **args))
    held = {
        "right": two,
        "twice": 2 * one,
        "left_whole": int(calc("max_streams", per_gpu_pool_bytes=split, **args)),
        "same": one,
        "no_weights": int(2 * 0.92 * gpus.get(gpu).visible_bytes) // sequence,
    }
    return Drawn(
        values={
            "gpu": gpu_title(gpu),
            "model": title(model),
            "tokens": f"{tokens:,}",
            "one": one,
            "right": two,
            "weights": gb(_weights(model, weights)),
            "alone": gb(alone),
            "split": gb(split),
            "sequence": gb(sequence),
        },
        answers={key: Answer(f"{value:,} sequences") for key, value in held.items()},
        sign=f"{gpu} {model} {tokens}",
        drawn=f"{title(model)} on {gpu_title(gpu)}",
        given=(
            f"weights {gb(_weights(model, weights))}",
            f"pool of one GPU alone {gb(alone)}",
            f"a sequence {gb(sequence)}",
        ),
        proof=Proof(
            _link(gpu, model, weights, tp=2, r=1, kv="bf16", ctx=tokens, sys=0),
            page="capacity_planner",
        ),
    )


def whole_replicas(rng: Random) -> Drawn:
    """GPUs that hold so many users, in whole replicas."""
    each, users = rng.choice((2, 4, 8)), 10 * rng.randrange(12, 80)
    streams = rng.randrange(30, 90)
    right = int(
        calc("gpus_for_users", users=users, streams_per_replica=streams, gpus_per_replica=each)
    )
    answers = {
        "right": right,
        "replicas": right // each,
        "rounded_down": users // streams * each,
        "by_gpu": -(-users * each // streams),
        "one_replica": each,
    }
    return Drawn(
        values={
            "users": users,
            "streams": streams,
            "each": each,
            "right": right,
            "replicas": right // each,
            "exact": f"{users / streams:.2f}",
        },
        answers={key: Answer(counted(value, "GPU")) for key, value in answers.items()},
        sign=f"{users} {streams} {each}",
        given=(f"users {users}", f"a replica holds {streams}", f"GPUs of a replica {each}"),
        proof=Proof({"users": users, "tp": each}, page="capacity_planner"),
    )


def price(rng: Random) -> Drawn:
    """The price of a million tokens."""
    hour, each = rng.choice((1.5, 2.0, 2.5, 3.0, 4.0)), rng.choice((2, 4, 8))
    rate, busy = 500 * rng.randrange(2, 13), rng.choice((40, 50, 60, 80))
    args = {"price_per_gpu_hour": hour, "tokens_per_s": rate, "n_gpu": each}
    right = float(calc("cost_per_million_tokens", utilization=busy / 100, **args))
    full = float(calc("cost_per_million_tokens", **args))
    answers = {
        "right": right,
        "always_busy": full,
        "one_gpu": right / each,
        "turned_round": full * busy / 100,
    }
    return Drawn(
        values={
            "hour": f"${hour:.2f}",
            "each": each,
            "rate": f"{rate:,}",
            "busy": f"{busy}\u2009%",
            "made": f"{three(rate * 3600 * busy / 100 / 1e6)} million",
            "cost": f"${hour * each:.2f}",
            "right": f"${right:,.2f}",
        },
        answers={key: Answer(f"${value:,.2f}") for key, value in answers.items()},
        sign=f"{hour} {each} {rate} {busy}",
        given=(
            f"a GPU hour ${hour:.2f}",
            f"GPUs {each}",
            f"{rate:,} tok/s",
            f"busy {busy}\u2009%",
        ),
        proof=Proof({"price": hour, "tp": each}, page="capacity_planner"),
    )


def utilization(rng: Random) -> Drawn:
    """How much a pool grows when the engine may use more of the memory."""
    gpu, model, weights = rng.choice(LARGE), rng.choice(MODELS[:3]), rng.choice(tuple(FORMATS))
    low = rng.choice((80, 82, 85))
    high = low + rng.choice((5, 6, 8, 10))
    before, after = (_pool(gpu, model, weights, one / 100) for one in (low, high))
    amounts = {
        "right": after - before,
        "of_the_pool": before * (high - low) / 100,
        "in_step": before * (high / low - 1),
        "all_of_it": after,
        "less_weights": abs(after - _weights(model, weights)),
    }
    return Drawn(
        values={
            "gpu": gpu_title(gpu),
            "model": title(model),
            "low": f"{low / 100:.2f}",
            "high": f"{high / 100:.2f}",
            "points": f"{high - low}\u2009%",
            "seen": gb(gpus.get(gpu).visible_bytes),
            "before": gb(before),
            "after": gb(after),
        },
        answers={key: Answer(gb(value)) for key, value in amounts.items()},
        sign=f"{gpu} {model} {weights} {low} {high}",
        drawn=f"{title(model)} on one {gpu_title(gpu)}",
        given=(
            f"memory {gb(gpus.get(gpu).visible_bytes)}",
            f"weights {gb(_weights(model, weights))}",
            f"pool at {low / 100:.2f}: {gb(before)}",
        ),
        proof=Proof(_link(gpu, model, weights, tp=1, r=1, util=high), page="capacity_planner"),
    )


def lighter_weights(rng: Random) -> Drawn:
    """Sequences more when the weights are kept in FP8."""
    gpu = rng.choice(("h100-sxm5", "h200-sxm"))
    model, tokens = rng.choice(MODELS[:3]), 1024 * rng.choice((2, 4, 8))
    args = {"model": model, "tokens": tokens}
    heavy, light = _pool(gpu, model, "bf16", 0.92), _pool(gpu, model, "fp8", 0.92)
    before = int(calc("max_streams", per_gpu_pool_bytes=heavy, **args))
    after = int(calc("max_streams", per_gpu_pool_bytes=light, **args))
    both = int(calc("max_streams", per_gpu_pool_bytes=light, dtype="fp8", **args))
    answers = {
        "right": after - before,
        "doubled": before,
        "nothing": 0,
        "cache_too": both - before,
        "all_of_them": after,
    }
    freed = _weights(model, "bf16") - _weights(model, "fp8")
    return Drawn(
        values={
            "gpu": gpu_title(gpu),
            "model": title(model),
            "tokens": f"{tokens:,}",
            "before": f"{before:,}",
            "after": f"{after:,}",
            "right": f"{after - before:,}",
            "freed": gb(freed),
            "sequence": gb(calc("kv_bytes_sequence", **args)),
        },
        answers={key: Answer(f"{value:,} sequences") for key, value in answers.items()},
        sign=f"{gpu} {model} {tokens}",
        drawn=f"{title(model)} on one {gpu_title(gpu)}",
        given=(
            f"weights {gb(_weights(model, 'bf16'))} in BF16",
            f"a sequence {gb(calc('kv_bytes_sequence', **args))}",
            f"{before:,} sequences today",
        ),
        proof=Proof(
            _link(gpu, model, "fp8", tp=1, r=1, kv="bf16", ctx=tokens, sys=0),
            page="capacity_planner",
        ),
    )
