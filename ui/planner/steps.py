"""The plan step by step: each number with its arithmetic, and what the chapter says of it."""

from __future__ import annotations

from core.sizing.result import Result, Step
from ui.claims import ledger
from ui.planner.figures import Planned
from ui.planner.place import DEFAULT, Place
from ui.sizing.shown import Json, figure

_SCOPES = {"replica": "a replica", "fleet": "all replicas"}
_SAME = ("users", "ctx", "sys", "model", "gpu")
"""What makes a plan the chapter's: 200 users of 4K on H100, a prompt of 1,024 tokens shared."""

CLAIMS = {
    "weights": ("B143", "B144"),
    "weights_gpu": ("B151", "B156"),
    "pool": ("B145", "B152"),
    "sequence": ("B146",),
    "held": ("B147", "B157"),
    "gpus": ("B153",),
    "prefill": ("B159", "B160"),
    "prefill_hit": ("B161",),
}
"""Step → the claims of the chapter's example that speak of it."""


_VERDICTS = {"stripped": "number lost", "unverifiable": "no formula decides"}
"""Those that the ledger calls by other words."""


def is_chapters(place: Place) -> bool:
    """Whether the ledger's claims about the example apply."""
    return all(getattr(place, name) == getattr(DEFAULT, name) for name in _SAME)


def scoped(result: Result, label: str) -> Json:
    """A figure that says which of several replicas' GPUs it is of."""
    found = figure(result, label)
    return {**found, "scope": _SCOPES.get(found["scope"], found["scope"])}


def verdict(id: str) -> str:
    """The ledger's verdict on a claim, in words."""
    found = ledger.judged()[id].verdict
    return _VERDICTS.get(found, found.replace("-", " "))


def _lines(name: str, one: Result) -> list[str]:
    """The last step, and for replicas and their bounds the one that it rests on."""
    last = one.steps[-2:] if name in ("streams", "gpus") else one.steps[-1:]
    if name == "streams" and one.steps[-1].value == one.steps[-2].value:
        last = last[:1]  # one scheduler
    return [_equation(step, name == "gpus") for step in last]


def _equation(step: Step, whole: bool) -> str:
    said = f"{step.formula} = {step.substituted}" if step.substituted else step.formula
    if whole:
        unit = step.unit.removesuffix("s") if step.value == 1 else step.unit
        return f"{said} = {step.value} {unit}"
    return f"{said} s" if step.unit == "s" else said


def steps(done: Planned) -> list[Json]:
    """[{id, figure, lines, claims: [[id, verdict]]}] in the order in which one plans. lines: the
    arithmetic that leads to the figure from those before it, values put in."""
    plan, made = done.plan, done.design
    rows: list[tuple[str, str, Result | None]] = [
        ("weights", "weights, whole model", plan.weights),
        ("weights_gpu", "weights on a GPU", plan.weights_per_gpu),
        ("overhead", "neither weights nor cache", plan.overhead),
        ("pool", "left for the cache, a GPU", plan.kv_pool_per_gpu),
        ("token", "a token, whole model", plan.kv_per_token),
        ("sequence", "a sequence, whole model", plan.kv_per_sequence),
        ("sequence_gpu", "a sequence in the pool of a GPU", plan.sequence_in_pool),
        ("held", "sequences that the memory of a replica holds", plan.held),
        ("streams", "sequences that a replica runs at once", plan.streams),
        ("gpus", "GPUs for all users", made.gpus),
        ("prefill", "first token, nothing cached", plan.prefill),
        ("prefill_hit", "first token, shared prompt cached", plan.prefill_hit),
        ("itl", "between two tokens, all users there", made.step),
        ("price", "an hour of all GPUs", made.price),
    ]
    known = CLAIMS if is_chapters(done.place) else {}
    return [
        {
            "id": name,
            "figure": scoped(one, label),
            "lines": _lines(name, one),
            "claims": [[id, verdict(id)] for id in known.get(name, ())],
        }
        for name, label, one in rows
        if one is not None
    ]
