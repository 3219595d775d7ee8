"""Prefill and decode on GPUs of their own: what crosses the network, and how large each pool is."""

from __future__ import annotations

from math import ceil, floor
from random import Random
from typing import Any

from quiz.draw.common import FORMATS, calc, counted, geometry, title, whole
from quiz.draw.figures import MODELS, gb, share3, three
from quiz.items import Answer, Drawn, Proof

DENSE = tuple(name for name in MODELS if name != "glm-4.5-air")
NDR = 400
"""Gigabit a second of one port of InfiniBand NDR: 50 GB/s."""


def sustained_rate(rng: Random) -> Drawn:
    """Gigabytes a second from the prefill to the decode pool."""
    model, dtype = rng.choice(DENSE), rng.choice(tuple(FORMATS))
    tokens, rps = 1024 * rng.choice((1, 2, 4, 8)), rng.choice((8, 10, 20, 25, 40, 50))
    load = {"model": model, "tokens": tokens, "dtype": dtype, "rps": rps}
    right = float(calc("disagg_bandwidth", **load))
    rates = {
        "right": right,
        "bits": 8 * right,
        "keys_only": right / 2,
        "one_layer": right / geometry(model)["n_layers"],
        "binary": right * 1e9 / 2**30,
    }
    size = calc("kv_bytes_sequence", model=model, tokens=tokens, dtype=dtype)
    return Drawn(
        values={
            "model": title(model),
            "format": FORMATS[dtype],
            "tokens": whole(tokens),
            "rps": rps,
            "size": gb(size),
            "layers": geometry(model)["n_layers"],
        },
        answers={key: Answer(f"{three(value / 1e9)} GB/s") for key, value in rates.items()},
        sign=f"{model} {dtype} {tokens} {rps}",
        drawn=title(model),
        given=(
            f"cache {int(size) // tokens:,} B a token",
            f"prompts {tokens:,} tokens",
            f"{rps} requests a second",
        ),
        proof=Proof({"model": model, "kv": dtype, "ctx": tokens, "n": rps}, page="kv_sizing"),
    )


def links_needed(rng: Random) -> Drawn:
    """Ports of 400 Gb/s for a load, with room for bursts."""
    model, dtype = rng.choice(("llama-3.1-70b", "qwen2.5-72b", "qwen3-32b")), "bf16"
    tokens, rps = 1024 * rng.choice((2, 4, 8)), 10 * rng.randrange(4, 25)
    load: dict[str, Any] = {"model": model, "tokens": tokens, "dtype": dtype, "rps": rps}
    port = NDR * 1e9 / 8
    need = float(calc("disagg_bandwidth", **load)) / 1e9
    links = {
        "right": calc("disagg_links", link_bytes_per_s=port, margin=2, **load),
        "no_margin": calc("disagg_links", link_bytes_per_s=port, **load),
        "bits": calc("disagg_links", link_bytes_per_s=8 * port, margin=2, **load),
        "rounded_down": floor(2 * need / (port / 1e9)),
        "margin_twice": calc("disagg_links", link_bytes_per_s=port, margin=4, **load),
    }
    return Drawn(
        values={
            "model": title(model),
            "tokens": whole(tokens),
            "rps": rps,
            "need": f"{three(need)} GB/s",
            "twice": f"{three(2 * need)} GB/s",
            "down": counted(floor(2 * need / (port / 1e9)), "port"),
        },
        answers={key: Answer(counted(int(value), "port")) for key, value in links.items()},
        sign=f"{model} {tokens} {rps}",
        drawn=title(model),
        given=(
            f"{three(need)} GB/s on average",
            f"ports {NDR} Gb/s each way",
            "twice the average for bursts",
        ),
        proof=Proof({"claim": "B111"}, page="claims_ledger"),
    )


def layer_by_layer(rng: Random) -> Drawn:
    """What is left of a transfer after the prefill when each layer leaves as it is done."""
    layers = rng.choice((32, 40, 48, 64, 80))
    transfer = rng.randrange(8, 61)
    slow = rng.random() < 0.5  # the link is slower than the prefill, or not
    prefill = round(transfer * (rng.uniform(0.3, 0.8) if slow else rng.uniform(2, 6)))
    left = 1000 * calc(
        "pipelined_transfer_time",
        transfer_s=transfer / 1000,
        prefill_s=prefill / 1000,
        n_layers=layers,
    )
    spans = {
        "right": left,
        "whole": transfer,
        "seventy": 0.3 * transfer,
    }
    if prefill > transfer:
        spans["late"] = 2 * transfer / layers
        why = (
            f"A layer travels in {three(transfer / layers)} ms and takes "
            f"{three(prefill / layers)} ms to compute, so the link keeps up. Only the last layer "
            "is left."
        )
    else:
        spans["last_alone"] = transfer / layers
        if left > 1.05 * (transfer - prefill):
            spans["difference"] = transfer - prefill
        why = (
            f"A layer takes {three(transfer / layers)} ms on the link and "
            f"{three(prefill / layers)} ms to compute, so the link falls behind. The first "
            f"{layers - 1} layers hide {three((layers - 1) * prefill / layers)} ms."
        )
    return Drawn(
        values={
            "layers": layers,
            "transfer": transfer,
            "prefill": prefill,
            "right": f"{three(left)} ms",
            "why": why,
        },
        answers={key: Answer(f"{three(value)} ms") for key, value in spans.items()},
        sign=f"{layers} {transfer} {prefill}",
        given=(
            f"layers {layers}, all alike",
            f"whole transfer {transfer} ms",
            f"whole prefill {prefill} ms",
        ),
        proof=Proof({"claim": "B115"}, page="claims_ledger"),
    )


def share_of_prefill(rng: Random) -> Drawn:
    """Transfer over prefill: what moving the cache adds at worst."""
    model, dtype = rng.choice(DENSE), rng.choice(tuple(FORMATS))
    tokens = 1024 * rng.choice((1, 2, 4, 8))
    gigabits, reached = rng.choice((100, 200, 400)), rng.choice((400, 500, 800, 1000, 2000))
    inputs: dict[str, Any] = {"model": model, "tokens": tokens, "flops": reached * 1e12}
    rate = gigabits * 1e9 / 8
    share = "transfer_share_of_prefill"
    right = float(calc(share, dtype=dtype, bandwidth=rate, **inputs))
    size = float(calc("kv_bytes_sequence", model=model, tokens=tokens, dtype=dtype))
    flops = float(calc("prefill_flops", model=model, tokens=tokens))
    shares = {
        "right": right,
        "bits": calc(share, dtype=dtype, bandwidth=8 * rate, **inputs),
        "one_layer": right / geometry(model)["n_layers"],
        "both_ways": right / 2,
        "round_trip": 2 * right,
        **({"of_both": right / (1 + right)} if right > 0.05 else {}),
    }
    return Drawn(
        values={
            "model": title(model),
            "tokens": whole(tokens),
            "gigabits": gigabits,
            "bytes": f"{gigabits / 8:g}",
            "size": gb(size),
            "layers": geometry(model)["n_layers"],
            "moving": f"{three(1000 * size / rate)} ms",
            "prefill": f"{three(flops / reached / 1e9)} ms",
        },
        answers={key: Answer(share3(value)) for key, value in shares.items()},
        sign=f"{model} {dtype} {tokens} {gigabits} {reached}",
        drawn=title(model),
        given=(
            f"cache {gb(size)} in {FORMATS[dtype]}",
            f"prefill {three(flops / reached / 1e9)} ms",
            f"link {gigabits} Gb/s each way",
        ),
        proof=Proof({"claim": "B113"}, page="claims_ledger"),
    )


def decode_pool(rng: Random) -> Drawn:
    """Replicas that the decode pool needs."""
    rps, tokens = 5 * rng.randrange(4, 21), 50 * rng.randrange(4, 17)
    step, batch, busy = rng.randrange(15, 41), rng.choice((16, 24, 32, 48, 64)), 80
    load: dict[str, Any] = {"requests_per_s": rps, "prefill_s": 0, "output_tokens": tokens}
    later = tokens - 1  # the first token comes with the prefill
    need = rps * later * step / 1000 / batch
    replicas = {
        "right": calc("gpus_for_load", step_s=step / 1000, batch=batch, **load),
        "one_each": calc("gpus_for_load", step_s=step / 1000, batch=1, **load),
        "all_busy": calc("gpus_for_load", step_s=step / 1000, batch=batch, utilization=1.0, **load),
        "wrong_way": ceil(need * 0.8),
        "prefill_too": ceil(rps * (later + 2000) * step / 1000 / batch / 0.8),
    }
    return Drawn(
        values={
            "rps": rps,
            "tokens": tokens,
            "step": step,
            "batch": batch,
            "need": three(need),
            "later": later,
            "made": whole(rps * later),
            "each": whole(round(1000 * batch / step)),
        },
        answers={key: Answer(counted(int(value), "replica")) for key, value in replicas.items()},
        sign=f"{rps} {tokens} {step} {batch}",
        given=(
            f"{rps} requests a second",
            f"prompts 2,000 tokens, answers {tokens}",
            f"step {step} ms at batch {batch}",
            f"busy at most {busy} %",
        ),
        proof=Proof({"dis": 1, "users": 200, "ctx": 4096}, page="capacity_planner"),
    )
