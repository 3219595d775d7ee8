"""Workloads: sorted arrivals at the rate that was asked for, the same from the same seed."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ScenarioError
from core.scenario import Scenario
from core.simulate import simulate
from core.workload import BURST, PATTERNS, TOKEN_IDS, RequestClass, arrivals, letters, mix, scenario
from tests.core.drive import events

rates = st.floats(0.01, 50)
patterns = st.sampled_from(sorted(PATTERNS))
seeds = st.integers(0, 2**53 - 1)


@st.composite
def ranges(draw: st.DrawFn, most: int = 60) -> tuple[int, int]:
    low, high = sorted((draw(st.integers(1, most)), draw(st.integers(1, most))))
    return low, high


classes = st.lists(
    st.fixed_dictionaries(
        {"weight": st.floats(0.1, 10), "prompt": ranges(), "output": ranges()},
        optional={"priority": st.integers(-5, 5)},
    ),
    min_size=1,
    max_size=4,
)
ARRIVALS = {"poisson": [0, 0, 3, 5, 7, 11, 14, 22], "burst": [0, 0, 0, 0, 0, 0, 0, 0, 4, 4]}
REQUESTS = [("A", [100, 16646, 4563], 4), ("B", [101, 12833, 18257], 7)]
quick = settings(max_examples=60, deadline=None)


@quick
@given(rates, st.integers(0, 300), seeds, patterns)
def test_arrivals_are_sorted_from_step_0_and_the_same_again(
    rate: float, count: int, seed: int, pattern: str
) -> None:
    steps = arrivals(rate, count, seed, pattern)
    assert len(steps) == count and steps == sorted(steps) and steps[:1] in ([], [0])
    assert steps == arrivals(rate, count, seed, pattern)
    assert arrivals(rate, count // 2, seed, pattern) == steps[: count // 2]


@quick
@given(rates, seeds, patterns)
def test_the_mean_rate_is_what_was_asked_for(rate: float, seed: int, pattern: str) -> None:
    """Of 4,000 requests, within six standard deviations: a gap's is its mean, a burst has one gap
    for 8 requests. Rounding to whole steps moves an arrival by less than one."""
    count = 4_000
    steps = arrivals(rate, count, seed, pattern)
    together = BURST if pattern == "burst" else 1
    num_gaps = math.ceil(count / together) - 1
    expected = num_gaps * together / rate
    spread = 0.0 if pattern == "uniform" else 6 * math.sqrt(num_gaps) * together / rate
    assert abs(steps[-1] - expected) <= spread + 1 + 1e-6 * expected


@quick
@given(rates, st.integers(1, 400), seeds)
def test_equal_gaps_are_equal_and_bursts_come_together(rate: float, count: int, seed: int) -> None:
    gaps = [b - a for a, b in pairwise(arrivals(rate, count, seed, "uniform"))]
    assert all(abs(gap - 1 / rate) < 1 + 1e-9 for gap in gaps)
    steps = arrivals(rate, count, seed, "burst")
    assert all(len(set(steps[i : i + BURST])) == 1 for i in range(0, count, BURST))


def test_equal_gaps_are_those_of_the_rate_as_it_is_written() -> None:
    """Of 7 in 100 steps the eighth comes in step 100, though 7 / 0.07 is less as floats."""
    for in_100 in range(1, 101):
        expected = [100 * i // in_100 for i in range(400)]
        assert arrivals(in_100 / 100, 400, 0, "uniform") == expected


def test_bursts_are_less_even_than_a_poisson_stream_and_that_is_less_even_than_equal_gaps() -> None:
    """Requests in windows of 20 steps: variance / mean is 1 for Poisson, 8 for bursts of 8."""

    def unevenness(pattern: str) -> float:
        steps = arrivals(0.5, 8_000, 3, pattern)
        counts = Counter(step // 20 for step in steps)
        every = [counts[i] for i in range(max(steps) // 20)]
        mean = sum(every) / len(every)
        return sum((n - mean) ** 2 for n in every) / len(every) / mean

    assert unevenness("uniform") < 0.1 < 0.7 < unevenness("poisson") < 1.4
    assert 5 < unevenness("burst") < 12


@quick
@given(classes, st.integers(0, 60), seeds)
def test_requests_keep_to_their_classes_and_are_the_same_again(
    kinds: list[RequestClass], count: int, seed: int
) -> None:
    requests = mix(kinds, count, seed)
    assert requests == mix(kinds, count, seed)
    assert mix(kinds, count // 2, seed) == requests[: count // 2]
    assert [r["id"] for r in requests] == [letters(i) for i in range(count)]
    assert len({r["prompt_tokens"][0] for r in requests}) == count
    for request in requests:
        length = len(request["prompt_tokens"])
        assert any(
            kind["prompt"][0] <= length <= kind["prompt"][1]
            and kind["output"][0] <= request["max_tokens"] <= kind["output"][1]
            and request.get("priority") == kind.get("priority")
            for kind in kinds
        )
        assert all(token in TOKEN_IDS for token in request["prompt_tokens"])


def test_weights_are_shares_and_every_length_is_drawn() -> None:
    kinds: list[RequestClass] = [
        {"weight": 3, "prompt": (1, 4), "output": (1, 2)},
        {"weight": 1, "prompt": (11, 12), "output": (5, 5)},
    ]
    lengths = Counter(len(r["prompt_tokens"]) for r in mix(kinds, 4_000, 5))
    assert sorted(lengths) == [1, 2, 3, 4, 11, 12]
    assert 2_900 < sum(n for length, n in lengths.items() if length < 10) < 3_100
    assert all(650 < lengths[length] < 850 for length in (1, 2, 3, 4))


@settings(max_examples=30, deadline=None)
@given(classes, st.integers(0, 8), seeds, st.floats(0.05, 5), patterns)
def test_a_workload_is_a_valid_scenario_and_all_of_it_is_served(
    kinds: list[RequestClass], count: int, seed: int, rate: float, pattern: str
) -> None:
    data = scenario(
        mix(kinds, count, seed),
        arrivals(rate, count, seed, pattern),
        seed,
        num_blocks=64,
        max_model_len=256,
        max_num_seqs=3,
    )
    checked = Scenario.from_dict(data)
    run = simulate(checked, debug=True)
    assert len(events(run, "finished")) == count
    assert all(result["num_cached_tokens"] == 0 for result in run.results.values())


def test_a_seed_means_the_same_workload_everywhere() -> None:
    """Written down: a link holds the seed alone."""
    kinds: list[RequestClass] = [{"weight": 1, "prompt": (2, 3), "output": (1, 9)}]
    assert arrivals(0.25, 8, 1) == ARRIVALS["poisson"]
    assert arrivals(0.25, 8, 1, "uniform") == [0, 4, 8, 12, 16, 20, 24, 28]
    assert arrivals(0.25, 10, 1, "burst") == ARRIVALS["burst"]
    assert [(r["id"], r["prompt_tokens"], r["max_tokens"]) for r in mix(kinds, 2, 1)] == REQUESTS


def test_another_rate_brings_the_same_requests_at_other_times() -> None:
    slow, fast = arrivals(0.1, 50, 7), arrivals(1.0, 50, 7)
    assert all(abs(a / 10 - b) <= 1 for a, b in zip(slow, fast, strict=True)) and slow != fast


@pytest.mark.parametrize(
    ("call", "path"),
    [
        (lambda: arrivals(0, 1, 0), "rate"),
        (lambda: arrivals(math.nan, 1, 0), "rate"),
        (lambda: arrivals(1e9, 1, 0), "rate"),
        (lambda: arrivals(1, -1, 0), "count"),
        (lambda: arrivals(1, 10**9, 0), "count"),
        (lambda: arrivals(1, 1, 0, "tide"), "pattern"),
        (lambda: mix([], 1, 0), "classes"),
        (lambda: mix([kind()], -1, 0), "count"),
        (lambda: mix([kind(weight=0)], 1, 0), "classes[0].weight"),
        (lambda: mix([kind(), kind(weight=math.inf)], 1, 0), "classes[1].weight"),
        (lambda: mix([kind(prompt=(0, 3))], 1, 0), "classes[0].prompt"),
        (lambda: mix([kind(output=(5, 3))], 1, 0), "classes[0].output"),
        (lambda: mix([kind(output=(1, 10**9))], 1, 0), "classes[0].output"),
        (lambda: mix([kind()], 1, 0, range(0)), "token_ids"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Any, path: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        call()
    assert caught.value.path == path


def kind(**fields: Any) -> RequestClass:
    one: Any = {"weight": 1, "prompt": (1, 2), "output": (1, 2), **fields}
    return one
