"""Requests as they come to a server: when, and how long. Scenarios, the same from the same seed.

    steps = arrivals(0.25, 8, seed=1)                          one in four steps, on average
    requests = mix([{"weight": 3, "prompt": (6, 24), "output": (4, 32)},
                    {"weight": 1, "prompt": (80, 200), "output": (4, 16)}], 8, seed=1)
    data = scenario(requests, steps, seed=1, max_num_seqs=4)   a `scenario/1`

Time is counted in steps of the engine, so a rate says how much work comes for each that is done.
When requests come and what they ask for are drawn apart: another rate or pattern brings the very
same requests at other times. Only `Random.random` is used, which Python promises never to change:
a seed in a link means the same workload everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate
from random import Random
from typing import Any, NotRequired, TypedDict

from core.errors import ScenarioError

Json = dict[str, Any]

PATTERNS = {
    "poisson": "each by itself, with gaps that vary as they do where many people ask",
    "uniform": "one after another, with equal gaps",
    "burst": "several in one step, then a pause",
}
"""How requests may be spread over time; all have the same mean rate."""

BURST = 8
"""Requests that a burst brings at once."""

MIN_RATE, MAX_RATE = 0.01, 1_000.0
MAX_COUNT = 10_000
MAX_LENGTH = 100_000

TOKEN_IDS = range(100, 32_000)
"""What prompts are drawn from: below the ids of every catalogued model's vocabulary, above those of
its control tokens."""


class RequestClass(TypedDict):
    """One kind of request in a mix.

    weight: its share, relative to the other classes' weights; > 0. prompt, output: lowest and
    highest number of tokens, both inclusive, every length alike. priority: of its requests.
    """

    weight: float
    prompt: tuple[int, int]
    output: tuple[int, int]
    priority: NotRequired[int]


def arrivals(rate_per_step: float, count: int, seed: int, pattern: str = "poisson") -> list[int]:
    """The steps in which `count` requests arrive, the first in step 0, in order.

    rate_per_step: requests per step in the long run, 0.01 … 1,000. pattern: one of `PATTERNS`:
    ``poisson`` has exponential gaps of mean 1 / rate; ``uniform`` equal ones, of the rate as it is
    written (0.07 is 7 in 100 steps, which no float is), and needs no seed;
    ``burst`` brings `BURST` requests together, with exponential gaps of mean `BURST` / rate.

    Raises ScenarioError.
    """
    if not MIN_RATE <= rate_per_step <= MAX_RATE:  # NaN is refused too
        raise ScenarioError("rate", f"{rate_per_step} is not within {MIN_RATE} … {MAX_RATE:,.0f}")
    _check_count(count)
    if pattern not in PATTERNS:
        raise ScenarioError("pattern", f"{pattern!r} is none: give {', '.join(PATTERNS)}")
    if pattern == "uniform":
        exact = Fraction(str(rate_per_step))
        return [math.floor(i / exact) for i in range(count)]
    together = BURST if pattern == "burst" else 1
    rng = Random(f"arrivals {seed}")
    steps: list[int] = []
    now = 0.0
    while len(steps) < count:
        steps += [math.floor(now)] * together
        now -= math.log(1.0 - rng.random()) * together / rate_per_step
    return steps[:count]


def mix(
    classes: Sequence[RequestClass], count: int, seed: int, token_ids: range = TOKEN_IDS
) -> list[Json]:
    """`count` requests of these classes, drawn by weight; named A, B … Z, AA …, none with a step.

    Each has `prompt_tokens`, `max_tokens` and `ignore_eos`, so that an answer is as long as was
    drawn with a model too. token_ids: what prompts are drawn from; no two requests begin with the
    same token (while there are enough of them), so no prefix is shared by chance.

    Raises ScenarioError.
    """
    _check_count(count)
    for i, one in enumerate(classes):
        _check_class(f"classes[{i}]", one)
    if not classes or not token_ids:
        raise ScenarioError("classes" if not classes else "token_ids", "empty")
    bounds = list(accumulate(one["weight"] for one in classes))
    rng = Random(f"mix {seed}")
    requests: list[Json] = []
    for i in range(count):
        drawn = rng.random() * bounds[-1]
        chosen = next(
            (c for c, bound in zip(classes, bounds, strict=True) if drawn < bound), classes[-1]
        )
        prompt = [token_ids[i % len(token_ids)]]
        length, answer = draw(rng, *chosen["prompt"]), draw(rng, *chosen["output"])
        prompt += [token_ids[draw(rng, 0, len(token_ids) - 1)] for _ in range(length - 1)]
        request = {
            "id": letters(i),
            "prompt_tokens": prompt,
            "max_tokens": answer,
            "ignore_eos": True,
        }
        if "priority" in chosen:
            request["priority"] = chosen["priority"]
        requests.append(request)
    return requests


def scenario(
    requests: Iterable[Json], steps: Iterable[int], seed: int = 0, name: str = "", **engine: Any
) -> Json:
    """A `scenario/1` in which each request arrives in its step. engine: settings of the engine."""
    return {
        "schema": "scenario/1",
        "name": name,
        "seed": seed,
        "engine": engine,
        "requests": [
            {**request, "arrive_step": step} for request, step in zip(requests, steps, strict=True)
        ],
    }


def letters(i: int) -> str:
    """0 → A, 25 → Z, 26 → AA: how the pages name requests."""
    name = ""
    while i >= 0:
        name = chr(ord("A") + i % 26) + name
        i = i // 26 - 1
    return name


def draw(rng: Random, low: int, high: int) -> int:
    """A whole number from low … high, each as likely."""
    return low + math.floor(rng.random() * (high - low + 1))


def _check_count(count: int) -> None:
    if not 0 <= count <= MAX_COUNT:
        raise ScenarioError("count", f"{count} is not within 0 … {MAX_COUNT:,}")


def _check_class(path: str, one: RequestClass) -> None:
    if not 0 < one["weight"] < math.inf:
        raise ScenarioError(f"{path}.weight", f"{one['weight']} is not more than 0")
    for what, (low, high) in (("prompt", one["prompt"]), ("output", one["output"])):
        if not 1 <= low <= high <= MAX_LENGTH:
            raise ScenarioError(
                f"{path}.{what}", f"{low} … {high} is no range within 1 … {MAX_LENGTH:,} tokens"
            )
