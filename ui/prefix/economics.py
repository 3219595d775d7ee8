"""What the formula of prefix caching says of a workload, beside what two runs of it measured.

Two runs of the same requests on the same machine, cache on and off. The formula knows tokens and
FLOP; the runs know milliseconds. Nothing here is typed in, and nothing of the formula is taken from
what the run found: S and U are read off the prompts, and h follows from them, as every prompt but
the first can hit. So the run may contradict it.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from core.sizing import catalog, prefix
from core.sizing.geometry import ModelSpec
from core.trace.prefix_metrics import Lookup, first_token_us, lookups, step_us

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """First-token times in ms, with the cache and without."""

    id: str
    prompt: int
    found: int
    with_ms: float
    without_ms: float


@dataclass(frozen=True, slots=True)
class Saving:
    """Of one workload. Shares are of all prompts. hit_*: of the requests that found something.

    S: tokens that all prompts begin with; U: tokens of their own, on average; h: share of the
    requests that can find the prefix, (n − 1) / n; measured_h: share of those that found something.
    formula_tokens, measured_tokens: share of prompt tokens not computed. formula_flops: share of
    prefill FLOP. measured_time: share of first-token time.
    """

    requests: tuple[Request, ...]
    S: int
    U: float
    h: float
    measured_h: float
    block_size: int
    formula_tokens: float
    measured_tokens: float
    formula_flops: float | None
    measured_time: float
    hit_flops: float | None
    hit_time: float
    parts: dict[str, tuple[float, float]]
    decode_ms: float


def common_prefix(prompts: list[list[int]]) -> int:
    """Tokens that all prompts begin with."""
    shortest = min(map(len, prompts))
    first = prompts[0]
    return next(
        (i for i in range(shortest) if any(p[i] != first[i] for p in prompts)),
        shortest,
    )


def model_of(header: Json) -> ModelSpec | None:
    """The geometry of the model that made a run, where the catalogue has it."""
    name = header["source"].get("model")
    return catalog.get(name) if name in catalog.names() else None


def saving(with_cache: Json, without: Json) -> Saving:
    """The workload of two runs of the same requests. Raises ValueError if they are not."""
    header = with_cache["header"]
    prompts = header["prompts"]
    if prompts != without["header"]["prompts"]:
        raise ValueError("the two runs do not have the same prompts")
    found = {one.request: one for one in lookups(with_cache) if not one.resumed}
    on, off = first_token_us(with_cache), first_token_us(without)
    requests = tuple(
        Request(name, len(prompts[name]), found[name].num_cached_tokens, on[name] / 1e3, t / 1e3)
        for name, t in off.items()
    )
    hits = [one for one in requests if one.found]
    block_size = header["scenario"]["engine"]["block_size"]
    shared = common_prefix(list(prompts.values()))
    own = sum(map(len, prompts.values())) / len(prompts) - shared
    share = (len(requests) - 1) / len(requests)
    total = sum(r.prompt for r in requests)
    tokens = sum(
        prefix.prefill_reduction(shared, r.prompt - shared, share, block_size).value * r.prompt  # type: ignore[operator]
        for r in requests
    )
    model = model_of(header)
    flops = hit_flops = None
    if model is not None:
        whole = [
            prefix.prefill_flop_reduction(model, shared, r.prompt - shared, share, block_size)
            for r in requests
        ]
        flops = sum(one.value for one in whole) / len(whole)  # type: ignore[misc]
        each = [
            prefix.prefill_flop_reduction(model, r.found, r.prompt - r.found, 1.0, block_size)
            for r in hits
        ]
        hit_flops = sum(one.value for one in each) / len(each) if each else None  # type: ignore[misc]
    return Saving(
        requests=requests,
        S=shared,
        U=own,
        h=share,
        measured_h=len(hits) / len(requests),
        block_size=block_size,
        formula_tokens=tokens / total,
        measured_tokens=sum(r.found for r in requests) / total,
        formula_flops=flops,
        measured_time=_less(requests),
        hit_flops=hit_flops,
        hit_time=_less(hits),
        parts=_parts(with_cache, without, {r.id: found[r.id] for r in hits}),
        decode_ms=_decode_ms(without),
    )


def _less(requests: Any) -> float:
    """The share of first-token time that the cache has saved."""
    without = sum(r.without_ms for r in requests)
    return 1 - sum(r.with_ms for r in requests) / without if without else 0.0


PARTS = {"linear_us": "matrix products", "attention_us": "attention", "other_us": "all else"}
WHOLE = {"forward_us": "forward pass"}
"""Where a step ran as a CUDA graph, nobody saw its parts."""


def _parts(
    with_cache: Json, without: Json, hits: dict[str, Lookup]
) -> dict[str, tuple[float, float]]:
    """Mean milliseconds of the steps in which the hits were let in, by part: with, without."""
    if not hits:
        return {}
    steps = [one.step for one in hits.values()]
    on, off = ([run["steps"][k]["timing"] for k in steps] for run in (with_cache, without))
    timed = all(PARTS.keys() <= timing.keys() for timing in (*on, *off))
    return {
        name: (_mean_ms(on, key), _mean_ms(off, key))
        for key, name in (PARTS if timed else WHOLE).items()
    }


def _mean_ms(timings: list[Json], key: str) -> float:
    return float(sum(timing[key] for timing in timings)) / len(timings) / 1e3


def _decode_ms(run: Json) -> float:
    """The median step that computes one token: the floor below which no first token comes."""
    single = [
        step_us(step)
        for step in run["steps"]
        if [s["num_scheduled_tokens"] for s in step["scheduled"].values()] == [1]
    ]
    return median(single) / 1e3 if single else 0.0
