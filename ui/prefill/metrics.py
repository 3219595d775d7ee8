"""Time and tokens of a run, from its records alone. The twin of live_run/js/metrics.js.

Times are the engine's own, in microseconds: what a step took to decide, compute and sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

Json = dict[str, Any]


def step_us(step: Json) -> float:
    """What the step took in all."""
    timing = step.get("timing", {})
    return float(sum(timing.get(k, 0) for k in ("schedule_us", "forward_us", "sample_us")))


@dataclass(frozen=True, slots=True)
class Times:
    """Of one request. ttft_us: from the step of its arrival to its first token. gap_us: median."""

    tokens: int
    ttft_us: float | None
    gap_us: float | None


def times(run: Json, request: str) -> Times:
    """The times of a request's first sequence."""
    sequence, arrived, sampled, prompt = None, 0, [], 0
    for k, step in enumerate(run["steps"]):
        for event in step["events"]:
            if event["type"] == "request_arrived" and event["request"] == request:
                sequence, arrived = event["sequences"][0], k
                prompt = event["num_prompt_tokens"]
            elif event["type"] == "token_sampled" and event["sequence"] == sequence:
                sampled.append(k)
    # away_us: a request waits just as long while the device is somebody else's.
    spent = [step_us(s) + s.get("timing", {}).get("away_us", 0) for s in run["steps"]]
    if not sampled:
        return Times(prompt, None, None)
    gaps = [sum(spent[a + 1 : b + 1]) for a, b in pairwise(sampled)]
    return Times(prompt, sum(spent[arrived : sampled[0] + 1]), median(gaps) if gaps else None)
