"""One measured quantity a line, judged where there is a target, and the same as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.timing import Timing


def percentile(samples: list[float], percent: float) -> float:
    """The smallest sample that at least `percent` per cent do not exceed (nearest rank)."""
    ordered = sorted(samples)
    rank = -(-len(ordered) * percent // 100)  # rounded up
    return ordered[max(0, int(rank) - 1)]


@dataclass(frozen=True, slots=True)
class Figure:
    """value: median and range; p95: 95th percentile, None where there are too few samples for one.

    target: what was aimed at, in words; met: whether it was reached. Both None where a figure is
    only shown.
    """

    name: str
    unit: str
    value: Timing
    p95: float | None = None
    samples: int = 1
    target: str | None = None
    met: bool | None = None

    def show(self) -> str:
        digits = 2 if self.value.median < 10 and self.unit == "ms" else 0
        digits = 1 if self.unit in ("MiB", "s") else digits
        tail = "" if self.p95 is None else f"p95 {self.p95:,.{digits}f} {self.unit}"
        line = f"{self.name:<58}{self.value.show(1, self.unit, digits):>34}{tail:>18}"
        line += f"{self.samples:>8,}"
        if self.target is not None:
            line += f"  {'met   ' if self.met else 'missed'} {self.target}"
        return line.rstrip()


def measured(
    name: str, unit: str, samples: list[float], most: float, *, judge: str = "median"
) -> Figure:
    """A figure whose median, or `judge="p95"`, is to be at most `most`."""
    value, p95 = Timing.of(samples), percentile(samples, 95)
    met = (p95 if judge == "p95" else value.median) <= most
    label = "p95 ≤" if judge == "p95" else "≤"
    return Figure(name, unit, value, p95, len(samples), f"{label} {most:,g} {unit}", met)


@dataclass
class Report:
    """Settings and figures, printed as they come."""

    settings: dict[str, Any]

    def __post_init__(self) -> None:
        self.figures: list[Figure] = []
        for name, value in self.settings.items():
            print(f"{name}: {value}")
        print(f"\n{'median (range)':<58}{'':>34}{'':>18}{'samples':>8}", flush=True)

    def add(self, figure: Figure) -> None:
        self.figures.append(figure)
        print(figure.show(), flush=True)

    def note(self, **settings: Any) -> None:
        """Something that is known only at the end."""
        self.settings.update(settings)
        for name, value in settings.items():
            print(f"{name}: {value}", flush=True)

    def write(self, file: str | None) -> None:
        if file is not None:
            content = {"settings": self.settings, "figures": [asdict(f) for f in self.figures]}
            Path(file).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def flat(name: str, samples: list[float]) -> Figure:
    """Memory over time in MiB: the last fifth of the samples beside the second.

    The first fifth is left out: sessions and caches are still being made then.
    """
    fifth = max(1, len(samples) // 5)
    early, late = samples[fifth : 2 * fifth] or samples, samples[-fifth:]
    growth = Timing.of(late).median / Timing.of(early).median - 1
    return Figure(
        f"{name}, {growth:+.1%} from second to last fifth",
        "MiB",
        Timing.of(samples),
        samples=len(samples),
        target=f"≤ +{GROWTH:.0%}",
        met=growth <= GROWTH,
    )


GROWTH = 0.05
"""What memory may grow by and still be called flat."""
