"""Speculation, failures, decisions, metrics and engines, computed a second time."""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from typing import Any

from core.scenario import Scenario
from core.simulate import simulate
from core.sizing import gpus
from quiz.items import RIGHT, Item
from tests.quiz.again import GIB, Expected, Parts, cache, calc, check, work

# speculation


def _on_average(accept: Fraction, drafts: int) -> Fraction:
    """By the number of drafts that are accepted, one after the other."""
    library = calc("expected_tokens_per_verify", acceptance=float(accept), k=drafts)
    stops = sum((j + 1) * accept**j * (1 - accept) for j in range(drafts))
    yielded = stops + (drafts + 1) * accept**drafts
    assert abs(library - float(yielded)) < 1e-9
    return yielded


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
    costs = {"k": drafts, "draft_cost": float(cost)}
    library = calc("speculative_speedup", acceptance=float(accept), **costs)
    assert abs(library - float(brought / time)) < 1e-9
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
