"""What serving is judged by, of a run: first tokens, gaps, throughput, goodput, idle places.

Pure functions of `core.trace.lives`. Steps are exact; times are the engine's own, in microseconds,
and exist only where a model ran. A step's time counts what the scheduler, the forward pass and
sampling took, and for how long the device was somebody else's (`away_us`): a request waits just as
long.

    time to first token   from the beginning of the step of its arrival to the end of the step that
                          sampled its first token: in steps, first − arrived + 1
    gap                   from the end of the step of one token to the end of the step of the next

A percentile is the nearest rank: the smallest value that at least p % of all values do not exceed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import ceil
from typing import Any

from core.trace.lives import Json, Life, Lives, read

PERCENTILES = (50, 90, 99)


def percentile(values: Sequence[float], p: int) -> float | None:
    """The nearest rank, ⌈p/100 · n⌉ of the sorted values; None where there are none."""
    if not values:
        return None
    return sorted(values)[max(1, ceil(p * len(values) / 100)) - 1]


@dataclass(frozen=True, slots=True)
class Clock:
    """ends_us: the end of each step in microseconds from the beginning of step 0."""

    ends_us: tuple[float, ...]

    @classmethod
    def of(cls, run: Json) -> Clock | None:
        """None for a run without a model: what a scripted step took is nobody's waiting time."""
        if run["header"]["source"]["model"] == "none":
            return None
        return cls(tuple(accumulate(map(step_us, run["steps"]))))

    def between(self, start: int, end: int) -> float:
        """Microseconds from the beginning of step `start` to the end of step `end`."""
        return self.ends_us[end] - (self.ends_us[start - 1] if start else 0.0)


def step_us(step: Json) -> float:
    """What a step took, the time in which the device was somebody else's included."""
    timing = step.get("timing", {})
    parts = ("schedule_us", "forward_us", "sample_us", "away_us")
    return float(sum(timing.get(part, 0) for part in parts))


@dataclass(frozen=True, slots=True)
class Times:
    """Of one sequence: `ttft`, one gap for each token after the first, and from its arrival to its
    end. In steps or in microseconds; None where it never got a token, or has not ended."""

    ttft: float | None
    gaps: tuple[float, ...]
    whole: float | None


def in_steps(life: Life) -> Times:
    first = life.first_token
    return Times(
        None if first is None else first - life.arrived + 1,
        tuple(b - a for a, b in pairwise(life.sampled)),
        None if life.ended is None or first is None else life.ended - life.arrived + 1,
    )


def in_us(life: Life, clock: Clock) -> Times:
    first = life.first_token
    return Times(
        None if first is None else clock.between(life.arrived, first),
        tuple(clock.ends_us[b] - clock.ends_us[a] for a, b in pairwise(life.sampled)),
        None
        if life.ended is None or first is None
        else clock.between(life.arrived, max(life.ended, life.arrived)),
    )


def meets(life: Life, ttft: float, gap: float, clock: Clock | None = None) -> bool:
    """Whether a sequence was answered to its end, got its first token within `ttft` and every later
    one within `gap`: in microseconds with a clock, in steps without one.

    What was refused or cancelled met nobody's target, nor has yet what is not at its end.
    """
    if life.finish_reason in (None, "cancelled"):
        return False
    times = in_steps(life) if clock is None else in_us(life, clock)
    return times.ttft is not None and times.ttft <= ttft and max(times.gaps, default=0) <= gap


def goodput(found: Lives, ttft: float, gap: float, clock: Clock | None = None) -> tuple[int, int]:
    """How many requests meet both targets, and how many there are, the refused ones among them.

    A request of several answers meets them if each does; a beam that was pruned is no answer.
    """
    answers: dict[str, list[bool]] = {}
    for life in found.lives.values():
        of_request = answers.setdefault(life.request, [])
        if life.finish_reason != "pruned":
            of_request.append(meets(life, ttft, gap, clock))
    return sum(bool(met) and all(met) for met in answers.values()), len(answers)


def place_steps(found: Lives) -> Json:
    """Places times steps, and what they did.

    busy: computed something. held: kept by a member of a static batch that had ended. stalled: a
    running sequence got no token of the budget. empty: nobody there. idle: held, stalled and empty.
    idle_while_waiting: those of the idle ones in steps in which somebody waited for a place.
    """
    counts: Counter[str] = Counter()
    busy_in = Counter[int]()
    for _, stay in found.stays():
        for k, kind in enumerate(stay.kinds, stay.start):
            counts[kind] += 1
            busy_in[k] += kind not in ("held", "stalled")
    total = found.num_places * found.num_steps
    held, stalled = counts["held"], counts["stalled"]
    busy = counts.total() - held - stalled
    waited = sum(found.num_places - busy_in[k] for k, n in enumerate(found.waiting) if n)
    return {
        "total": total,
        "busy": busy,
        "held": held,
        "stalled": stalled,
        "empty": total - counts.total(),
        "idle": total - busy,
        "idle_while_waiting": waited,
    }


def spread(times: Sequence[Times]) -> Json:
    """Percentiles of first tokens and of all gaps: {"ttft": {"p50": …}, "gap": …, "worst_gap"}."""
    ttft = [t.ttft for t in times if t.ttft is not None]
    gaps = [gap for t in times for gap in t.gaps]
    return {
        "ttft": {f"p{p}": percentile(ttft, p) for p in PERCENTILES},
        "gap": {f"p{p}": percentile(gaps, p) for p in PERCENTILES},
        "worst_gap": max(gaps, default=None),
        "num_gaps": len(gaps),
    }


def summary(found: Lives, clock: Clock | None) -> Json:
    """The figures of a whole run; every time in steps, and in microseconds where there are any."""
    lives = [life for life in found.lives.values() if life.rejected is None]
    steps = [in_steps(life) for life in lives]
    output = sum(len(life.sampled) for life in lives)
    duration = clock.ends_us[-1] if clock and clock.ends_us else None
    return {
        "steps": found.num_steps,
        "places": found.num_places,
        "sequences": len(lives),
        "rejected": len(found.lives) - len(lives),
        "place_steps": place_steps(found),
        "output_tokens": output,
        "computed_tokens": sum(life.computed for life in lives),
        "recomputed_tokens": sum(life.recomputed for life in lives),
        "preemptions": sum(len(life.preempted) for life in lives),
        "duration_us": duration,
        "in_steps": spread(steps),
        "in_us": None if clock is None else spread([in_us(life, clock) for life in lives]),
    }


def row(life: Life, clock: Clock | None) -> Json:
    """One sequence as a row: what a table or the browser needs of it."""
    steps = in_steps(life)
    us = None if clock is None else in_us(life, clock)
    return {
        "sequence": life.sequence,
        "request": life.request,
        "prompt_tokens": life.num_prompt_tokens,
        "output_tokens": len(life.sampled),
        "arrived": life.arrived,
        "admitted": life.admitted,
        "first_token": life.first_token,
        "ended": life.ended,
        "finish_reason": life.finish_reason,
        "rejected": life.rejected,
        "sampled": life.sampled,
        "waits": [
            [wait.start, wait.end, wait.reason, wait.needed, wait.available] for wait in life.waits
        ],
        "preempted": life.preempted,
        "computed": life.computed,
        "recomputed": life.recomputed,
        "cached": life.cached,
        "ttft_steps": steps.ttft,
        "worst_gap_steps": max(steps.gaps, default=None),
        "ttft_us": None if us is None else us.ttft,
        "gaps_us": None if us is None else list(us.gaps),
        "worst_gap_us": None if us is None else max(us.gaps, default=None),
        "whole_steps": steps.whole,
        "whole_us": None if us is None else us.whole,
    }


def serving(run: Json) -> Json:
    """Everything about a run that a picture of its places needs, as JSON.

    summary; rows: one a sequence, in order of arrival; stays: [row, sequence, first step, [[kind,
    steps], …]] of every stay in a place; waiting: sequences in the queue at each step; ends_us: the
    clock, None without a model.
    """
    found = read(run)
    clock = Clock.of(run)
    return {
        "summary": summary(found, clock),
        "rows": [row(life, clock) for life in found.lives.values()],
        "stays": [
            [stay.row, life.sequence, stay.start, _lengths(stay.kinds)]
            for life, stay in found.stays()
        ],
        "waiting": found.waiting,
        "ends_us": None if clock is None else [round(us, 1) for us in clock.ends_us],
    }


def _lengths(kinds: Sequence[Any]) -> list[list[Any]]:
    """[a, a, b] → [[a, 2], [b, 1]]."""
    out: list[list[Any]] = []
    for kind in kinds:
        if out and out[-1][0] == kind:
            out[-1][1] += 1
        else:
            out.append([kind, 1])
    return out
