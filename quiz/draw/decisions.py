"""Weighing one change against another: what it gains, what it costs, and in which unit."""

from __future__ import annotations

from math import ceil
from random import Random
from typing import Any

from core.sizing import gpus
from quiz.draw.common import GPUS, calc, counted, percent, title, whole
from quiz.draw.figures import gb, share3, times
from quiz.items import Answer, Drawn, Proof


def gpus_to_hold(rng: Random) -> Drawn:
    """GPUs that hold all users at once, in whole replicas."""
    users, each = 10 * rng.randrange(12, 61), rng.randrange(21, 60)
    tp = rng.choice((2, 4, 8))
    answers = {
        "right": calc("gpus_for_users", users=users, streams_per_replica=each, gpus_per_replica=tp),
        "replicas": calc("gpus_for_users", users=users, streams_per_replica=each),
        "broken": ceil(users * tp / each),
        "down": users // each * tp,
        "divided": calc(
            "gpus_for_users", users=users, streams_per_replica=each // tp, gpus_per_replica=tp
        ),
        "each_gpu": calc(
            "gpus_for_users", users=users, streams_per_replica=each * tp, gpus_per_replica=tp
        ),
    }
    replicas = ceil(users / each)
    return Drawn(
        values={
            "users": users,
            "each": each,
            "tp": tp,
            "replicas": replicas,
            "down": users // each,
            "held": users // each * each,
        },
        answers={key: Answer(counted(int(value), "GPU")) for key, value in answers.items()},
        sign=f"{users} {each} {tp}",
        given=(f"users {users} at once", f"a replica runs {each}", f"a replica has {tp} GPUs"),
        proof=Proof({"users": users, "tp": tp, "sys": 0}, page="capacity_planner"),
    )


def room_for_cache(rng: Random) -> Drawn:
    """What one GPU has left for the cache."""
    gpu = rng.choice(("h100-sxm5", "h200-sxm", "a100-sxm4-80"))
    model = rng.choice(("llama-3.1-70b", "qwen2.5-72b", "qwen3-32b"))
    dtype, tp = rng.choice(("bf16", "fp8")), rng.choice((2, 4, 8))
    util, other = rng.choice((88, 90, 92, 95)), rng.choice((3, 4, 5))
    if model != "qwen3-32b" and tp == 2:
        dtype = "fp8"
    inputs: dict[str, Any] = {
        "gpu": gpu,
        "model": model,
        "weight_dtype": dtype,
        "overhead_bytes": other * 1e9,
    }
    pool = "kv_pool_bytes_per_gpu"
    right = float(calc(pool, tp=tp, gpu_memory_utilization=util / 100, **inputs))
    memory = gpus.get(gpu).visible_bytes
    shard = memory * util / 100 - other * 1e9 - right
    amounts = {
        "right": right,
        "all_of_it": calc(pool, tp=tp, gpu_memory_utilization=1.0, **inputs),
        "no_weights": right + shard,
        "of_the_rest": (memory - shard - other * 1e9) * util / 100,
        "whole_model": right - (tp - 1) * shard,
        "no_overhead": right + other * 1e9,
    }
    return Drawn(
        values={
            "gpu": GPUS[gpu],
            "model": title(model),
            "tp": tp,
            "util": util,
            "other": other,
            "memory": gb(memory),
            "budget": gb(memory * util / 100),
            "shard": gb(shard),
        },
        answers={key: Answer(gb(value)) for key, value in amounts.items() if value > 0},
        sign=f"{gpu} {model} {dtype} {tp} {util} {other}",
        drawn=f"{title(model)} on {tp} {GPUS[gpu]}",
        given=(
            f"the driver shows {gb(memory)} a GPU",
            f"gpu_memory_utilization {util / 100:.2f}",
            f"weights {gb(tp * shard)}, split over {tp} GPUs",
            f"other {other} GB a GPU",
        ),
        proof=Proof(
            {"gpu": gpu, "model": model, "w": dtype, "tp": tp, "util": util},
            page="capacity_planner",
        ),
    )


def prefill_saved(rng: Random) -> Drawn:
    """The share of prompt tokens that hits save."""
    shared, unique = 128 * rng.randrange(4, 25), 128 * rng.randrange(1, 17)
    hit = rng.choice((30, 40, 50, 60, 70, 80, 90))
    at = {"S": shared, "U": unique}
    shares = {
        "right": calc("prefill_reduction", h=hit / 100, **at),
        "hit_rate": hit / 100,
        "each_hits": calc("prefill_reduction", h=1.0, **at),
        "unique_too": calc("prefill_reduction", S=unique, U=shared, h=hit / 100),
        "what_is_left": 1 - calc("prefill_reduction", h=hit / 100, **at),
    }
    return Drawn(
        values={
            "shared": whole(shared),
            "unique": whole(unique),
            "all": whole(shared + unique),
            "hit": hit,
            "saved": whole(round(shared * hit / 100)),
            "part": percent(shared / (shared + unique)),
        },
        answers={key: Answer(percent(value)) for key, value in shares.items()},
        sign=f"{shared} {unique} {hit}",
        given=(
            f"shared prefix {shared:,} tokens",
            f"unique {unique:,} tokens",
            f"{hit} % of the requests find the prefix",
        ),
        proof=Proof({"ctx": shared + unique, "sys": shared, "hit": hit}, page="capacity_planner"),
    )


def two_together(rng: Random) -> Drawn:
    """By what factor a token shrinks when heads are grouped and numbers narrowed."""
    group, bits = rng.choice((2, 4, 5, 6, 7, 8, 12, 16)), rng.choice((8, 4))
    kv_heads = rng.choice((4, 8))
    base = {"n_layers": 32, "d_head": 128}
    wide = {"attention": "mha", "n_kv_heads": group * kv_heads, "dtype": "bf16", **base}
    narrow = {"attention": "gqa", "n_kv_heads": kv_heads, **base}
    dtype = {8: "fp8", 4: "int4"}[bits]
    ratios = {
        "right": calc("kv_ratio", a=wide, b={**narrow, "dtype": dtype}),
        "added": group + 16 / bits,
        "heads_alone": calc("kv_ratio", a=wide, b={**narrow, "dtype": "bf16"}),
        "bits_alone": 16 / bits,
        "heads_kept": kv_heads * 16 / bits,
    }
    return Drawn(
        values={
            "query": group * kv_heads,
            "kv": kv_heads,
            "bits": bits,
            "group": group,
            "width": 16 // bits,
        },
        answers={key: Answer(times(value)) for key, value in ratios.items()},
        sign=f"{group} {kv_heads} {bits}",
        given=(
            f"KV heads {group * kv_heads} before, {kv_heads} after",
            f"bits 16 before, {bits} after",
            "scales not counted",
        ),
        proof=Proof({"claim": "B083"}, page="claims_ledger"),
    )


def last_block(rng: Random) -> Drawn:
    """The share of a sequence's bytes that its last block leaves empty on average."""
    size, tokens = rng.choice((8, 16, 32, 64, 128, 256)), rng.choice((200, 400, 800, 1500, 3000))
    at: dict[str, Any] = {"model": "llama-3.1-70b", "dtype": "fp8"}
    empty = float(calc("expected_last_block_waste", block_size=size, tokens=None, **at))
    kept = float(calc("kv_bytes_sequence", tokens=tokens, **at))
    shares = {
        "right": empty / kept,
        "at_worst": 2 * empty / kept,
        "of_the_block": (size - 1) / 2 / size,
        "one_slot": 1 / tokens,
        "reserved": 4096 / tokens - 1,
    }
    return Drawn(
        values={
            "size": size,
            "tokens": whole(tokens),
            "empty": f"{(size - 1) / 2:g}",
            "worst": size - 1,
        },
        answers={key: Answer(share3(value)) for key, value in shares.items()},
        sign=f"{size} {tokens}",
        given=(
            f"block_size {size}",
            f"sequences of {tokens:,} tokens on average",
            "max_model_len 4,096",
        ),
        proof=Proof({"bs": size, "ctx": tokens, "n": 1, "max": 4096}, page="kv_sizing"),
    )
