"""Quantised caches, tiers, separate pools and latents, computed a second time."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

from core.sizing import gpus
from quiz.items import RIGHT, Item
from tests.quiz.again import GIB, WIDTH, Expected, Parts, cache, calc, check, number, shape, work

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

    tokens = int(number(text)[0])
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
