"""Each right number, once more: by the plain formula from what the question shows, or counted in a
run of the question's own numbers. None of it asks the generator."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from core.scenario import Scenario
from core.simulate import simulate
from core.sizing import calls, catalog, gpus
from core.trace.run import read_run
from quiz import bank
from quiz.draw.attention import without_cache
from quiz.items import RIGHT, Item

SEEDS = range(12)
HERE = (
    "serving metrics attention roofline prefix planner numbers kv-size phases paging batching"
).split()


def figure(text: str) -> float:
    found = re.search(r"\d[\d,]*(\.\d+)?", text)
    assert found, text
    return float(found.group().replace(",", ""))


def right(item: Item) -> float:
    return figure(item.option(RIGHT).text)


def sign(item: Item) -> list[str]:
    return item.sign.split(" ")[1:]


def ints(item: Item) -> list[int]:
    return [int(part) for part in sign(item)]


def calc(function: str, **inputs: Any) -> float:
    value = calls.call(function, inputs).value
    assert value is not None
    return float(value)


@cache
def shape(model: str) -> tuple[int, int, int, int]:
    """Layers, query heads, KV heads, head dimension."""
    fields = catalog.get(model).fields
    names = ("n_layers", "n_heads", "n_kv_heads", "d_head")
    return tuple(int(str(fields[name])) for name in names)  # type: ignore[return-value]


def token(model: str, dtype: str, heads: int | None = None) -> float:
    """2 · L · n_kv · d · b."""
    layers, _, kv_heads, dim = shape(model)
    width = {"bf16": 2, "fp8": 1, "int8": 1, "int4": 0.5}[dtype]
    return 2 * layers * (heads or kv_heads) * dim * width


def params(model: str) -> float:
    return float(catalog.get(model).params or 0)


def steps(item: Item) -> list[dict[str, Any]]:
    return list(simulate(Scenario.from_dict(item.proof.link["own"])).steps)


def ran(item: Item, name: str) -> list[dict[str, Any]]:
    return [step["scheduled"][name] for step in steps(item) if name in step["scheduled"]]


# What a server holds, and for how long.


def held(item: Item) -> float:
    last = ran(item, "A")[-1]
    return last["num_computed_tokens"] + last["num_scheduled_tokens"]


def in_flight(item: Item) -> float:
    step = steps(item)[int(item.proof.link["step"])]
    gap, length = ints(item)
    assert length % gap == 0
    return len(step["scheduled"])


def held_longer(item: Item) -> float:
    return len(ran(item, "B")) / len(ran(item, "A"))


def balance(item: Item) -> float:
    model, dtype, tokens = sign(item)
    return 2 * params(model) / (token(model, dtype) * int(tokens))


# Times, from the log that the question shows.


def log(item: Item) -> tuple[float, float, float, float]:
    _, wait, first, last, tokens = (figure(line) for line in item.given)
    return wait, first, last, tokens


def latency(item: Item) -> float:
    first, gap, tokens = map(figure, item.given)
    return first + gap * (tokens - 1)


def goodput(item: Item) -> float:
    limit, pace = (int(one) for one in re.findall(r"(\d+) ms", item.question))
    rows = [[int(one) for one in re.findall(r"\d+", line)] for line in item.given]
    return sum(first <= limit and gap <= pace for first, gap in rows)


def rate(item: Item) -> float:
    batch, step = map(figure, item.given)
    return batch / (step / 1000)


# Heads, windows, blocks, scales.


def recomputed(item: Item) -> float:
    prompt, output = map(int, sign(item)[0].split("+"))
    return output * prompt + output * (output - 1) / 2


def window(item: Item) -> float:
    model, tokens = sign(item)
    layers, local, back, each = (
        figure(line.rpartition(" window ")[2] if "of them" in line else line) for line in item.given
    )
    assert each * layers == calc("kv_bytes_per_token", model=model)
    return each * ((layers - local) * int(tokens) + local * min(int(tokens), back))


def block(item: Item) -> float:
    model, dtype, slots = sign(item)
    return token(model, dtype) * int(slots)


def longest(item: Item) -> float:
    model, dtype, gib = sign(item)
    return int(gib) * 2**30 // int(16 * token(model, dtype)) * 16


def scales(item: Item) -> float:
    model, dtype = sign(item)
    layers, _, kv_heads, _ = shape(model)
    return token(model, dtype) + 2 * (2 * layers * kv_heads)


def share(item: Item) -> float:
    model, dtype, number = sign(item)
    return token(model, dtype, max(1, shape(model)[2] // int(number)))


def streams(item: Item) -> float:
    model, dtype, tokens, gib = sign(item)
    return int(gib) * 2**30 // (token(model, dtype) * int(tokens))


# Arithmetic and bytes of a step.


def flops(item: Item) -> float:
    """2 · P · N, and 4 · L · n_q · d for each pair of tokens that attends."""
    model, tokens = sign(item)[0], int(sign(item)[1])
    layers, heads, _, dim = shape(model)
    pairs = tokens * (tokens + 1) / 2
    return (2 * params(model) * tokens + 4 * layers * heads * dim * pairs) / 1e12


def sheet(gpu: str, dtype: str = "bf16") -> tuple[float, float]:
    spec = gpus.get(gpu)
    return spec.peaks[dtype], spec.bandwidth


def ridge(item: Item) -> float:
    peak, bandwidth = sheet(*sign(item))
    return peak / bandwidth


def attainable(item: Item) -> float:
    gpu, dtype, intensity = sign(item)
    peak, bandwidth = sheet(gpu, dtype)
    return min(peak, int(intensity) * bandwidth) / 1e12


def utilisation(item: Item) -> float:
    gpu, batch = sign(item)
    peak, bandwidth = sheet(gpu)
    return 100 * int(batch) * bandwidth / peak


def kv_read(item: Item) -> float:
    model, dtype, batch, context = sign(item)
    return token(model, dtype) * int(batch) * int(context)


def step_time(item: Item) -> float:
    model, gpu, batch, context = sign(item)
    cache_bytes = token(model, "bf16") * int(batch) * int(context)
    read = calc("decode_weight_bytes", model=model) + cache_bytes
    return 1000 * read / sheet(gpu)[1]


def measured(item: Item) -> float:
    model, gpu, context, took = sign(item)
    read = calc("decode_weight_bytes", model=model) + token(model, "bf16") * int(context)
    return 100 * read / (float(took) / 1000) / sheet(gpu)[1]


def crossing(item: Item) -> float:
    layers, heads, _, dim = shape(sign(item)[0])
    return params(sign(item)[0]) / (layers * heads * dim)


# Blocks and slots.


def grown(item: Item) -> float:
    prompt, output, slots = ints(item)
    assert (prompt + output - 1) % slots == 0
    taken = [e for s in steps(item) for e in s["events"] if e["type"] == "blocks_allocated"]
    return sum(len(event["blocks"]) for event in taken)


def slot(item: Item) -> float:
    """Where the chosen block of the table puts the token."""
    table, slots = [int(one) for one in re.findall(r"\d+", item.given[0])], figure(item.given[1])
    position = int(re.findall(r"token (\d+)", item.question)[0])
    block = table[int(position // slots)]
    assert block == item.proof.link["block"]
    return block * slots + position % slots


def edges(item: Item) -> float:
    slots, number = ints(item)
    return number * sum(range(slots)) / slots


def reserved(item: Item) -> float:
    return len(steps(item)[0]["scheduled"])


# Who runs, and what a request computes.


def of_step(item: Item, name: str | None = None) -> float:
    step = steps(item)[int(item.proof.link["step"])]["scheduled"]
    return sum(one["num_scheduled_tokens"] for key, one in step.items() if name in (None, key))


def pieces(item: Item) -> float:
    prompt, budget = ints(item)
    runs = ran(item, "A")
    assert sum(one["num_computed_tokens"] < prompt for one in runs) == ceil(prompt / budget)
    return ceil(prompt / budget)


def chunks(item: Item) -> float:
    running, prompt, budget = ints(item)
    runs = [one for one in ran(item, "N") if one["num_computed_tokens"] < prompt]
    assert len(runs) == ceil(prompt / (budget - running))
    return len(runs)


def refill(item: Item) -> float:
    """By hand: the next in line takes the place that falls free first."""
    places, *lengths = (int(one) for one in re.findall(r"\d+", item.sign.partition(" ")[2]))
    free = [0] * places
    for length in lengths:
        free.sort()
        free[0] += length
    return max(free)


def again(item: Item) -> float:
    return figure(item.given[0]) + figure(item.given[1])


# What is found again.


def saving(item: Item) -> float:
    shared, own, hits = map(float, sign(item))
    return 100 * hits * shared / (shared + own)


def gain(item: Item) -> float:
    shared, own, hits = map(float, sign(item))
    return (shared + own) / (hits * own + (1 - hits) * (shared + own))


def same_again(item: Item) -> float:
    return of_step(item, "B")


def shared_blocks(item: Item) -> float:
    number, prefix, own, slots = ints(item)
    assert prefix % slots == 0
    return prefix // slots + number * ceil(own / slots)


def working_set(item: Item) -> float:
    model, dtype, prompts, tokens = sign(item)
    return token(model, dtype) * int(prompts) * int(tokens)


def evicted(item: Item) -> float:
    documents, fit, ceiling = map(float, sign(item))
    return 100 * ceiling * fit / documents


# What is left of a GPU, how many it takes, what they cost.

OVERHEAD = 5e9
WIDTH = {"bf16": 2, "fp8": 1}


def pool_bytes(gpu: str, model: str, weights: str, util: int, tp: int = 1) -> float:
    on_each = calc("weight_bytes_per_gpu", model=model, dtype=weights, tp=tp)
    return gpus.get(gpu).visible_mib * 2**20 * util / 100 - on_each - OVERHEAD


def pool(item: Item) -> float:
    gpu, model, weights, util = sign(item)
    return pool_bytes(gpu, model, weights, int(util)) / 1e9


def two_gpus(item: Item) -> float:
    gpu, model, tokens = sign(item)
    weights = "fp8" if model == "qwen3-32b" else "bf16"
    half = token(model, "bf16", shape(model)[2] // 2) * int(tokens)
    return pool_bytes(gpu, model, weights, 92, tp=2) // half


def whole_replicas(item: Item) -> float:
    users, held_by_one, each = ints(item)
    return ceil(users / held_by_one) * each


def price(item: Item) -> float:
    hour, each, tokens, busy = map(float, sign(item))
    return hour * each / (tokens * 3600 * busy / 100) * 1e6


def larger_share(item: Item) -> float:
    gpu, _, _, low, high = sign(item)
    return gpus.get(gpu).visible_mib * 2**20 * (int(high) - int(low)) / 100 / 1e9


def lighter(item: Item) -> float:
    gpu, model, tokens = sign(item)
    sequence = token(model, "bf16") * int(tokens)
    bf16, fp8 = (pool_bytes(gpu, model, one, 92) // sequence for one in ("bf16", "fp8"))
    return fp8 - bf16


LANE = {3: 1e9 * 128 / 130, 4: 2e9 * 128 / 130, 5: 4e9 * 128 / 130, 6: 8e9 * 236 / 256}
"""Bytes a second of a lane: transfers of a bit by eight, less the line code."""

CHECKS: dict[str, Callable[[Item], float]] = {
    "serving/held": held,
    "serving/in-flight": in_flight,
    "serving/steps": held_longer,
    "serving/balance": balance,
    "metrics/ttft": lambda item: log(item)[1],
    "metrics/tpot": lambda item: (log(item)[2] - log(item)[1]) / (log(item)[3] - 1),
    "metrics/latency": latency,
    "metrics/goodput": goodput,
    "metrics/percentile": lambda item: sorted(map(figure, item.given))[ceil(0.9 * 10) - 1],
    "metrics/rate": rate,
    "attention/recompute": recomputed,
    "attention/groups": lambda item: shape(sign(item)[0])[1] / shape(sign(item)[0])[2],
    "attention/one-head": lambda item: token(*sign(item), heads=1),
    "attention/window": window,
    "roofline/ridge": ridge,
    "roofline/attainable": attainable,
    "roofline/share": utilisation,
    "roofline/kv-read": kv_read,
    "roofline/step-time": step_time,
    "roofline/measured": measured,
    "roofline/crossing": crossing,
    "kv-size/per-token": lambda item: token(*sign(item)),
    "kv-size/sequence": lambda item: token(*sign(item)[:2]) * int(sign(item)[2]),
    "kv-size/streams": streams,
    "kv-size/block": block,
    "kv-size/longest": longest,
    "kv-size/scales": scales,
    "kv-size/share": share,
    "phases/flops": flops,
    "phases/pieces": pieces,
    "phases/mixed": of_step,
    "paging/grown": grown,
    "paging/slot": slot,
    "paging/edges": edges,
    "paging/reserved": reserved,
    "batching/budget": lambda item: of_step(item, "N"),
    "batching/chunks": chunks,
    "batching/refill": refill,
    "batching/again": again,
    "prefix/saving": saving,
    "prefix/gain": gain,
    "prefix/same": same_again,
    "prefix/blocks": shared_blocks,
    "prefix/set": working_set,
    "prefix/evict": evicted,
    "planner/pool": pool,
    "planner/two": two_gpus,
    "planner/gpus": whole_replicas,
    "planner/price": price,
    "planner/share": larger_share,
    "planner/lighter": lighter,
    "numbers/gib": lambda item: ints(item)[0] * 2**30 / 1e9,
    "numbers/weights": lambda item: params(sign(item)[0]) * WEIGHTS[sign(item)[1]] / 1e9,
    "numbers/port": lambda item: ints(item)[0] * ints(item)[1] / 8,
    "numbers/pcie": lambda item: LANE[ints(item)[0]] * ints(item)[1] / 1e9,
    "numbers/per-gib": lambda item: 2**30 // token(*sign(item)),
}
WEIGHTS = {"bf16": 2, "fp8": 1, "int4": 0.5}
ELSEWHERE = {
    "phases/passes", "phases/decode-floor", "phases/batch", "phases/intensity", "paging/blocks",
    "paging/copies", "paging/waste", "paging/prefix-hits", "batching/start", "batching/idle",
    "batching/bounds",
}  # fmt: skip
"""Checked in test_bank."""


@pytest.mark.parametrize("template", CHECKS)
def test_the_right_number_comes_out_again(template: str) -> None:
    for seed in SEEDS:
        item = bank.make(template, seed)
        text = item.option(RIGHT).text
        places = len(re.search(r"\d[\d,]*\.?(\d*)", text).group(1))  # type: ignore[union-attr]
        # As shown: to its last digit, and where it is whole from 1,000 on exactly.
        assert right(item) == pytest.approx(CHECKS[template](item), abs=0.51 * 10**-places), seed


def test_no_number_of_these_topics_goes_unchecked() -> None:
    numeric = {
        name for topic in HERE for name in bank.topics()[topic].templates if bank.varies(name)
    }
    assert numeric == {*CHECKS} | ELSEWHERE


def test_the_rule_without_a_cache_is_that_of_the_recorded_run(root: Path) -> None:
    run = read_run(root / "runs" / "kv_cache_off.run.json.gz")
    ((name, prompt),) = run.header["prompts"].items()
    computed = [step["scheduled"][name]["num_scheduled_tokens"] for step in run.steps]
    assert sum(computed) == without_cache(len(prompt), len(computed))


def test_what_questions_in_words_say_in_numbers_is_so() -> None:
    layer = calc("block_bytes", model="llama-3-70b", dtype="fp8", scope="layer")
    assert layer == 16 * 8 * 128 * 2 == 32 * 2**10
    assert calc("block_bytes", model="llama-3-70b", dtype="fp8") == 80 * layer == 2.5 * 2**20
    assert shape("llama-3-70b") == (80, 64, 8, 128)
    assert round(100 * (2**30 / 1e9 - 1), 1) == 7.4
