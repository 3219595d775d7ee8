"""The prediction of the prefill and decode page: what two ratios show of what one believes.

The learner says how many times as long the first token and the gap take when the prompt doubles;
the experiment measures both. Plain functions: no widgets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

OPTIONS = {"× 1": 1.0, "× 2": 2.0, "× 4": 4.0}
"""What can be predicted: as long as before, twice, four times. The nearest one is right."""


@dataclass(frozen=True, slots=True)
class Doubling:
    """What the experiment measured, before and after. Times in microseconds."""

    tokens: tuple[int, int]
    ttft_us: tuple[float, float]
    gap_us: tuple[float, float]
    label: str = "RECORDED"

    @property
    def ttft_ratio(self) -> float:
        return self.ttft_us[1] / self.ttft_us[0]

    @property
    def gap_ratio(self) -> float:
        return self.gap_us[1] / self.gap_us[0]

    def values(self) -> dict[str, Any]:
        """What the lesson's sentences may name."""
        out: dict[str, Any] = {"tokens_a": self.tokens[0], "tokens_b": self.tokens[1]}
        for name, pair in (("ttft", self.ttft_us), ("gap", self.gap_us)):
            out[f"{name}_a"], out[f"{name}_b"] = (f"{us / 1000:.1f}" for us in pair)
        out["ttft_ratio"] = f"{self.ttft_ratio:.2f}"
        out["gap_ratio"] = f"{self.gap_ratio:.2f}"
        return out


def doubling(measured: object) -> Doubling | None:
    """The experiment's report from the browser; None if it is another one's, or not whole."""
    if not isinstance(measured, dict) or measured.get("id") != "double":
        return None
    try:
        a, b = measured["rows"]
        found = Doubling(
            (int(a["tokens"]), int(b["tokens"])),
            (float(a["ttft_us"]), float(b["ttft_us"])),
            (float(a["gap_us"]), float(b["gap_us"])),
            str(measured["label"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
    return found if min(*found.ttft_us, *found.gap_us) > 0 else None


def nearest(ratio: float) -> float:
    """The option that a measured ratio is nearest to, as a factor."""
    return min(OPTIONS.values(), key=lambda option: abs(math.log(ratio / option)))


def feedback(found: Doubling, ttft: float, gap: float) -> list[str]:
    """The lesson's sections that answer two predicted ratios: the misconceptions they show."""
    out = []
    true = nearest(found.ttft_ratio)
    if ttft != true:
        if true == 1.0:
            out.append("wrong-ttft-not-yet")
        elif ttft < true:
            out.append("wrong-ttft-same")
        else:
            out.append("wrong-ttft-square")
    true = nearest(found.gap_ratio)
    if gap != true:
        out.append("wrong-gap-doubles" if gap > true else "wrong-gap")
    return out or ["right"]
