"""All figures of the planner for one place, from the library; the same place costs nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from core.sizing import catalog, gpus
from core.sizing.advice import advise
from core.sizing.deployment import Deployment
from core.sizing.design import Design, design, full_plan
from core.sizing.plan import Plan, plan
from core.sizing.rules import Finding
from ui.planner.place import UNKNOWN, Place

_AWQ: dict[str, Any] = {
    "weight_dtype": "int4",
    "group_size": 128,
    "scale_bytes": 2,
    "zero_bytes": 0.5,
    "embedding_dtype": "bf16",
}
"""As AWQ files are: a scale of 16 bits and a zero point of 4 to 128 numbers, embeddings in 16."""


@dataclass(frozen=True)
class Planned:
    """One place, computed. whole: the plan of all replicas, with its users."""

    place: Place
    design: Design
    whole: Plan
    findings: tuple[Finding, ...]

    @property
    def plan(self) -> Plan:
        return self.design.plan


def limits(place: Place) -> tuple[float | None, float | None]:
    """Seconds to the first token and between tokens; None where there is no limit."""
    return (place.ttft / 1000 or None), (place.itl / 1000 or None)


def deployment(place: Place) -> Deployment:
    """The deployment that the controls describe, without its replicas. Raises SizingError."""
    ttft, itl = limits(place)
    weights: dict[str, Any] = _AWQ if place.w == "awq" else {"weight_dtype": place.w}
    return Deployment(
        catalog.get(place.model),
        gpus.get(place.gpu),
        tp=place.tp,
        attention_dp=place.adp,
        context=place.ctx,
        prompt=place.p or None,
        prefix_tokens=place.sys,
        kv_dtype=place.kv,
        gpu_memory_utilization=place.util / 100,
        block_size=place.bs,
        max_num_seqs=place.seqs,
        max_num_batched_tokens=place.batch,
        users=place.users,
        ttft_s=ttft,
        itl_s=itl,
        allocator=place.alloc,
        prefix_cache=place.alloc == "paged",
        eviction=place.evict,
        offload=place.off or None,
        hit_rate=None if place.hit == UNKNOWN else place.hit / 100,
        evaluated=bool(place.ev),
        disaggregated=bool(place.dis),
        price_per_gpu_hour=place.price,
        **weights,
    )


@lru_cache(maxsize=1024)
def designed(place: Place) -> Design:
    """Raises SizingError where the model cannot be laid out so."""
    one = _replica(of_a_replica(place))
    return design(deployment(place), place.r or None, one)


def of_a_replica(place: Place) -> Place:
    """Only what a replica's plan depends on: equal for two places that differ in users, limits or
    prices."""
    same = replace(alone(place), users=1, r=0, ttft=0, itl=0, price=1.0)
    return replace(same, ev=0, dis=0, off="", evict="lru", hit=UNKNOWN)


@lru_cache(maxsize=2048)
def _replica(place: Place) -> Plan:
    """The plan of one replica: moving users, limits or prices plans nothing again."""
    return plan(deployment(place))


def alone(place: Place) -> Place:
    """Without what changes nothing of a design: two places that differ in it are one."""
    return replace(place, gpu2="", price2=3.0, y="itl")


@lru_cache(maxsize=128)
def planned(place: Place) -> Planned:
    """Raises SizingError as `designed` does."""
    made = designed(alone(place))
    whole = full_plan(made, deployment(place))
    return Planned(place, made, whole, tuple(advise(whole)))


def cached_tokens(of: Plan) -> int:
    """Tokens of a prompt that the prefix cache has: whole blocks, and never the last one."""
    if of.prefill_hit is None:
        return 0
    computed = next(one.value for one in of.prefill_hit.symbols if one.symbol == "N")
    assert isinstance(computed, int)
    return of.deployment.prompt_tokens - computed


def _published(place: Place) -> re.Match[str] | None:
    return re.search(r"huggingface\.co/([\w.-]+/[\w.-]+)", catalog.entries()[place.model].source)


def is_published(place: Place) -> bool:
    """Whether a server can be given the model by the name of its repository."""
    return _published(place) is not None


def repository(place: Place) -> str:
    """Where the model's config comes from, as a server takes it; its name here if unknown."""
    found = _published(place)
    return found.group(1) if found else place.model


def model_title(place: Place) -> str:
    return catalog.entries()[place.model].title


def gpu_title(name: str) -> str:
    """A GPU's name, short enough for a point of a chart."""
    title = gpus.get(name).title.split(" (")[0]
    return title.replace("NVIDIA ", "").replace("AMD Instinct ", "")
