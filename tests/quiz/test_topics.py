"""The numbers of the further topics, each computed here in another way than where it is drawn: in
exact fractions from published geometry, from other functions of the library, or by a run."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor
from typing import Any

import pytest

from core.scenario import Scenario
from core.simulate import simulate
from core.sizing import calls, gpus
from quiz import bank
from quiz.draw.common import geometry
from quiz.items import RIGHT, Item
from ui import catalogue, runs
from ui.batching import place as batching
from ui.claims import place as claims
from ui.planner import place as planner
from ui.prefix import place as prefix
from ui.roofline import place as roofline
from ui.sizing import place as sizing

SEEDS = range(25)
GIB = 2**30
Expected = dict[str, Any]
Parts = list[str]

CHECKS: dict[str, Callable[[Parts, Item], Expected]] = {}


def check(template: str) -> Callable[[Callable[[Parts, Item], Expected]], None]:
    def add(function: Callable[[Parts, Item], Expected]) -> None:
        CHECKS[template] = function

    return add


def calc(function: str, **inputs: Any) -> Any:
    return calls.call(function, inputs).value


def shape(model: str) -> tuple[int, int, int]:
    """Layers, KV heads, numbers of a head."""
    fields = geometry(model)
    return fields["n_layers"], fields["n_kv_heads"], fields["d_head"]


WIDTH = {"bf16": Fraction(2), "fp8": Fraction(1), "int8": Fraction(1), "int4": Fraction(1, 2)}


def cache(model: str, dtype: str = "bf16", tokens: int = 1) -> Fraction:
    layers, heads, dim = shape(model)
    return 2 * layers * heads * dim * WIDTH[dtype] * tokens


def work(model: str, tokens: int) -> tuple[float, float]:
    """FLOP of a prefill's matrices and of its attention: 4 · d for each pair and query head, and
    half of S² pairs."""
    fields = geometry(model)
    attention = 2.0 * fields["n_layers"] * fields["n_heads"] * fields["d_head"] * tokens**2
    return float(calc("prefill_flops", model=model, tokens=tokens)) - attention, attention


# quantisation


@check("quantisation/per-token")
def _(parts: Parts, _item: Item) -> Expected:
    model, dtype = parts
    layers, heads, dim = shape(model)
    plain, vectors = cache(model, dtype), 2 * layers * heads
    return {
        RIGHT: vectors * (dim * WIDTH[dtype] + 2),
        "no_scales": plain,
        "one_scale": plain + vectors,
        "per_layer": plain + 2 * layers * 2,
        "one_layer": 2 * heads * (dim * WIDTH[dtype] + 2),
        "sixteen": cache(model),
    }


@check("quantisation/saving")
def _(parts: Parts, _item: Item) -> Expected:
    _, dim, scale, zero = map(Fraction, parts)
    row = dim / 2 + scale + zero
    return {
        RIGHT: 100 * (1 - row / (2 * dim)),
        "payload": 75,
        "no_zero": 100 * (1 - (dim / 2 + scale) / (2 * dim)),
        "what_is_left": 100 * row / (2 * dim),
        "of_eight": 100 * (1 - row / dim),
    }


@check("quantisation/only-the-cache")
def _(parts: Parts, _item: Item) -> Expected:
    model, tokens = parts[0], int(parts[4])
    total, weights, other = (Fraction(part) for part in parts[1:4])

    def fits(dtype: str, taken: Fraction) -> int:
        return floor((total - taken - other) * GIB / cache(model, dtype, tokens))

    return {
        RIGHT: fits("fp8", weights),
        "weights_too": fits("fp8", weights / 2),
        "unchanged": fits("bf16", weights),
        "halved": fits("bf16", weights) // 2,
        "no_weights": fits("fp8", Fraction(0)),
    }


@check("quantisation/fixed-scales")
def _(parts: Parts, _item: Item) -> Expected:
    layers, heads, _ = shape(parts[0])
    each = 2 * 2 * layers * heads
    return {
        RIGHT: each,
        "each_token": each * int(parts[1]),
        "keys_only": each // 2,
        "one_layer": 2 * 2 * heads,
        "one_a_tensor": 2 * 2 * layers,
    }


@check("quantisation/outlier")
def _(parts: Parts, _item: Item) -> Expected:
    ordinary, ratio = map(int, parts)
    scale = Fraction(ordinary * ratio, 127)
    taken = [q for q in range(-127, 128) if (abs(q) - Fraction(1, 2)) * scale < ordinary]
    return {
        RIGHT: len(taken),
        "own_scale": 255,
        "one_sign": sum(q >= 0 for q in taken),
        "lost": 255 - len(taken),
        "one_bit": 2 * 63 + 1,
    }


@check("quantisation/step")
def _(parts: Parts, _item: Item) -> Expected:
    model, gpu, batch, context = parts[0], parts[1], int(parts[2]), int(parts[3])
    weights = Fraction(calc("decode_weight_bytes", model=model, batch=batch))
    rate = Fraction(gpus.get(gpu).bandwidth) / 1000
    wide, narrow = (batch * cache(model, dtype, context) for dtype in ("bf16", "fp8"))
    return {
        RIGHT: (weights + narrow) / rate,
        "unchanged": (weights + wide) / rate,
        "cache_alone": narrow / rate,
        "cache_gone": weights / rate,
        "weights_too": (weights / 2 + narrow) / rate,
    }


# tiers


@check("tiers/way-back")
def _(parts: Parts, _item: Item) -> Expected:
    model, dtype, tokens, rate = parts[0], parts[1], int(parts[2]), int(parts[3])
    right = cache(model, dtype, tokens) / rate / 10**6
    return {
        RIGHT: right,
        "both_ways": right / 2,
        "round_trip": right * 2,
        "mixed_units": right * 10**9 / GIB,
        "one_layer": right / shape(model)[0],
    }


@check("tiers/again-or-back")
def _(parts: Parts, _item: Item) -> Expected:
    model, dtype, tokens = parts[0], parts[1], int(parts[2])
    back = float(cache(model, dtype, tokens)) / (float(parts[3]) * 1e9)
    matrices, attention = work(model, tokens)
    again = (matrices + attention) / (float(parts[4]) * 1e12)
    return {
        RIGHT: again / back,
        "upside_down": back / again,
        "square_alone": attention / (float(parts[4]) * 1e12) / back,
        "round_trip": again / (2 * back),
        "both_ways": again / (back / 2),
    }


@check("tiers/crossover")
def _(parts: Parts, item: Item) -> Expected:
    model, rate, reached = parts[0], float(parts[1]) * 1e9, float(parts[2])
    text = item.option(RIGHT).text

    def swaps(tokens: int) -> bool:
        back = float(cache(model, "bf16", tokens)) / rate
        return back <= float(calc("prefill_flops", model=model, tokens=tokens)) / reached

    tokens = int(_number(text)[0])
    matrices, attention = work(model, 1 << 20)
    again, square = matrices / reached / (1 << 20), attention / reached / (1 << 40)
    back = float(cache(model)) / rate
    if tokens:
        assert tokens > 2048  # so that the rule of thumb is wrong here too
        assert swaps(tokens + 1) and not swaps(tokens - 1)
    else:
        assert swaps(1) and swaps(1 << 20)
    return {
        RIGHT: tokens,
        "law": 1024,
        "square_alone": back / square,
        "sign": (again - back) / square,
        "every": 0,
    }


@check("tiers/links")
def _(parts: Parts, _item: Item) -> Expected:
    model, dtype, tokens, rate, tp = parts[0], parts[1], *map(int, parts[2:])
    one = cache(model, dtype, tokens) / rate / 10**6
    return {
        RIGHT: one / tp,
        "one_link": one,
        "round_trip": 2 * one / tp,
        "both_ways": one / tp / 2,
        "bits": 8 * one / tp,
    }


@check("tiers/ahead")
def _(parts: Parts, _item: Item) -> Expected:
    others, step, reload = map(int, parts)
    right = next(n for n in range(1, 99) if n * step >= reload)
    return {
        RIGHT: right,
        "each_token": ceil(Fraction(reload * others, step)),
        "rounded_down": right - (right * step != reload),
        "others": others,
        "round_trip": next(n for n in range(1, 99) if n * step >= 2 * reload),
    }


@check("tiers/keeping")
def _(parts: Parts, _item: Item) -> Expected:
    model, dtype, tokens, number = parts[0], parts[1], int(parts[2]), int(parts[3])
    price, rent = float(parts[4]), float(parts[5])
    seconds = sum(work(model, tokens)) / (450e12 * number)
    dollars, kept = seconds / 3600 * number * price, float(cache(model, dtype, tokens)) / 1e9
    return {
        RIGHT: dollars / (kept * rent),
        "one_gpu": dollars / number / (kept * rent),
        "gpu_memory": dollars / (kept * price / 80),
        "binary": dollars / (kept * 1e9 / GIB * rent),
        "no_size": dollars / rent,
    }


# disaggregation


@check("disaggregation/rate")
def _(parts: Parts, _item: Item) -> Expected:
    model, dtype, tokens, rps = parts[0], parts[1], int(parts[2]), int(parts[3])
    right = cache(model, dtype, tokens) * rps / 10**9
    return {
        RIGHT: right,
        "bits": 8 * right,
        "keys_only": right / 2,
        "one_layer": right / shape(model)[0],
        "binary": right * 10**9 / GIB,
    }


@check("disaggregation/ports")
def _(parts: Parts, _item: Item) -> Expected:
    model, tokens, rps = parts[0], int(parts[1]), int(parts[2])
    need = cache(model, "bf16", tokens) * rps / 10**9
    return {
        RIGHT: ceil(2 * need / 50),
        "no_margin": ceil(need / 50),
        "bits": ceil(2 * need / 400),
        "rounded_down": floor(2 * need / 50),
        "margin_twice": ceil(4 * need / 50),
    }


@check("disaggregation/layer-by-layer")
def _(parts: Parts, _item: Item) -> Expected:
    layers, transfer, prefill = map(int, parts)
    free = Fraction(0)  # the link, layer after layer
    for layer in range(1, layers + 1):
        ready = Fraction(prefill * layer, layers)
        free = max(free, ready) + Fraction(transfer, layers)
    return {
        RIGHT: free - prefill,
        "whole": transfer,
        "seventy": Fraction(3 * transfer, 10),
        "late": Fraction(2 * transfer, layers),
        "last_alone": Fraction(transfer, layers),
        "difference": transfer - prefill,
    }


@check("disaggregation/share")
def _(parts: Parts, _item: Item) -> Expected:
    model, dtype, tokens = parts[0], parts[1], int(parts[2])
    moving = float(cache(model, dtype, tokens)) / (float(parts[3]) * 1e9 / 8)
    prefill = sum(work(model, tokens)) / (float(parts[4]) * 1e12)
    return {
        RIGHT: 100 * moving / prefill,
        "bits": 100 * moving / prefill / 8,
        "one_layer": 100 * moving / prefill / shape(model)[0],
        "both_ways": 50 * moving / prefill,
        "round_trip": 200 * moving / prefill,
        "of_both": 100 * moving / (moving + prefill),
    }


@check("disaggregation/decode-pool")
def _(parts: Parts, _item: Item) -> Expected:
    rps, tokens, step, batch = map(int, parts)
    later = tokens - 1
    busy = Fraction(rps * later * step, 1000 * batch)
    return {
        RIGHT: ceil(busy / Fraction(4, 5)),
        "one_each": ceil(busy * batch / Fraction(4, 5)),
        "all_busy": ceil(busy),
        "wrong_way": ceil(busy * Fraction(4, 5)),
        "prefill_too": ceil(busy * (later + 2000) / later / Fraction(4, 5)),
    }


# latent attention, by the published configs

LAYERS_HEADS = {
    "deepseek-v2": (60, 128),
    "deepseek-v3": (61, 128),
    "deepseek-v2-lite": (27, 16),
    "kimi-k2": (61, 64),
}
LATENT, ROPE, KEY, VALUE = 512, 64, 192, 128


@check("mla/per-token")
def _(parts: Parts, _item: Item) -> Expected:
    (layers, heads), width = LAYERS_HEADS[parts[0]], WIDTH[parts[1]]
    return {
        RIGHT: layers * (LATENT + ROPE) * width,
        "one_layer": (LATENT + ROPE) * width,
        "no_rope": layers * LATENT * width,
        "twice": 2 * layers * (LATENT + ROPE) * width,
        "every_head": layers * heads * (KEY + VALUE) * width,
    }


@check("mla/long-request")
def _(parts: Parts, _item: Item) -> Expected:
    (layers, heads), tokens = LAYERS_HEADS[parts[0]], int(parts[1])
    number = Fraction(2 * tokens, GIB)
    return {
        RIGHT: layers * (LATENT + ROPE) * number,
        "one_layer": (LATENT + ROPE) * number,
        "grouped": 2 * layers * (LATENT + ROPE) * number,
        "every_head": layers * heads * (KEY + VALUE) * number,
        "no_rope": layers * LATENT * number,
    }


@check("mla/each-rank")
def _(parts: Parts, _item: Item) -> Expected:
    (layers, _), tp, tokens, pool = LAYERS_HEADS[parts[0]], *map(int, parts[1:])
    each = 2 * layers * (LATENT + ROPE) * tokens
    right = pool * GIB // each
    return {
        RIGHT: right,
        "shared_out": right * tp,
        "one_layer": pool * GIB * layers // each,
        "split_pool": right // tp,
        "with_values": pool * GIB // (2 * each),
    }


@check("mla/as-heads")
def _(parts: Parts, _item: Item) -> Expected:
    latent, rope, head = map(Fraction, parts)
    return {
        RIGHT: (latent + rope) / (2 * head),
        "keys_only": (latent + rope) / head,
        "no_rope": latent / (2 * head),
        "rope_twice": (latent + 2 * rope) / (2 * head),
        "latent_alone": latent / head,
    }


@check("mla/against-groups")
def _(parts: Parts, _item: Item) -> Expected:
    grouped, one, latent, other = parts
    layers, heads = LAYERS_HEADS[latent]
    row = (LATENT + ROPE) * WIDTH[other]
    return {
        RIGHT: cache(grouped, one) / (layers * row),
        "layer_for_model": cache(grouped, one) / row,
        "own_heads": Fraction(heads * (KEY + VALUE), LATENT + ROPE),
        "layer_by_layer": cache(grouped, one) / shape(grouped)[0] / row,
        "upside_down": layers * row / cache(grouped, one),
    }


@check("mla/intensity")
def _(parts: Parts, _item: Item) -> Expected:
    (_, heads), width = LAYERS_HEADS[parts[0]], WIDTH[parts[1]]
    read = (LATENT + ROPE) * width
    done = 2 * (LATENT + ROPE) + 2 * LATENT
    return {
        RIGHT: heads * done / read,
        "one_head": done / read,
        "scores_alone": heads * 2 * (LATENT + ROPE) / read,
        "no_sharing": 2 / width,
        "other_format": heads * done / ((LATENT + ROPE) * (3 - width)),
    }


# speculation


def _on_average(accept: Fraction, drafts: int) -> Fraction:
    """By the number of drafts that are accepted, one after the other."""
    stops = sum((j + 1) * accept**j * (1 - accept) for j in range(drafts))
    return stops + (drafts + 1) * accept**drafts


@check("speculation/tokens-a-pass")
def _(parts: Parts, _item: Item) -> Expected:
    drafts, accept = int(parts[0]), Fraction(parts[1])
    return {
        RIGHT: _on_average(accept, drafts),
        "no_own": _on_average(accept, drafts) - 1,
        "all_count": 1 + drafts * accept,
        "all_or_none": 1 + drafts * accept**drafts,
        "none_lost": 1 + drafts,
    }


@check("speculation/one-pass")
def _(parts: Parts, item: Item) -> Expected:
    assert item.question.count("agrees") == parts.count("y")
    assert item.question.count("differs") == parts.count("n")
    kept = "".join(parts).index("n")
    return {
        RIGHT: kept + 1,
        "no_own": kept,
        "all_matching": parts.count("y"),
        "all_and_own": parts.count("y") + 1,
        "every_draft": len(parts) + 1,
    }


@check("speculation/gain")
def _(parts: Parts, _item: Item) -> Expected:
    drafts, accept, cost = int(parts[0]), Fraction(parts[1]), Fraction(parts[2])
    brought, time = _on_average(accept, drafts), 1 + drafts * cost
    return {
        RIGHT: brought / time,
        "free_drafts": brought,
        "one_draft": brought / (1 + cost),
        "none_lost": (1 + drafts) / time,
        "no_own": (brought - 1) / time,
    }


@check("speculation/checked")
def _(parts: Parts, _item: Item) -> Expected:
    spec, drafts = gpus.get(parts[0]), int(parts[1])
    exact = Fraction(spec.peaks["bf16"]) / Fraction(spec.bandwidth)
    ridge = ceil(exact)
    return {
        RIGHT: next(n for n in range(1, ridge + 1) if n * (drafts + 1) >= ridge),
        "no_drafts": ridge,
        "drafts_alone": ceil(Fraction(ridge, drafts)),
        "more": ridge * (drafts + 1),
        "one_byte": ceil(Fraction(ceil(exact / 2), drafts + 1)),
        "less_drafts": ridge - drafts,
    }


@check("speculation/two-caches")
def _(parts: Parts, _item: Item) -> Expected:
    target, draft, drafts = parts[0], parts[1], int(parts[2])
    share = Fraction(*(calc("param_count", model=name) for name in (draft, target)))
    return {
        RIGHT: cache(target) + cache(draft),
        "shared": cache(target),
        "each_draft": cache(target) + drafts * cache(draft),
        "by_weights": round(cache(target) * (1 + share)),
        "replaced": cache(draft),
    }


@check("speculation/accepted")
def _(parts: Parts, _item: Item) -> Expected:
    numbers = [Fraction(part) / 20 for part in parts]
    p = (*numbers[:2], 1 - sum(numbers[:2]))
    q = (*numbers[2:], 1 - sum(numbers[2:]))
    apart = sum(abs(a - b) for a, b in zip(p, q, strict=True))
    return {
        RIGHT: 100 * (1 - apart / 2),
        "both_pick": 100 * sum(a * b for a, b in zip(p, q, strict=True)),
        "likeliest": 100 * p[q.index(max(q))],
        "difference": 100 * max(0, 1 - apart),
        "ratio": 100 * sum(min(1, a / b) for a, b in zip(p, q, strict=True)) / 3,
    }


# failures: the scheduler is asked again


def _run(item: Item) -> list[dict[str, Any]]:
    return simulate(Scenario.from_dict(item.proof.link["own"])).steps


def _events(step: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [event for event in step["events"] if event["type"] == kind]


@check("failures/resumed")
def _(parts: Parts, item: Item) -> Expected:
    prompt, _, answer = map(int, parts)
    written = 0
    for step in _run(item):
        if any(event["request"] == "B" for event in _events(step, "preempted")):
            break
        written += sum(event["request"] == "B" for event in _events(step, "token_sampled"))
    return {
        RIGHT: prompt + written,
        "prompt_alone": prompt,
        "answer_alone": written,
        "next_alone": 1,
        "what_is_left": answer - written,
        "whole_request": prompt + answer,
    }


@check("failures/full-pool")
def _(parts: Parts, item: Item) -> Expected:
    running, prompt, blocks = map(int, parts)
    first = next(step["step"] for step in _run(item) if _events(step, "preempted"))
    needed = next(s for s in range(99) if running * ceil(Fraction(prompt + s, 4)) > blocks)
    assert needed == first
    return {
        RIGHT: needed,
        "tokens": next(s for s in range(99) if running * (prompt + s) > 4 * blocks),
        "one_grows": next(s for s in range(999) if running * prompt + s > 4 * blocks),
        "block_a_step": blocks // running - ceil(Fraction(prompt, 4)) + 1,
        "no_prompt": next(s for s in range(999) if running * ceil(Fraction(s, 4)) > blocks),
    }


@check("failures/pieces")
def _(parts: Parts, item: Item) -> Expected:
    others, budget, prompt = map(int, parts)
    computed = [s["scheduled"]["L"] for s in _run(item) if "L" in s["scheduled"]]
    assert sum(one["num_scheduled_tokens"] for one in computed) == prompt
    assert all(len(s["scheduled"]) == others + 1 for s in _run(item) if "L" in s["scheduled"])
    right = ceil(Fraction(prompt, budget - others))
    assert len(computed) == right
    return {
        RIGHT: right,
        "budget_alone": ceil(Fraction(prompt, budget)),
        "at_once": 1,
        "even_shares": ceil(Fraction(prompt * (others + 1), budget)),
        "rounded_down": prompt // (budget - others),
    }


@check("failures/stall")
def _(parts: Parts, _item: Item) -> Expected:
    model, gpu, tokens = parts[0], parts[1], int(parts[2])
    number = {"llama-3.1-8b": 2, "qwen3-32b": 4, "llama-3.1-70b": 8}[model]
    spec = gpus.get(gpu)
    matrices, attention = work(model, tokens)
    reached = number * spec.peaks["bf16"] / 2
    read = calc("decode_weight_bytes", model=model) + float(cache(model))
    return {
        RIGHT: (matrices + attention) / reached,
        "full_peak": (matrices + attention) / reached / 2,
        "one_gpu": (matrices + attention) / reached * number,
        "no_square": matrices / reached,
        "like_decode": read / (number * spec.bandwidth),
    }


@check("failures/watermark")
def _(parts: Parts, item: Item) -> Expected:
    blocks, percent, free = map(int, parts)
    kept = ceil(Fraction(blocks * percent, 100))
    content = item.proof.link["own"]
    late = content["requests"][1]
    assert len(late["prompt_tokens"]) == 4 * (free - kept) + 1
    waits = _run(item)[1]
    assert [event["reason"] for event in _events(waits, "waiting")] == ["watermark"]
    shorter = {**late, "prompt_tokens": late["prompt_tokens"][:-1]}
    let_in = {**content, "requests": [content["requests"][0], shorter]}
    assert "B" in simulate(Scenario.from_dict(let_in)).steps[1]["scheduled"]
    return {
        RIGHT: 4 * (free - kept),
        "no_watermark": 4 * free,
        "of_free": 4 * (free - ceil(Fraction(free * percent, 100))),
        "what_is_kept": 4 * kept,
        "blocks": free - kept,
    }


# decisions


@check("decisions/gpus")
def _(parts: Parts, _item: Item) -> Expected:
    users, each, tp = map(int, parts)
    replicas = next(n for n in range(1, 999) if n * each >= users)
    return {
        RIGHT: replicas * tp,
        "replicas": replicas,
        "broken": next(n for n in range(1, 9999) if n * each >= users * tp),
        "down": users // each * tp,
        "divided": next(n for n in range(1, 9999) if n * (each // tp) >= users) * tp,
        "each_gpu": next(n for n in range(1, 999) if n * each * tp >= users) * tp,
    }


@check("decisions/room")
def _(parts: Parts, _item: Item) -> Expected:
    gpu, model, dtype, tp = parts[0], parts[1], parts[2], int(parts[3])
    util, other = Fraction(int(parts[4]), 100), int(parts[5])
    memory = Fraction(gpus.get(gpu).visible_bytes, 10**9)
    shard = Fraction(calc("weight_bytes_per_gpu", model=model, dtype=dtype, tp=tp)) / 10**9
    return {
        RIGHT: memory * util - shard - other,
        "all_of_it": memory - shard - other,
        "no_weights": memory * util - other,
        "of_the_rest": (memory - shard - other) * util,
        "whole_model": memory * util - tp * shard - other,
        "no_overhead": memory * util - shard,
    }


@check("decisions/prefix-saving")
def _(parts: Parts, _item: Item) -> Expected:
    shared, unique, hit = map(Fraction, parts)
    whole = shared + unique
    return {
        RIGHT: hit * shared / whole,
        "hit_rate": hit,
        "each_hits": 100 * shared / whole,
        "unique_too": hit * unique / whole,
        "what_is_left": 100 - hit * shared / whole,
    }


@check("decisions/together")
def _(parts: Parts, _item: Item) -> Expected:
    group, kept, bits = map(Fraction, parts)
    return {
        RIGHT: group * 16 / bits,
        "added": group + 16 / bits,
        "heads_alone": group,
        "bits_alone": 16 / bits,
        "heads_kept": kept * 16 / bits,
    }


@check("decisions/last-block")
def _(parts: Parts, _item: Item) -> Expected:
    size, tokens = map(int, parts)
    empty = Fraction(sum(-used % size for used in range(1, size + 1)), size)
    return {
        RIGHT: 100 * empty / tokens,
        "at_worst": Fraction(100 * (size - 1), tokens),
        "of_the_block": 100 * empty / size,
        "one_slot": Fraction(100, tokens),
        "reserved": Fraction(100 * (4096 - tokens), tokens),
    }


# operating


@check("operating/counter")
def _(parts: Parts, _item: Item) -> Expected:
    before, after, window, up = map(int, parts)
    return {
        RIGHT: Fraction(after - before, window),
        "reading": after,
        "since_start": Fraction(after, 60 * up),
        "undivided": after - before,
        "middle": Fraction(before + after, 2),
    }


@check("operating/window")
def _(parts: Parts, _item: Item) -> Expected:
    hits, more_hits, asked, more_asked = map(int, parts)
    found, queries = more_hits - hits, more_asked - asked
    totals = Fraction(hits, asked), Fraction(more_hits, more_asked)
    return {
        RIGHT: Fraction(100 * found, queries),
        "since_start": 100 * totals[1],
        "upside_down": Fraction(100 * (queries - found), queries),
        "middle": 50 * sum(totals),
        "of_all": Fraction(100 * found, more_asked),
    }


@check("operating/percentile")
def _(parts: Parts, _item: Item) -> Expected:
    share, *gaps = map(int, parts)
    assert len(gaps) == 20
    return {
        RIGHT: min(g for g in gaps if 100 * sum(o <= g for o in gaps) >= share * 20),
        "mean": Fraction(sum(gaps), 20),
        "middle": Fraction(sum(sorted(gaps)[9:11]), 2),
        "longest": max(gaps),
        "share_of_longest": Fraction(share * max(gaps), 100),
    }


@check("operating/histogram")
def _(parts: Parts, item: Item) -> Expected:
    share, *counts = map(int, parts)
    bounds = [re.search(r"le ([\d,]+)", one).group(1) for one in item.given]
    places = [place for place, count in enumerate(counts) for _ in range(count)]

    def between(place: int) -> str:
        return f"{bounds[place - 1] if place else '0'} to {bounds[place]} ms"

    sums = [sum(counts[: i + 1]) for i in range(len(counts))]
    again = [place for place, count in enumerate(sums) for _ in range(count)]
    right = places[ceil(Fraction(share * len(places), 100)) - 1]
    return {
        RIGHT: between(right),
        "fullest": between(counts.index(max(counts))),
        "halfway": between(places[ceil(Fraction(len(places), 2)) - 1]),
        "summed_twice": between(again[ceil(Fraction(share * len(again), 100)) - 1]),
        "next": between(right + 1),
    }


@check("operating/free")
def _(parts: Parts, _item: Item) -> Expected:
    blocks, used = map(int, parts)
    share = Fraction(used, 100)
    return {
        RIGHT: blocks * (1 - share) * 16,
        "in_use": blocks * share * 16,
        "blocks": blocks * (1 - share),
        "of_percent": blocks * (1 - share / 100) * 16,
        "all": blocks * 16,
    }


@check("operating/in-flight")
def _(parts: Parts, _item: Item) -> Expected:
    rate, tokens, first, gap = map(int, parts)
    stay = Fraction(first + (tokens - 1) * gap, 1000)
    return {
        RIGHT: rate * stay,
        "first_alone": Fraction(rate * first, 1000),
        "per_token": Fraction(rate * gap, 1000),
        "one_after_other": stay,
        "finished": rate / stay,
        "tokens": rate * tokens,
    }


# engines


@check("engines/empty-slots")
def _(parts: Parts, _item: Item) -> Expected:
    (tokens,) = map(int, parts)
    sixteen, more = -tokens % 16, -tokens % 32
    return {
        RIGHT: f"{sixteen} / {more} / 0",
        "one_default": f"{sixteen} / {sixteen} / {sixteen}",
        "filled": f"{tokens % 16} / {tokens % 32} / 0",
        "at_worst": "15 / 31 / 0",
        "swapped": f"{more} / {sixteen} / 0",
    }


@check("engines/more-memory")
def _(parts: Parts, _item: Item) -> Expected:
    gpu, model, low, more = parts[0], parts[1], int(parts[2]), int(parts[3])
    memory = Fraction(gpus.get(gpu).visible_bytes, GIB)
    weights = Fraction(calc("weight_bytes", model=model)) / GIB
    before = memory * low / 100 - weights
    return {
        RIGHT: memory * more / 100,
        "of_the_pool": before * more / 100,
        "in_proportion": before * more / low,
        "of_the_rest": memory * (100 - low) * more / 10**4,
        "pool_itself": before + memory * more / 100,
    }


@check("engines/shared-once")
def _(parts: Parts, item: Item) -> Expected:
    users, shared, own = map(int, parts)
    hits = [e for step in _run(item) for e in _events(step, "block_shared")]
    assert {event["request"] for event in hits} == {f"R{i}" for i in range(1, users)}
    return {
        RIGHT: (shared + users * own) // 4,
        "each_its_own": users * (shared + own) // 4,
        "prefix_alone": shared // 4,
        "one_prompt": (shared + own) // 4,
        "no_prefix": users * own // 4,
    }


@check("engines/first-piece")
def _(parts: Parts, _item: Item) -> Expected:
    model, gpu, budget, tokens = parts[0], parts[1], int(parts[2]), int(parts[3])
    spec = gpus.get(gpu)
    reached = spec.peaks["bf16"] / 2 / 1000
    whole = sum(work(model, tokens)) / reached
    read = calc("decode_weight_bytes", model=model) + float(cache(model))
    return {
        RIGHT: sum(work(model, budget)) / reached,
        "all_of_it": whole,
        "even": whole * budget / tokens,
        "last_piece": whole - sum(work(model, tokens - budget)) / reached,
        "like_decode": read / spec.bandwidth * 1000,
    }


NINE = (
    "quantisation",
    "tiers",
    "disaggregation",
    "mla",
    "speculation",
    "failures",
    "decisions",
    "operating",
    "engines",
)
TEMPLATES = [name for topic in NINE for name in bank.topics()[topic].templates]


def _number(text: str) -> tuple[float, float]:
    """The number that an option says, and half a unit of its last digit."""
    found = re.search(r"(\d[\d,]*)(?:\.(\d+))?", text)
    assert found, text
    decimals = len(found.group(2) or "")
    return float(found.group().replace(",", "")), 0.5001 * 10.0**-decimals


def test_every_topic_is_large_enough_and_half_of_it_is_numbers() -> None:
    drawn = [name for name in TEMPLATES if bank.varies(name)]
    assert {*drawn} == {*CHECKS}
    assert len(TEMPLATES) >= 66
    for topic in NINE:
        templates = bank.topics()[topic].templates
        assert len(templates) >= 7
        assert 2 * sum(bank.varies(name) for name in templates) >= len(templates), topic


@pytest.mark.parametrize("template", sorted(CHECKS))
def test_the_answer_and_each_slip_are_what_they_are_said_to_be(template: str) -> None:
    for seed in SEEDS:
        item = bank.make(template, seed)
        expected = CHECKS[template](item.sign.split(" ")[1:], item)
        for option in item.options:
            if isinstance(expected.get(option.key), str):
                assert option.text == expected[option.key], (seed, option.key)
            else:
                shown, half = _number(option.text)
                assert abs(shown - float(expected[option.key])) <= half, (seed, option.key)


PAGES = {
    "kv_sizing": sizing.read,
    "roofline": roofline.read,
    "capacity_planner": planner.read,
    "claims_ledger": claims.read,
    "batching": batching.read,
    "prefix_cache": prefix.read,
}


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_shows_the_answer_is_there(template: str) -> None:
    for seed in range(8):
        item = bank.make(template, seed)
        link = item.proof.link
        if item.proof.page in PAGES:
            asked = {name: str(value) for name, value in link.items()}
            _, refused = PAGES[item.proof.page](asked)
            assert asked and refused is None, (seed, refused)
        elif "run" in link:
            played = runs.recorded(str(link["run"]))
            assert link["step"] < len(played.data()["steps"])
        else:
            assert "own" in link or link["scenario"] in catalogue.entries()
