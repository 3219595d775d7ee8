"""What else there is: the plan with one thing changed, and a grid of plans against each other."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from core.sizing import catalog
from core.sizing.design import Design, dominated
from core.sizing.errors import SizingError
from ui.planner import figures
from ui.planner.place import TPS, WEIGHTS, Place, whole
from ui.sizing.place import KV_FORMATS
from ui.sizing.shown import Json

_GRID_TPS = (1, 2, 4, 8)
_GRID_KV = ("bf16", "fp8")


def changes(place: Place) -> list[tuple[str, str, dict[str, str]]]:
    """(group, what changes, as the link says it), of this place."""
    out: list[tuple[str, str, dict[str, str]]] = []
    for name in ("bf16", "fp8", "int4_per_token_head"):
        if name != place.kv:
            out.append(("Quantisation", f"Cache in {KV_FORMATS[name]}", {"kv": name}))
    for name in ("bf16", "fp8", "awq"):
        if name != place.w:
            out.append(("Quantisation", f"Weights in {WEIGHTS[name].split(',')[0]}", {"w": name}))
    if place.sys:
        out.append(("Sharing", "Nothing shared", {"sys": "0"}))
    if place.sys < place.ctx // 2:
        half = place.ctx // 2
        out.append(("Sharing", f"{half:,} tokens shared", {"sys": str(half)}))
    for tp in TPS:
        if tp in (place.tp // 2, place.tp * 2):
            out.append(("Parallelism", f"{tp} GPU{'s' * (tp > 1)} to a replica", {"tp": str(tp)}))
    if place.tp > 1:
        groups = place.tp if place.adp == 1 else 1
        name = f"Attention in {groups} groups" if groups > 1 else "Attention over all GPUs"
        out.append(("Parallelism", name, {"adp": str(groups)}))
    count = figures.planned(place).design.replicas
    if count > 1:
        out.append(("Replicas", f"{count - 1:,}, one fewer", {"r": str(count - 1)}))
    if count:
        out.append(("Replicas", f"{count + 1:,}, one more", {"r": str(count + 1)}))
    return out


def table(place: Place) -> list[Json]:
    """The present plan first, then each change: [{group, name, set, …figures or why}]."""
    rows = [{"group": "", "name": "The present plan", "set": {}, **row(place, place)}]
    for group, name, change in changes(place):
        values = {key: type(getattr(place, key))(v) for key, v in change.items()}
        other = whole(replace(place, **values))
        rows.append({"group": group, "name": name, "set": change, **row(other, place)})
    return rows


def row(other: Place, now: Place) -> Json:
    """The figures of a design, or why there is none."""
    try:
        made = figures.designed(figures.alone(other))
    except SizingError as exc:
        return {"why": f"{exc}"}
    return {**of(made), "meets": made.meets(*figures.limits(now))}


def of(made: Design) -> Json:
    """A design in numbers. each: sequences of a replica; held: of all; seconds and currency."""
    return {
        "each": made.plan.batch,
        "held": made.streams,
        "holds": made.holds,
        "replicas": made.replicas,
        "gpus": made.num_gpus,
        "price": None if made.price is None else made.price.value,
        "ttft": made.first_token.value,
        "itl": None if made.step is None else made.step.value,
    }


def frontier(place: Place) -> list[Json]:
    """All plans of the grid that hold the users: [{label, set, now, dominated, …figures}].

    GPUs of one or two kinds, tp, formats of weights and cache; replicas as many as needed.
    """
    points = [dict(one) for one in _points(figures.alone(place), place.gpu2, place.price2)]
    for one in points:
        one["latency"] = one[place.y]
    beaten = dominated([(one["price"], one["latency"]) for one in points])
    for one, lost in zip(points, beaten, strict=True):
        one["dominated"] = lost
    return points


@lru_cache(maxsize=64)
def _points(place: Place, gpu2: str, price2: float) -> tuple[Json, ...]:
    out = []
    kinds = [(place.gpu, place.price)]
    if gpu2 and gpu2 != place.gpu:
        kinds.append((gpu2, price2))
    for gpu, price in kinds:
        for tp in _GRID_TPS:
            for w in _weights(place):
                for kv in _GRID_KV:
                    made = _made(
                        whole(replace(place, gpu=gpu, price=price, tp=tp, w=w, kv=kv, r=0))
                    )
                    if made is None:
                        continue
                    same = (gpu, tp, w, kv) == (place.gpu, place.tp, place.w, place.kv)
                    change = {"gpu": gpu, "price": f"{price:g}", "tp": str(tp), "w": w, "kv": kv}
                    out.append(
                        {
                            **of(made),
                            "meets": made.meets(*figures.limits(place)),
                            "label": f"{made.num_gpus} × {figures.gpu_title(gpu)}, tp {tp}, "
                            f"weights {WEIGHTS[w].split(',')[0]}, cache {KV_FORMATS[kv]}",
                            "kind": int(gpu != place.gpu),
                            "set": {**change, "r": "0"},
                            "now": same and made.replicas == _replicas(place),
                        }
                    )
    return tuple(out)


def _replicas(place: Place) -> int:
    return figures.designed(place).replicas


def _weights(place: Place) -> list[str]:
    """BF16, FP8 and AWQ, and the published format where it is none of these."""
    out = ["bf16", "fp8", "awq"]
    if place.w == "checkpoint" or catalog.get(place.model).warnings:
        out.append("checkpoint")
    return out


def _made(place: Place) -> Design | None:
    """A design that holds its users and takes time; None if there is none."""
    try:
        made: Any = figures.designed(place)
    except SizingError:
        return None
    if not made.holds or made.step is None or made.first_token.value is None:
        return None
    return made
