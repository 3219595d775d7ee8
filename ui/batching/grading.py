"""The prediction of the batching page: what an answer shows of what one believes.

The truth is counted in the two recorded runs of the same eight requests, and measured in the one
where a long prompt lands. Plain functions: no widgets.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Any

Json = dict[str, Any]

FIRST, LATE = "B", "F"
"""Who is asked about: an early request with a long answer, and a late one with a short answer."""

LONGER = {
    "About the same": (0.0, 1.5),
    "A few times": (1.5, 10.0),
    "More than ten times": (10.0, inf),
}
"""How much longer a gap may be said to be, and the ratios that each means: from, up to."""

NEAR = 1.1
"""A ratio within this factor of a bound is either neighbour's: no measurement is sharper."""


@dataclass(frozen=True, slots=True)
class Policies:
    """lengths: tokens asked for, in order. static, continuous: steps in all. batches: the steps of
    each static batch. Under continuous batching, ends: of FIRST and LATE; place_of: whose place
    LATE takes, and begins: in which step."""

    lengths: tuple[int, ...]
    places: int
    static: int
    continuous: int
    ends: tuple[int, int]
    batches: tuple[int, ...]
    place_of: str
    begins: int

    @property
    def packed(self) -> int:
        """Steps if no place were ever empty: ⌈tokens / places⌉."""
        return -(-sum(self.lengths) // self.places)

    @property
    def first_to_end(self) -> str:
        return FIRST if self.ends[0] < self.ends[1] else LATE

    def values(self) -> dict[str, Any]:
        """What the lesson's sentences may name."""
        names = [chr(ord("A") + i) for i in range(len(self.lengths))]
        *most, last = map(str, self.lengths)
        return {
            "lengths": f"{', '.join(most)} and {last}",
            "places": self.places,
            "b": self.lengths[names.index(FIRST)],
            "f": self.lengths[names.index(LATE)],
            "static": self.static,
            "continuous": self.continuous,
            "first": self.batches[0],
            "second": self.batches[1],
            "b_ends": self.ends[0],
            "f_ends": self.ends[1],
            "f_begins": self.begins,
            "left": self.place_of,
            "total": sum(self.lengths),
            "packed": self.packed,
        }


def policies(static: Json, continuous: Json) -> Policies:
    """From the figures of both runs (`serving_metrics.serving`)."""
    rows = continuous["rows"]
    ends = {row["sequence"]: row["ended"] for row in rows}
    place, begins = next((stay[0], stay[2]) for stay in continuous["stays"] if stay[1] == LATE)
    before = [stay for stay in continuous["stays"] if stay[0] == place and stay[2] < begins]
    starts = sorted({row["admitted"] for row in static["rows"]})
    batches = [
        b - a for a, b in zip(starts, [*starts[1:], static["summary"]["steps"]], strict=True)
    ]
    return Policies(
        tuple(row["output_tokens"] for row in rows),
        continuous["summary"]["places"],
        static["summary"]["steps"],
        continuous["summary"]["steps"],
        (ends[FIRST], ends[LATE]),
        tuple(batches),
        max(before, key=lambda stay: stay[2])[1],
        begins,
    )


def feedback(true: Policies, static: int, continuous: int, who: str) -> list[str]:
    """The lesson's sections that answer a prediction: the misconceptions that it shows."""
    out = []
    if static != true.static:
        known = {
            true.packed: "wrong-static-packed",
            max(true.lengths): "wrong-static-longest",
            sum(true.lengths): "wrong-static-one",
        }
        out.append(known.get(static, "wrong-static"))
    if continuous != true.continuous:
        known = {true.packed: "wrong-packed", static: "wrong-same"}
        out.append(known.get(continuous, "wrong-continuous"))
    if who != true.first_to_end:
        out.append("wrong-who")
    return out or ["right"]


@dataclass(frozen=True, slots=True)
class Spike:
    """tokens: of the prompt that landed. gap_us, usual_us: the longest and the median gap of those
    that were being answered."""

    tokens: int
    gap_us: float
    usual_us: float

    @property
    def ratio(self) -> float:
        return self.gap_us / self.usual_us

    def values(self) -> dict[str, Any]:
        return {
            "tokens": f"{self.tokens:,}",
            "gap": f"{self.gap_us / 1000:,.0f}",
            "usual": f"{self.usual_us / 1000:,.1f}",
            "ratio": f"{self.ratio:.0f}",
        }


def spike(figures: Json) -> Spike:
    """From the figures of the run in which the long prompt is computed whole."""
    long = max(figures["rows"], key=lambda row: row["prompt_tokens"])
    gaps = [gap for row in figures["rows"] if row is not long for gap in row["gaps_us"]]
    return Spike(long["prompt_tokens"], max(gaps), median(gaps))


def longer(ratio: float) -> list[str]:
    """The options that are right of a ratio: one, or both neighbours of a bound that is near."""
    return [name for name, (low, high) in LONGER.items() if low / NEAR <= ratio <= high * NEAR]


def longer_feedback(said: str, ratio: float) -> str:
    """The lesson's section that answers how much longer a gap was said to be."""
    if said in longer(ratio):
        return "again-right"
    return "again-wrong" if said == next(iter(LONGER)) else "again-size"
