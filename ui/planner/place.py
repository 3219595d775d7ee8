"""What a link to the capacity planner can say, and the safe way back from one.

    ?users=200 &ctx=4096 &sys=1024 &p=3072     who is served: tokens of each, of them shared, prompt
    &ttft=400 &itl=50 &price=2                 limits in milliseconds (0: none), price of a GPU hour
    &model=llama-3-70b &gpu=h100-sxm5          what serves them
    &adp=2                                     attention groups of a replica's GPUs
    &tp=2 &r=0 &w=fp8 &kv=fp8                  GPUs of a replica, replicas (0: as many as needed)
    &seqs=256 &batch=8192 &bs=16 &util=92      the engine's settings
    &alloc=paged &evict=lru &off=dram-pcie5    allocator, eviction, where preempted sequences go
    &hit=85 &ev=1 &dis=1                       hit rate in percent; the quantised cache was
                                               evaluated; prefill and decode on GPUs of their own
    &gpu2=h200-sxm &price2=3                   a second GPU on the chart
    &y=ttft                                    the chart's latency: between tokens, or the first

Whatever cannot be read is left out and named in one sentence; the rest of the link counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from core.sizing import catalog, gpus, tiers
from core.sizing.deployment import ALLOCATORS, EVICTIONS
from ui.kit import address
from ui.sizing.place import KV_FORMATS

WEIGHTS = {
    "checkpoint": "as published",
    "bf16": "BF16",
    "fp8": "FP8",
    "awq": "AWQ INT4, groups of 128",
}
TPS = (1, 2, 4, 8, 16)
UNKNOWN = -1
LATENCIES = {"itl": "between tokens", "ttft": "first token"}


@dataclass(frozen=True)
class Place:
    """The page's controls, under the names of the link. p: tokens of the prompt, 0: all of the
    context. r: replicas, 0: as many as the users need. ttft, itl: milliseconds, 0: no limit. gpu2:
    "" for none. util: percent of a GPU's memory that the engine may use. hit: percent, UNKNOWN if
    it is not known. off: a tier, "" for none. adp: groups of a replica's GPUs, each
    of which attends for sequences of its own; 1: all split the heads of every sequence."""

    users: int = 200
    ctx: int = 4096
    sys: int = 1024
    p: int = 0
    ttft: int = 400
    itl: int = 50
    price: float = 2.0
    model: str = "llama-3-70b"
    gpu: str = "h100-sxm5"
    tp: int = 2
    adp: int = 1
    r: int = 0
    w: str = "fp8"
    kv: str = "fp8"
    seqs: int = 256
    batch: int = 8192
    bs: int = 16
    util: int = 92
    alloc: str = "paged"
    evict: str = "lru"
    off: str = ""
    hit: int = UNKNOWN
    ev: int = 0
    dis: int = 0
    gpu2: str = ""
    price2: float = 3.0
    y: str = "itl"


DEFAULT = Place()
"""The chapter's 200 users, with the weights in FP8."""

EXAMPLES = {
    "start": ("200 users, FP8 weights", DEFAULT),
    "one": ("The chapter: one H100", Place(tp=1, r=1, w="awq")),
    "pairs": ("The chapter: two pairs", Place(tp=2, r=2, w="awq")),
    "forty": (
        "The chapter: 40B, 8K, one H100",
        Place(ctx=8192, sys=0, model="custom-40b", tp=1, r=1),
    ),
    "code": (
        "40 coders, 8B on one H200",
        Place(
            users=40, ctx=16384, sys=2048, ttft=800, itl=30, model="llama-3.1-8b", gpu="h200-sxm",
            tp=1, w="checkpoint", kv="bf16",
        ),
    ),
    "long": (
        "20 readers of 100K tokens",
        Place(users=20, ctx=100_000, sys=0, ttft=0, model="llama-3.1-70b", gpu="h200-sxm", tp=4),
    ),
    "latent": (
        "DeepSeek-V3 on 8 × H200",
        Place(ctx=8192, ttft=1000, model="deepseek-v3", gpu="h200-sxm", tp=8, w="checkpoint",
              kv="bf16"),
    ),
    "apart": (
        "DeepSeek-V3, attention apart",
        Place(ctx=8192, ttft=1000, model="deepseek-v3", gpu="h200-sxm", tp=8, adp=8,
              w="checkpoint", kv="bf16"),
    ),
}  # fmt: skip
"""Name → title and place."""

NAMES = tuple(one.name for one in fields(Place))
_LIMITS = {
    "users": (1, 100_000),
    "ctx": (1, 1 << 20),
    "sys": (0, 1 << 20),
    "p": (0, 1 << 20),
    "ttft": (0, 600_000),
    "itl": (0, 60_000),
    "r": (0, 1024),
    "seqs": (1, 65_536),
    "batch": (1, 1 << 20),
    "bs": (1, 256),
    "util": (10, 100),
    "hit": (0, 100),
    "ev": (0, 1),
    "dis": (0, 1),
}
_PRICES = ("price", "price2")
MOST_PRICE = 10_000


def _number(name: str, raw: str) -> int | None:
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 8):
        return None
    low, high = _LIMITS[name]
    return int(raw) if low <= int(raw) <= high else None


def _price(raw: str) -> float | None:
    plain = raw.isascii() and len(raw) <= 8 and raw.replace(".", "", 1).isdigit()
    value = round(float(raw), 4) if plain else 0.0
    return value if 0 < value <= MOST_PRICE else None


def value_of(name: str, raw: str) -> Any:
    """The value of one parameter, or None if it cannot be what the page can show."""
    if name == "hit" and raw == "":
        return UNKNOWN
    if name in _LIMITS:
        return _number(name, raw)
    if name in _PRICES:
        return _price(raw)
    if name in ("tp", "adp"):
        return int(raw) if raw in {str(count) for count in TPS} else None
    known: dict[str, Any] = {
        "model": catalog.entries(),
        "gpu": gpus.names(),
        "gpu2": ("", *gpus.names()),
        "w": WEIGHTS,
        "kv": KV_FORMATS,
        "y": LATENCIES,
        "alloc": ALLOCATORS,
        "evict": EVICTIONS,
        "off": ("", *tiers.names()),
    }
    return raw if raw in known[name] else None


def whole(place: Place) -> Place:
    """The place with what must fit the context made to fit it, nothing shared where the allocator
    cannot, and no more groups than GPUs."""
    shared = 0 if place.alloc == "contiguous" else min(place.sys, place.ctx)
    return replace(place, sys=shared, p=min(place.p, place.ctx), adp=min(place.adp, place.tp))


def read(params: Mapping[str, str]) -> tuple[Place, str | None]:
    """What the address asks for, and a sentence about what it asks in vain."""
    found, notice = address.sort(params, NAMES, value_of)
    return whole(Place(**found)), notice


def taken(place: Place, sent: object) -> Place:
    """The place after a control was moved; what it cannot say is not taken."""
    if not isinstance(sent, dict):
        return place
    name = sent.get("example")
    if isinstance(name, str) and name in EXAMPLES:
        return EXAMPLES[name][1]
    found = {
        name: value
        for name, raw in sent.items()
        if isinstance(name, str)
        and name in NAMES
        and isinstance(raw, str)
        and (value := value_of(name, raw)) is not None
    }
    return whole(replace(place, **found))


def written(place: Place) -> dict[str, str]:
    """The place as parameters of the address, without what is as by default."""
    out = {}
    for name in NAMES:
        value = getattr(place, name)
        if value != getattr(DEFAULT, name):
            out[name] = f"{value:g}" if isinstance(value, float) else str(value)
    return out
