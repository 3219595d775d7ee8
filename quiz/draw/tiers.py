"""Moving a cache out of GPU memory and back: how long it takes, and when it is worth it."""

from __future__ import annotations

from math import ceil, floor
from random import Random
from typing import Any

from core.sizing import gpus
from quiz.draw.common import FORMATS, calc, counted, geometry, title, whole
from quiz.draw.figures import MODELS, gb, three, times
from quiz.items import Answer, Drawn, Proof

DENSE = tuple(name for name in MODELS if name != "glm-4.5-air")
LARGE = ("llama-3.1-70b", "qwen2.5-72b", "qwen3-32b")
HBM_GB = 80
RULE_OF_THUMB = 1024


def _millis(seconds: float) -> Answer:
    return Answer(f"{three(1000 * float(seconds))} ms")


def _micros(seconds: float) -> str:
    return f"{three(1e6 * seconds)} µs"


def tier_facts(_: Random) -> Drawn:
    """The two rates that the sentences on overlapping name."""
    pcie = float(calc("pcie_bandwidth", gen=5)) / 1e9
    hbm = gpus.get("h100-sxm5").bandwidth / 1e12
    return Drawn({"pcie": f"{pcie:.0f} GB/s", "hbm": f"{hbm:.2f} TB/s"}, {}, "")


def way_back(rng: Random) -> Drawn:
    """Milliseconds until a sequence's cache is back over one link."""
    model, dtype = rng.choice(DENSE), rng.choice(tuple(FORMATS))
    tokens, rate = 500 * rng.randrange(2, 33), rng.choice((16, 20, 24, 25, 40, 48, 50))
    moved = {"model": model, "tokens": tokens, "dtype": dtype}
    size = int(calc("kv_bytes_sequence", **moved))
    seconds = {
        "right": calc("kv_transfer_time", bandwidth=rate * 1e9, **moved),
        "both_ways": calc("kv_transfer_time", bandwidth=2e9 * rate, **moved),
        "round_trip": 2 * calc("kv_transfer_time", bandwidth=rate * 1e9, **moved),
        "mixed_units": size / 2**30 / rate,
        "one_layer": size / geometry(model)["n_layers"] / (rate * 1e9),
    }
    return Drawn(
        values={
            "model": title(model),
            "format": FORMATS[dtype],
            "tokens": whole(tokens),
            "rate": rate,
            "twice": 2 * rate,
            "size": gb(size),
            "gib": f"{three(size / 2**30)} GiB",
            "layers": geometry(model)["n_layers"],
        },
        answers={key: _millis(value) for key, value in seconds.items()},
        sign=f"{model} {dtype} {tokens} {rate}",
        drawn=title(model),
        given=(
            f"cache {size // tokens:,} B a token",
            f"tokens {tokens:,}",
            f"link {rate} GB/s each way",
        ),
        proof=Proof(
            {"model": model, "kv": dtype, "ctx": tokens, "n": 1, "of": "all"}, page="kv_sizing"
        ),
    )


def again_or_back(rng: Random) -> Drawn:
    """How many times as long computing a sequence again takes as bringing it back."""
    model, dtype = rng.choice(DENSE), rng.choice(tuple(FORMATS))
    tokens, rate = 1024 * rng.choice((1, 2, 4, 8, 16)), rng.choice((16, 20, 25, 40, 50))
    reached = rng.choice((300, 400, 500, 800, 1000, 1600))
    inputs: dict[str, Any] = {
        "model": model,
        "tokens": tokens,
        "dtype": dtype,
        "bandwidth": rate * 1e9,
        "flops": reached * 1e12,
    }
    back = float(calc("swap_over_recompute", **inputs))
    ratios = {
        "right": 1 / back,
        "upside_down": back,
        "square_alone": calc("attention_flop_share", model=model, tokens=tokens) / back,
        "round_trip": 1 / back / 2,
        "both_ways": 2 / back,
    }
    size = calc("kv_bytes_sequence", model=model, tokens=tokens, dtype=dtype)
    flops = calc("prefill_flops", model=model, tokens=tokens)
    return Drawn(
        values={
            "model": title(model),
            "format": FORMATS[dtype],
            "tokens": whole(tokens),
            "rate": rate,
            "reached": whole(reached),
            "back": f"{three(1000 * float(size) / (rate * 1e9))} ms",
            "again": f"{three(1000 * float(flops) / (reached * 1e12))} ms",
            "share": three(100 * calc("attention_flop_share", model=model, tokens=tokens)),
        },
        answers={key: Answer(times(value)) for key, value in ratios.items()},
        sign=f"{model} {dtype} {tokens} {rate} {reached}",
        drawn=title(model),
        given=(
            f"cache {gb(size)}",
            f"link {rate} GB/s one way",
            f"prefill {three(float(flops) / 1e12)} TFLOP at {reached:,} TFLOP/s",
        ),
        proof=Proof({"claim": "B100"}, page="claims_ledger"),
    )


SLOW = (("llama-2-7b", 16), ("llama-2-7b", 12), ("llama-3.1-8b", 3.4), ("llama-3.1-8b", 5))
FAST = (("llama-3.1-70b", 16), ("llama-3.1-405b", 25), ("qwen2.5-72b", 25), ("qwen3-32b", 50))


def crossover(rng: Random) -> Drawn:
    """From which length on bringing back is quicker: a length, or every one."""
    model, rate = rng.choice(rng.choice((SLOW, FAST)))
    reached = rng.choice((400, 500, 600, 700, 800)) * 1e12
    inputs: dict[str, Any] = {"dtype": "bf16", "bandwidth": rate * 1e9, "flops": reached}
    back = float(calc("kv_bytes_per_token", model=model)) / (rate * 1e9)
    long = 1 << 20
    flops = {n: float(calc("prefill_flops", model=model, tokens=n)) for n in (long, 2 * long)}
    # F(S) = f·S + g·S², exactly: two lengths give both.
    square = (flops[2 * long] - 2 * flops[long]) / (2 * long * long) / reached
    again = flops[long] / reached / long - square * long
    zero = calc("swap_recompute_crossover_tokens", model=model, clamp_at_zero=True, **inputs)
    tokens = floor(zero)
    lengths = {
        "law": RULE_OF_THUMB,
        "right": tokens,
        "square_alone": back / square,
        **({"every": 0} if tokens else {"sign": (again - back) / square}),
    }
    if tokens:
        why = (
            f"At first a token comes back later than it is computed, by {_micros(back - again)}. "
            f"The square makes that up at {tokens:,} tokens."
        )
    else:
        why = (
            "A token comes back sooner than it is computed, and the square only adds to the "
            "other side. There is no crossover."
        )
    return Drawn(
        values={
            "model": title(model),
            "back": _micros(back),
            "again": _micros(again),
            "square": f"{three(square * 1e9)} ns",
            "why": why,
            "root": whole(round(abs(again - back) / square)),
        },
        answers={key: Answer(f"above {round(length):,} tokens") for key, length in lengths.items()},
        sign=f"{model} {rate} {reached:.0f}",
        drawn=title(model),
        given=(
            f"back {_micros(back)} a token",
            f"computed {_micros(again)} a token",
            f"attention S² · {three(square * 1e9)} ns",
        ),
        proof=Proof({"claim": "B176"}, page="claims_ledger"),
    )


def rank_links(rng: Random) -> Drawn:
    """The way back when each tensor-parallel rank has a link and heads of its own."""
    model, dtype = rng.choice(LARGE), rng.choice(tuple(FORMATS))
    tokens, rate = 1024 * rng.choice((2, 4, 8, 16)), rng.choice((16, 25, 40, 50))
    tp = rng.choice((2, 4, 8))
    moved = {"model": model, "tokens": tokens, "dtype": dtype, "bandwidth": rate * 1e9}
    right = float(calc("kv_transfer_time", links=tp, **moved))
    seconds = {
        "right": right,
        "one_link": calc("kv_transfer_time", **moved),
        "round_trip": 2 * right,
        "both_ways": right / 2,
        "bits": 8 * right,
    }
    size = calc("kv_bytes_sequence", model=model, tokens=tokens, dtype=dtype)
    return Drawn(
        values={
            "model": title(model),
            "format": FORMATS[dtype],
            "tokens": whole(tokens),
            "tp": tp,
            "rate": rate,
            "size": gb(size),
            "each": gb(float(size) / tp),
            "heads": geometry(model)["n_kv_heads"] // tp,
        },
        answers={key: _millis(value) for key, value in seconds.items()},
        sign=f"{model} {dtype} {tokens} {rate} {tp}",
        drawn=title(model),
        given=(
            f"cache {gb(size)}",
            f"GPUs {tp}, KV heads {geometry(model)['n_kv_heads']}",
            f"link {rate} GB/s each way, one a GPU",
        ),
        proof=Proof(
            {"model": model, "kv": dtype, "gpus": tp, "ctx": tokens, "n": 1, "of": "gpu"},
            page="kv_sizing",
        ),
    )


def start_early(rng: Random) -> Drawn:
    """Decode steps of the others behind which a reload is hidden."""
    others, step = rng.choice((20, 24, 32, 40, 48, 64)), rng.randrange(10, 31)
    reload = round(step * rng.choice((1.3, 1.6, 2.4, 2.7, 3.2, 4.6, 5.3)))
    steps = {
        "right": calc("prefetch_steps", reload_s=reload / 1000, step_s=step / 1000),
        "each_token": ceil(reload / step * others),
        "rounded_down": floor(reload / step),
        "others": others,
        "round_trip": calc("prefetch_steps", reload_s=2 * reload / 1000, step_s=step / 1000),
    }
    return Drawn(
        values={
            "others": others,
            "step": step,
            "reload": reload,
            "down": floor(reload / step),
            "covered": floor(reload / step) * step,
            "right": counted(int(steps["right"]), "step"),
            "average": three(step / others),
        },
        answers={key: Answer(counted(int(value), "step")) for key, value in steps.items()},
        sign=f"{others} {step} {reload}",
        given=(f"reload {reload} ms", f"decode step {step} ms", f"{others} other sequences"),
        proof=Proof({"claim": "B201"}, page="claims_ledger"),
    )


def worth_keeping(rng: Random) -> Drawn:
    """Hours between two uses up to which host memory is cheaper than computing again."""
    model, dtype = rng.choice(LARGE), rng.choice(tuple(FORMATS))
    tokens, number = 1024 * rng.choice((2, 4, 8, 16)), rng.choice((2, 4, 8))
    reached, price = 450e12 * number, rng.choice((2, 2.5, 3, 4))
    rent = rng.choice((2, 4, 5, 8)) / 10_000
    inputs: dict[str, Any] = {
        "model": model,
        "tokens": tokens,
        "flops": reached,
        "price_per_gpu_hour": price,
        "n_gpu": number,
    }
    right = float(calc("break_even_interval", dtype=dtype, price_per_gb_hour=rent, **inputs))
    size = float(calc("kv_bytes_sequence", model=model, tokens=tokens, dtype=dtype))
    seconds = float(calc("prefill_flops", model=model, tokens=tokens)) / reached
    spans = {
        "right": right,
        "one_gpu": right / number,
        "gpu_memory": calc(
            "break_even_interval", dtype=dtype, price_per_gb_hour=price / HBM_GB, **inputs
        ),
        "binary": right * 2**30 / 1e9,
        "no_size": seconds * price * number / rent,
    }
    return Drawn(
        values={
            "model": title(model),
            "tokens": whole(tokens),
            "number": number,
            "price": f"{price:g}",
            "rent": f"{rent:.4f}",
            "size": gb(size),
            "seconds": f"{three(seconds)} s",
            "hbm": f"{price / HBM_GB:.3g}",
        },
        answers={key: Answer(f"{three(float(value) / 3600)} h") for key, value in spans.items()},
        sign=f"{model} {dtype} {tokens} {number} {price} {rent}",
        drawn=title(model),
        given=(
            f"cache {gb(size)}",
            f"computed again in {three(seconds)} s on {number} GPUs",
            f"a GPU of {HBM_GB} GB {price:g} dollars an hour",
            f"host memory {rent:.4f} dollars a GB and hour",
        ),
        proof=Proof(
            {"model": model, "kv": dtype, "ctx": tokens, "n": 1, "gpus": number}, page="kv_sizing"
        ),
    )
