"""What a guess of the prediction shows: the library's answer, or the misconception that leads to
another. Plain functions: no widgets."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ui.roofline import figures
from ui.roofline.place import DEFAULT, Place

MANY = 256
"""A batch just below the ridge of the H100."""
CASE = replace(DEFAULT, roofs=("h100-sxm5:bf16",), b=MANY)
"""What the question asks about: an 8B model in BF16 on one H100."""
BOUNDS = ("Memory", "Compute")
NONE = "None"
ATTENTION = ("The same", "A larger one", NONE)
NEAR = 0.05
"""A batch that is off by no more than this share counts as right."""


def bound(place: Place, point: str) -> str:
    """What limits a kind of work there, in the word of `BOUNDS`."""
    found = next(one for one in figures.points(place) if one.id == point)
    assert found.reaches is not None  # the model of the question has all four
    return found.reaches.notes[0].removeprefix("bound by ").capitalize()


@cache
def answers() -> dict[str, str]:
    """Field → the right one: decode at batch 1, at MANY, and prefill, the matrices of each."""
    return {
        "one": bound(replace(CASE, b=1), "decode-matrices"),
        "many": bound(CASE, "decode-matrices"),
        "prefill": bound(CASE, "prefill-matrices"),
    }


@cache
def reach() -> int:
    """The batch at which the matrices of decode reach the ridge."""
    value = figures.of_roof(CASE, CASE.roofs[0])["tokens that reach the ridge"].value
    assert isinstance(value, int)
    return value


@cache
def slips() -> dict[str, int]:
    """Section of the lesson → the batch that leads to it."""
    eight = replace(CASE, w="fp8")
    sparse = figures.sparse_ridge(CASE.roofs[0])
    half = figures.of_roof(eight, CASE.roofs[0])["tokens that reach the ridge"].value
    assert isinstance(half, int) and sparse is not None
    return {"wrong-batch-one": 1, "wrong-batch-half": half, "wrong-batch-twice": round(sparse)}


def feedback(one: str, many: str, prefill: str, batch: int) -> list[str]:
    """The lesson's sections that answer a prediction, the misconceptions it shows."""
    said = {"one": one, "many": many, "prefill": prefill}
    out = [f"wrong-{name}" for name, right in answers().items() if said[name] != right]
    if not _near(batch, reach()):
        slip = (name for name, value in slips().items() if _near(batch, value))
        out.append(next(slip, "wrong-batch"))
    return out or ["right"]


def _near(guess: int, value: int) -> bool:
    return abs(guess - value) <= NEAR * value


def feedback_again(said: str) -> str:
    """The section that answers the second guess: the batch at which attention gets there."""
    return {NONE: "again-right", ATTENTION[0]: "again-wrong-same"}.get(said, "again-wrong-larger")


@cache
def values() -> dict[str, str]:
    """What the lesson's sentences name."""
    lead = figures.roof(CASE.roofs[0])
    found = {one.id: one for one in figures.points(CASE)}
    heads = figures.heads(CASE.model)
    return {
        "gpu": figures.short_title(lead.gpu),
        "ridge": f"{figures.of_roof(CASE, lead.name)['ridge'].value:.0f}",
        "reach": f"{reach():,}",
        "many": f"{MANY:,}",
        "tokens": f"{CASE.n:,}",
        "matrices": f"{found['decode-matrices'].at.value:.0f}",
        "attention": f"{found['decode-attention'].at.value:.0f}",
        "query": str(heads[0]),
        "kv": str(heads[1]),
        "half": f"{slips()['wrong-batch-half']:,}",
        "twice": f"{slips()['wrong-batch-twice']:,}",
    }
