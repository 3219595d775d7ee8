"""What a run says about serving: exact figures of known runs, and any run counted a second time."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.scenario import Scenario
from core.simulate import simulate
from core.trace import serving_metrics
from core.trace.lives import Life, Lives, read
from core.trace.run import read_run
from core.trace.serving_metrics import Clock, Times, goodput, in_steps, in_us, percentile, serving
from tests.core.test_beams import random_case
from tests.core.test_beams import run as beam_run
from tests.scenario_gen import random_scenario

RUNS = Path(__file__).resolve().parents[2] / "runs"
any_scenario = st.integers(0, 10**9).map(lambda seed: random_scenario(random.Random(seed)))
thorough = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

Json = dict[str, Any]


def recorded(name: str) -> Json:
    return read_run(RUNS / f"{name}.run.json.gz").to_dict()


def simulated(scenario: Json) -> Json:
    run = simulate(Scenario.from_dict(scenario), keep_state=True)
    return run.to_dict()


def by_step(found: Lives) -> list[set[str]]:
    """Who holds a place in each step."""
    out: list[set[str]] = [set() for _ in range(found.num_steps)]
    for life, stay in found.stays():
        for k in range(stay.start, stay.start + len(stay.kinds)):
            out[k].add(life.sequence)
    return out


# -- against the engine's own states


def check_places(run: Json, found: Lives) -> None:
    """After each step `running` is who holds a place in it, less those that leave at its end, and
    those that a fork adds there."""
    for record, holds in zip(run["steps"], by_step(found), strict=True):
        left = set(holds)
        events = record["events"]
        forward = max((i for i, e in enumerate(events) if e["type"] == "scheduled"), default=-1)
        for i, event in enumerate(events):
            ends = event["type"] in ("finished", "pruned") and not event.get("holds")
            if ends or (event["type"] == "blocks_freed" and event["reason"] == "finished"):
                left.discard(event["sequence"])
            elif event["type"] == "forked" and i > forward:
                left |= set(event["sequences"][1:])
        state = record["state"]
        assert set(state["running"]) == left
        assert found.waiting[record["step"]] == len(state["waiting"])


def check_rows(found: Lives) -> None:
    taken: set[tuple[int, int]] = set()
    for _, stay in found.stays():
        assert 0 <= stay.row < found.num_places
        for k in range(stay.start, stay.start + len(stay.kinds)):
            assert (stay.row, k) not in taken, "two in one place"
            taken.add((stay.row, k))


@thorough
@given(any_scenario)
def test_any_run_counted_a_second_time(scenario: Json) -> None:
    run = simulated(scenario)
    found = read(run)
    check_rows(found)
    check_places(run, found)
    check_times(run, found)
    check_waits(found)
    check_place_steps(run, found)
    check_computed(run, found)


@pytest.mark.parametrize("seed", range(12))
def test_places_of_beams(seed: int) -> None:
    """Beams come and go by forks and pruning, under ids that are used again."""
    _, made = beam_run(random_case(seed))
    run = made.to_dict()
    for record, state in zip(run["steps"], made.states(), strict=True):
        record["state"] = state
    found = read(run)
    check_rows(found)
    check_places(run, found)


def check_times(run: Json, found: Lives) -> None:
    """First tokens and gaps once more, from how the outputs grow from state to state."""
    lengths: dict[str, list[int]] = {}
    for record in run["steps"]:
        for name, tokens in record["state"]["outputs"].items():
            lengths.setdefault(name, [0] * record["step"]).append(len(tokens))
    for name, life in found.lives.items():
        grows = [k for k, (a, b) in enumerate(pairwise([0, *lengths.get(name, [])])) if b > a]
        assert life.sampled == grows
        times = in_steps(life)
        assert times.ttft == (grows[0] - life.arrived + 1 if grows else None)
        assert times.gaps == tuple(b - a for a, b in pairwise(grows))


def alone(run: Json) -> bool:
    return all(request["n"] == 1 for request in run["header"]["scenario"]["requests"])


def check_computed(run: Json, found: Lives) -> None:
    """Positions in sets: whatever was in before is computed again."""
    if not alone(run):
        return  # twins inherit what their prompt's unit has computed
    done: dict[str, set[int]] = {}
    computed, again = Counter[str](), Counter[str]()
    for record in run["steps"]:
        for name, share in record["scheduled"].items():
            start = share["num_computed_tokens"] + share["num_cached_tokens"]
            done.setdefault(name, set()).update(range(start))  # found in the cache: once computed
            for position in range(start, start + share["num_scheduled_tokens"]):
                computed[name] += 1
                again[name] += position in done[name]
                done[name].add(position)
    for name, life in found.lives.items():
        assert (life.computed, life.recomputed) == (computed[name], again[name])


def check_place_steps(run: Json, found: Lives) -> None:
    p = serving_metrics.place_steps(found)
    assert p["busy"] + p["held"] + p["stalled"] + p["empty"] == p["total"]
    assert p["idle"] == p["total"] - p["busy"]
    assert 0 <= p["idle_while_waiting"] <= p["idle"]
    if alone(run):
        assert p["busy"] == sum(len(record["scheduled"]) for record in run["steps"])


def check_waits(found: Lives) -> None:
    for life in found.lives.values():
        waited = [k for wait in life.waits for k in range(wait.start, wait.end)]
        assert waited == sorted(set(waited))
        assert all(wait.end > wait.start for wait in life.waits)
        held = {k for s in life.stays for k in range(s.start, s.start + len(s.kinds))}
        assert not held & set(waited)
        if life.admitted is not None and life.waits and life.waits[0].start == life.arrived:
            first = [k for k in waited if k < life.admitted]
            assert first == list(range(life.arrived, life.admitted))


# -- percentiles and goodput


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 100))
def test_a_percentile_is_the_smallest_value_that_enough_do_not_exceed(
    values: list[int], p: int
) -> None:
    found = percentile(values, p)
    if not values:
        assert found is None
        return
    enough = [v for v in values if 100 * sum(w <= v for w in values) >= p * len(values)]
    assert found == min(enough)


def test_percentiles_of_a_known_list() -> None:
    assert [percentile(range(1, 11), p) for p in (50, 90, 99, 100)] == [5, 9, 10, 10]
    assert percentile([7], 1) == 7


def lives(*made: Life) -> Lives:
    return Lives({life.sequence: life for life in made}, 8, 20, [0] * 20)


def answered(
    name: str, *sampled: int, request: str = "", reason: str | None = "max_tokens"
) -> Life:
    """A sequence that came in step 0 and got a token in each of these steps."""
    end = sampled[-1] if reason is not None else None
    return Life(name, request or name, 5, 0, sampled=[*sampled], ended=end, finish_reason=reason)


def test_goodput_asks_for_both_targets_and_every_gap() -> None:
    found = lives(answered("A", 1, 2, 3, 4), answered("B", 1, 2, 11), answered("C", 7))
    assert [goodput(found, *targets) for targets in ((2, 1), (2, 9), (8, 1), (8, 9))] == [
        (1, 3), (2, 3), (2, 3), (3, 3),
    ]  # fmt: skip
    clock = Clock(tuple(10.0 * (k + 1) for k in range(20)))
    assert (goodput(found, 20, 10, clock), goodput(found, 19, 10, clock)) == ((1, 3), (0, 3))
    assert goodput(lives(), 1, 1) == (0, 0)


def test_what_was_not_answered_to_its_end_meets_no_target() -> None:
    found = lives(
        answered("A", 1, 2),
        answered("B", 1, 2, reason="cancelled"),
        answered("C", 1, 2, reason=None),
        Life("D", "D", 500, 0, ended=0, rejected="exceeds_pool"),
    )
    assert goodput(found, 9, 9) == (1, 4)


def test_several_answers_are_one_request_and_a_pruned_beam_is_none() -> None:
    late = answered("B#1", 1, 8, request="B")
    found = lives(answered("A", 1), answered("A#1", 2, request="A"), answered("B", 1), late)
    assert (goodput(found, 9, 3), goodput(found, 9, 7)) == ((1, 2), (2, 2))
    late.finish_reason = "pruned"
    assert goodput(found, 9, 3) == (2, 2)


def test_goodput_of_a_run_in_which_all_of_this_happens() -> None:
    prompt = list(range(1, 9))
    twins = {"id": "B", "prompt_tokens": prompt, "max_tokens": 4, "n": 2}
    run = simulated(
        {
            "schema": "scenario/1",
            "engine": {"num_blocks": 16, "block_size": 4},
            "requests": [
                {"id": "A", "prompt_tokens": prompt, "max_tokens": 6},
                twins,
                {"id": "C", "prompt_tokens": prompt, "max_tokens": 9, "cancel_step": 4},
                {"id": "D", "prompt_tokens": [1] * 80, "max_tokens": 4},
            ],
        }
    )
    assert run["results"]["B#1"]["finish_reason"] == "max_tokens"
    assert goodput(read(run), 99, 99) == (2, 4)
    assert goodput(read({**run, "steps": run["steps"][:5]}), 99, 99) == (1, 4)


@pytest.mark.parametrize("seed", range(6))
def test_a_beam_search_that_ends_has_answers(seed: int) -> None:
    _, made = beam_run(random_case(seed))
    found = read(made.to_dict())
    for request in {life.request for life in found.lives.values()}:
        mine = [life for life in found.lives.values() if life.request == request]
        if all(life.rejected is None for life in mine):
            assert {life.finish_reason for life in mine} - {"pruned", None}


def test_a_gap_lasts_to_the_end_of_its_step_and_counts_time_away() -> None:
    steps = [
        {"timing": {"schedule_us": 1, "forward_us": 10, "sample_us": 1, "away_us": 100}},
        {"timing": {"schedule_us": 1, "forward_us": 20, "sample_us": 1}},
        {"timing": {}},
    ]
    clock = Clock.of({"header": {"source": {"model": "a model"}}, "steps": steps})
    assert clock is not None
    assert clock.ends_us == (112, 134, 134)
    life = Life("A", "A", 3, 1, sampled=[1, 2], ended=2)
    assert in_us(life, clock) == Times(22, (0,), 22)
    assert Clock.of({"header": {"source": {"model": "none"}}, "steps": steps}) is None


# -- exact figures of runs that the page shows


def test_static_and_continuous_on_the_same_eight_answers() -> None:
    static, continuous = (
        serving(recorded(name))["summary"] for name in ("static_batch", "continuous_batch")
    )
    assert (static["steps"], continuous["steps"]) == (44, 29)
    assert static["output_tokens"] == continuous["output_tokens"] == 101
    assert static["place_steps"] == {
        "total": 176, "busy": 101, "held": 75, "stalled": 0, "empty": 0, "idle": 75,
        "idle_while_waiting": 48,
    }  # fmt: skip
    assert continuous["place_steps"] == {
        "total": 116, "busy": 101, "held": 0, "stalled": 0, "empty": 15, "idle": 15,
        "idle_while_waiting": 0,
    }  # fmt: skip
    assert static["in_steps"]["ttft"] == {"p50": 1, "p90": 25, "p99": 25}
    assert continuous["in_steps"]["ttft"] == {"p50": 1, "p90": 14, "p99": 14}


def test_who_takes_whose_place_and_why_the_others_wait() -> None:
    found = read(recorded("continuous_batch")).lives
    assert [(name, found[name].stays[0].row, found[name].stays[0].start) for name in "EFGH"] == [
        ("E", 0, 6), ("F", 3, 8), ("G", 2, 10), ("H", 3, 13),
    ]  # fmt: skip
    assert [wait.reason for wait in found["E"].waits] == ["max_num_seqs"]
    assert {wait.reason for wait in found["H"].waits} == {"behind_head", "max_num_seqs"}
    static = read(recorded("static_batch")).lives
    assert [wait.reason for wait in static["E"].waits] == ["max_num_seqs", "batch_not_finished"]
    assert static["E"].admitted == static["H"].admitted == 24


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("long_prompt_whole", [10]),
        ("long_prompt_chunks_256", [10, 11, 12, 13]),
        ("long_prompt_chunks_64", list(range(10, 25))),
    ],
)
def test_the_long_prompt_takes_these_steps(name: str, steps: list[int]) -> None:
    run = recorded(name)
    found = read(run)
    long = max(found.lives.values(), key=lambda life: life.num_prompt_tokens)
    assert (long.sequence, long.num_prompt_tokens, long.arrived) == ("E", 899, 10)
    (stay,) = long.stays
    assert [k for k, kind in enumerate(stay.kinds, stay.start) if kind == "prefill"] == steps
    assert long.first_token == steps[-1]
    # The others get a token in every step, whatever it costs.
    for other in "ABCD":
        assert found.lives[other].sampled == list(range(44))


def test_the_spike_is_where_the_whole_prompt_is() -> None:
    run = recorded("long_prompt_whole")
    clock = Clock.of(run)
    assert clock is not None
    for other in "ABCD":
        gaps = in_us(read(run).lives[other], clock).gaps
        assert gaps.index(max(gaps)) == 9, "the gap that step 10 ends"
        assert max(gaps) > 4 * sorted(gaps)[len(gaps) // 2]


def test_pressure_thrashes_and_either_cure_ends_it() -> None:
    names = ("pressure_thrash", "pressure_watermark", "pressure_fewer_places")
    runs = [recorded(name) for name in names]
    found = [serving_metrics.summary(read(run), None) for run in runs]
    assert [f["preemptions"] for f in found] == [6, 0, 0]
    assert [f["recomputed_tokens"] for f in found] == [1187, 0, 0]
    assert [f["computed_tokens"] for f in found] == [1736, 549, 549]
    assert 3 * 1187 > 2 * 1736, "most work is work done before"
    assert [f["output_tokens"] for f in found] == [302, 302, 302]
    assert [f["steps"] for f in found] == [86, 86, 86], "those admitted before never wait for H"
    last = [read(run).lives["H"] for run in runs]
    assert last[0].preempted == [15, 19, 23, 28, 43, 63]
    assert [stay.start for stay in last[0].stays] == [12, 17, 20, 24, 41, 57, 65]
    assert [life.admitted for life in last] == [12, 65, 65]
    assert last[1].waits[-1].reason == "watermark"
    assert last[2].waits[-1].reason == "max_num_seqs"


def test_thrashing_costs_time_where_it_costs_no_steps() -> None:
    names = ("pressure_thrash", "pressure_watermark", "pressure_fewer_places")
    thrash, *cured = (serving(recorded(name))["ends_us"][-1] for name in names)
    assert all(thrash > 1.1 * other for other in cured)


def test_the_figures_are_json_and_the_stays_add_up() -> None:
    run = recorded("pressure_thrash")
    found = json.loads(json.dumps(serving(run)))
    assert sum(n for stay in found["stays"] for _, n in stay[3]) == (
        found["summary"]["place_steps"]["total"] - found["summary"]["place_steps"]["empty"]
    )
    assert len(found["ends_us"]) == len(found["waiting"]) == 86
    assert found["ends_us"] == sorted(found["ends_us"])
