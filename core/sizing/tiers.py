"""Tiers of memory in which a KV cache can wait: how long it takes back, and what it costs to keep.

The table's rates, latencies and prices are other people's (`data/tiers.json`, each with source and
date); the functions take one's own in their place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

from core.sizing import checks
from core.sizing.compute import prefill_work
from core.sizing.geometry import ModelSpec
from core.sizing.kv_format import KVDtype
from core.sizing.links import load, named
from core.sizing.result import CONVENTION, LITERATURE, Result, Step, Symbol, symbols
from core.sizing.text import num, short
from core.sizing.transfer import sequence_bytes


@dataclass(frozen=True, slots=True)
class Tier:
    """bytes_per_s: one way, of one device or link. latency_s: until the first byte, (low, high).
    price_per_gb: to buy one GB (10⁹ B), (low, high), an example of its date."""

    name: str
    title: str
    bytes_per_s: float
    latency_s: tuple[float, float]
    price_per_gb: tuple[float, float]
    basis: str
    source: str
    date: str


def names() -> tuple[str, ...]:
    """From fast to slow."""
    return tuple(_tiers())


def get(name: str, path: str = "tier") -> Tier:
    """A tier by name. Raises SizingError with near matches."""
    return named(_tiers(), name, path, "tier")


@cache
def _tiers() -> dict[str, Tier]:
    rows = (
        {**row, "latency_s": tuple(row["latency_s"]), "price_per_gb": tuple(row["price_per_gb"])}
        for row in load("tiers")["tiers"]
    )
    return {row["name"]: Tier(**row) for row in rows}


def tier_reload_time(
    model: ModelSpec,
    tokens: int,
    dtype: KVDtype,
    tier: str,
    links: int = 1,
    bandwidth: float | None = None,
    latency_s: float | None = None,
) -> Result:
    """Seconds until a sequence's KV is back in GPU memory from a tier.

    bandwidth (of one link) and latency_s replace the table's, whose latency is the higher one.
    """
    place = get(tier)
    rate = place.bytes_per_s if bandwidth is None else checks.positive(bandwidth, "bandwidth")
    late = place.latency_s[1] if latency_s is None else checks.number(latency_s, "latency_s")
    links = checks.whole(links, "links", 1)
    size = sequence_bytes(model, tokens, dtype)
    moving = size / (rate * links)
    value = late + moving
    own = bandwidth is not None and latency_s is not None
    return Result(
        value,
        "s",
        symbols(
            ("K", "KV of the sequence", size, "B"),
            ("r", place.title, rate, "B/s"),
            ("n", "links", links),
            ("t₀", "latency", late, "s"),
        ),
        (
            Step("K / (n · r)", f"{num(size)} / ({links} · {num(rate)})", moving, "s"),
            Step("t₀ + K / (n · r)", f"{num(late)} + {num(moving)}", value, "s"),
        ),
        basis="arithmetic" if own else place.basis,
        source="" if own else f"{place.source} ({place.date})",
    )


def tier_price(
    model: ModelSpec, tokens: int, dtype: KVDtype, tier: str, price_per_gb: float | None = None
) -> Result:
    """Dollars to buy the memory that keeps one sequence in a tier. price_per_gb: one's own."""
    place = get(tier)
    size = sequence_bytes(model, tokens, dtype)
    low, high = place.price_per_gb
    price = (
        (low + high) / 2 if price_per_gb is None else checks.number(price_per_gb, "price_per_gb")
    )
    value = size / 1e9 * price
    asked = price_per_gb is None
    return Result(
        value,
        "$",
        symbols(
            ("K", "KV of the sequence", size, "B"), ("p", "price of one GB (10⁹ B)", price, "$/GB")
        ),
        (Step("K / 10⁹ · p", f"{num(size)} / 1e9 · {num(price)}", value, "$"),),
        notes=(f"an example of {place.date}, {short(low)} to {short(high)} $/GB: give your own",)
        if asked
        else (),
        basis=LITERATURE if asked else "arithmetic",
        source=f"{place.source} ({place.date})" if asked else "",
    )


def reload_over_recompute(
    model: ModelSpec, tokens: int, dtype: KVDtype, tier: str, flops: float, links: int = 1
) -> Result:
    """Reload time over the time to prefill the sequence again; below 1 the tier is worth having.

    flops: FLOP/s that prefill reaches on all GPUs together.
    """
    tokens = checks.whole(tokens, "tokens", 1)
    flops = checks.positive(flops, "flops")
    back = tier_reload_time(model, tokens, dtype, tier, links)
    assert back.value is not None
    work = prefill_work(model, tokens)
    again = work.total / flops
    value = back.value / again
    return replace(
        back,
        value=value,
        unit="x",
        symbols=(
            *back.symbols,
            Symbol("F", "FLOPs to compute it again", work.total, "FLOP"),
            Symbol("C", "FLOP/s reached", flops, "FLOP/s"),
        ),
        steps=(
            *back.steps,
            Step("recompute = F / C", f"{num(work.total)} / {num(flops)}", again, "s"),
            Step("reload / recompute", f"{num(back.value)} / {num(again)}", value, "x"),
        ),
        notes=("reload" if value < 1 else "recompute", *work.notes),
    )


def prefetch_steps(reload_s: float, step_s: float) -> Result:
    """Decode steps of the other requests behind which a reload is hidden.

    A step serves all running requests at once, so it is the step's time that counts, not the time
    per token: 2,000 tok/s over 40 requests are steps of 20 ms, not of 0.5 ms.
    """
    reload_s = checks.number(reload_s, "reload_s")
    step_s = checks.positive(step_s, "step_s")
    value = math.ceil(reload_s / step_s - 1e-12)
    return Result(
        value,
        "steps",
        symbols(("t_r", "reload", reload_s, "s"), ("t_d", "decode step", step_s, "s")),
        (Step("⌈t_r / t_d⌉", f"⌈{num(reload_s)} / {num(step_s)}⌉", value, "steps"),),
        notes=("hidden if the request is known to resume that many steps ahead",),
    )


def break_even_interval(
    model: ModelSpec,
    tokens: int,
    dtype: KVDtype,
    flops: float,
    price_per_gpu_hour: float,
    n_gpu: int,
    price_per_gb_hour: float,
) -> Result:
    """Seconds between two uses up to which keeping a sequence is cheaper than computing it again.

    The five-minute rule (Gray, Putzolu 1987) for KV: memory is rented by the byte-second, prefill
    by the GPU-second. Prices in one currency; price_per_gb_hour of the memory it waits in.
    """
    tokens = checks.whole(tokens, "tokens", 1)
    flops = checks.positive(flops, "flops")
    price = checks.number(price_per_gpu_hour, "price_per_gpu_hour")
    n_gpu = checks.whole(n_gpu, "n_gpu", 1)
    rent = checks.positive(price_per_gb_hour, "price_per_gb_hour")
    size = sequence_bytes(model, tokens, dtype)
    if size == 0:
        return Result(None, "s", notes=("there is nothing to keep",))
    work = prefill_work(model, tokens)
    seconds = work.total / flops
    again = seconds * price * n_gpu / 3600
    keeping = size / 1e9 * rent / 3600
    value = again / keeping
    return Result(
        value,
        "s",
        symbols(
            ("K", "KV of the sequence", size, "B"),
            ("F", "FLOPs to compute it again", work.total, "FLOP"),
            ("C", "FLOP/s reached", flops, "FLOP/s"),
            ("p", "price of a GPU hour", price, "$/h"),
            ("n", "GPUs", n_gpu),
            ("m", "price of a GB hour", rent, "$/GB/h"),
        ),
        (
            Step(
                "recompute = F / C · p · n / 3600",
                f"{num(seconds)} · {num(price)} · {n_gpu} / 3600",
                again,
                "$",
            ),
            Step(
                "keep, per second = K / 10⁹ · m / 3600",
                f"{num(size)} / 1e9 · {num(rent)} / 3600",
                keeping,
                "$/s",
            ),
            Step("recompute / keep", f"{num(again)} / {num(keeping)}", value, "s"),
        ),
        notes=("memory that would stand empty anyway costs nothing: then keep it always",),
        basis=CONVENTION,
        source="Gray, Putzolu 1987, The 5 Minute Rule for Trading Memory for Disc Accesses",
    )
