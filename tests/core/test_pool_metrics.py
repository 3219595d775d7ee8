"""What is counted from a run, against what its states say, and exactly where numbers are small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import ScenarioError
from core.pool_studies import BLOCK_SIZES, both_allocators, pool_scenario, with_block_size
from core.scenario import Scenario
from core.simulate import simulate
from core.trace.pool_metrics import Life, copies, lives, pool_series, pool_summary
from core.trace.run import read_run
from tests.scenario_gen import random_scenario

any_scenario = st.randoms(use_true_random=False).map(random_scenario)
some = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def built_in(root: Path, slug: str) -> Scenario:
    return Scenario.from_file(root / "lessons" / "scenarios" / f"{slug}.json")


def run_of(scenario: Scenario) -> dict[str, Any]:
    return simulate(scenario).to_dict()


@some
@given(any_scenario)
def test_the_series_are_those_of_the_states(given_scenario: dict[str, Any]) -> None:
    run = simulate(Scenario.from_dict(given_scenario), keep_state=True).to_dict()
    series = pool_series(run)
    size = run["header"]["scenario"]["engine"]["block_size"]
    computed: dict[str, int] = {}
    for k, record in enumerate(run["steps"]):
        state = record["state"]
        forks = [event for event in record["events"] if event["type"] == "forked"]
        for event in forks:  # of a running sequence: before the step computes
            if "position" in event:
                first, child = event["sequences"]
                computed[child] = computed[first]
        for name, share in record["scheduled"].items():
            computed[name] = sum(share.values())
        for event in forks:  # of a request into its answers: after it
            if "position" not in event:
                first = event["sequences"][0]
                computed |= dict.fromkeys(event["sequences"], computed.get(first, 0))
        written = {
            (block, slot)
            for name, table in state["block_tables"].items()
            for entry, block in enumerate(table)
            for slot in range(min(size, max(0, computed.get(name, 0) - entry * size)))
        }
        assert series.held[k] == len(state["ref_counts"]) * size
        assert series.filled[k] == len(written)
        assert series.free[k] == len(state["free_order"])
        assert series.table_entries[k] == sum(map(len, state["block_tables"].values()))
        assert 0 <= series.unfit[k] <= series.free[k]
        assert 0 <= series.wasted[k] <= series.held[k] <= series.num_slots


@some
@given(any_scenario)
def test_a_summary_agrees_with_the_states(given_scenario: dict[str, Any]) -> None:
    run = simulate(Scenario.from_dict(given_scenario), keep_state=True).to_dict()
    summary = pool_summary(run)
    tables = [t for r in run["steps"] for t in r["state"]["block_tables"].values()]
    # A table that ends within its step is longer than any state shows.
    assert summary.longest_table >= max(map(len, tables), default=0)
    assert summary.copies == len(copies(run))
    assert 0 <= summary.waste < 1


def test_33_tokens_waste_3_slots_of_36(root: Path) -> None:
    series = pool_series(run_of(built_in(root, "thirty-three")))
    assert (series.held[0], series.filled[0], series.wasted[0]) == (36, 33, 3)


def test_a_contiguous_pool_breaks_up(root: Path) -> None:
    """B and D leave two holes of four: E needs six in a row, so eight free blocks are no use."""
    run = run_of(built_in(root, "contiguous"))
    series = pool_series(run)
    assert series.free[3] == 8
    assert series.unfit[3] == 8
    assert series.waiting[3] == 1
    assert max(series.unfit) == 8
    assert lives(run)["E"].waited > 0


def test_memory_is_no_reason_of_who_waits_for_a_place() -> None:
    """C waits for a place, not for room: whatever is free, memory is not what it waits for."""
    engine = {"num_blocks": 3, "max_num_seqs": 1, "allocator": "contiguous", "reserve": "request",
              "prefix_cache": "off"}  # fmt: skip
    requests = [{"id": name, "prompt_tokens": [1, 2, 3, 4], "max_tokens": 4} for name in "AC"]
    scenario = {"schema": "scenario/1", "engine": engine, "requests": requests}
    series = pool_series(run_of(Scenario.from_dict(scenario)))
    assert (series.free[0], series.waiting[0], series.unfit[0]) == (1, 1, 0)


def test_what_is_free_and_too_short_for_the_head_is_no_use_to_those_behind_it() -> None:
    """A has ended, its 2 blocks are free, B holds the others. C needs 6 in a row and waits; D needs
    2 and would fit, but stands behind C. When B ends there are just the 6 that C needs."""
    engine = {"num_blocks": 6, "allocator": "contiguous", "reserve": "request",
              "prefix_cache": "off"}  # fmt: skip
    sizes = {"A": (4, 4, 0), "B": (4, 12, 0), "C": (8, 16, 4), "D": (4, 4, 4)}
    requests = [
        {"id": name, "prompt_tokens": [1] * prompt, "max_tokens": answer, "arrive_step": step}
        for name, (prompt, answer, step) in sizes.items()
    ]
    scenario = {"schema": "scenario/1", "engine": {**engine, "block_size": 4}, "requests": requests}
    run = run_of(Scenario.from_dict(scenario))
    series = pool_series(run)
    assert (series.free[4], series.waiting[4], series.unfit[4]) == (2, 2, 2)
    assert (series.free[11], series.waiting[11], series.unfit[11]) == (6, 2, 0)
    assert max(series.unfit[:4]) == 0


def test_paged_and_contiguous_on_the_same_requests(root: Path) -> None:
    paged, contiguous = both_allocators(built_in(root, "contiguous"), "request")
    assert paged.engine.prefix_cache == contiguous.engine.prefix_cache == "off"
    assert paged.requests == contiguous.requests
    one, other = run_of(paged), run_of(contiguous)
    assert max(pool_series(one).unfit) == 0
    assert lives(one)["E"].waited == 0 < lives(other)["E"].waited
    # A page is given when it is needed: at most one block of each sequence is not full.
    size = paged.engine.block_size
    for record, wasted in zip(one["steps"], pool_series(one).wasted, strict=True):
        assert wasted <= 4 * (size - 1), record["step"]
    assert pool_summary(one).waste < pool_summary(other).waste


def test_a_watermark_holds_back_neither_of_the_two() -> None:
    """A reservation has no watermark: with one for the pages alone they would be slowed by it."""
    engine = {"num_blocks": 9, "block_size": 4, "watermark": 0.5}
    requests = [{"id": name, "prompt_tokens": [1] * 7, "max_tokens": 2} for name in "ABC"]
    scenario = {"schema": "scenario/1", "engine": engine, "requests": requests}
    given_scenario = Scenario.from_dict(scenario)
    assert lives(run_of(given_scenario))["C"].waited > 0
    for one in both_allocators(given_scenario, "request"):
        assert one.engine.watermark == 0
        assert [life.waited for life in lives(run_of(one)).values()] == [0, 0, 0]


def test_what_a_reservation_cannot_hold_is_refused(root: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot fork"):
        both_allocators(built_in(root, "fork"), "request")


def test_block_sizes_keep_the_bytes_of_the_pool(root: Path) -> None:
    scenario = built_in(root, "block-sizes")
    for size in BLOCK_SIZES:
        sized = with_block_size(scenario, size)
        assert sized is not None
        assert sized.engine.num_blocks * size == 2_048
        assert Scenario.from_dict(sized.to_dict()) == sized
    small = with_block_size(built_in(root, "fork"), 128)
    assert small is None or small.engine.num_blocks >= 1


def test_what_the_block_size_changes(root: Path) -> None:
    """The claims of the page: larger blocks waste more, share less, copy more, and make shorter
    tables; from 64 slots on this pool is too coarse and has to preempt."""
    scenario = built_in(root, "block-sizes")
    by_size = {}
    for size in BLOCK_SIZES:
        sized = with_block_size(scenario, size)
        assert sized is not None
        by_size[size] = pool_summary(run_of(sized))
    got = list(by_size.values())
    assert [s.waste for s in got] == sorted(s.waste for s in got)
    assert by_size[1].wasted == 0
    assert [s.cached_tokens for s in got] == sorted((s.cached_tokens for s in got), reverse=True)
    assert (by_size[1].cached_tokens, by_size[16].cached_tokens) == (1_800, 1_728)
    assert [s.longest_table for s in got] == [304, 152, 76, 38, 19, 10, 5, 3]
    assert [s.copied_slots for s in got] == [0, 4, 12, 20, 52, 84, 212, 468]
    assert [s.preemptions for s in got] == [0, 0, 0, 0, 0, 0, 2, 8]
    assert [s.steps for s in got] == [80, 80, 80, 80, 80, 80, 93, 108]


def test_a_copy_takes_one_reference_from_one_block(root: Path) -> None:
    """Three answers share block 1; two of them copy it, and the last one writes in place."""
    run = run_of(built_in(root, "fork"))
    seen = copies(run)
    assert [(c.step, c.refs_before, c.refs_after) for c in seen] == [(1, 3, 2), (1, 2, 1)]
    assert len({c.src for c in seen}) == 1
    assert len({c.dst for c in seen}) == 2


def test_the_recorded_beams_copy_in_the_step_that_the_page_links(root: Path) -> None:
    run = read_run(root / "runs" / "beam_search.run.json.gz").to_dict()
    seen = copies(run)
    assert seen
    assert all(c.refs_before == c.refs_after + 1 >= 2 for c in seen)
    first = [c for c in seen if c.step == seen[0].step]
    assert [c.refs_after for c in first] == [2, 1]


def test_lives_count_the_waiting(root: Path) -> None:
    run = run_of(built_in(root, "head-of-line"))
    found = lives(run)
    first = {}
    for record in run["steps"]:
        for event in record["events"]:
            if event["type"] == "admitted":
                first[event["request"]] = record["step"]
    for name, life in found.items():
        assert life.waited == first[name] - life.arrived
    assert lives(run_of(built_in(root, "one-request")))["A"] == Life(0, 0, 0, len_of(root))


def len_of(root: Path) -> int:
    return len(run_of(built_in(root, "one-request"))["steps"]) - 1


@pytest.mark.parametrize("num_blocks", [256, 1_024, 4_096, 16_384, 65_536])
def test_a_pool_of_any_size_is_well_used(num_blocks: int) -> None:
    scenario = pool_scenario(num_blocks)
    assert scenario == pool_scenario(num_blocks), "the same for the same seed"
    assert scenario.engine.num_blocks == num_blocks
    run = run_of(scenario)
    used = max(record["usage"]["in_use"] for record in run["steps"])
    assert used > num_blocks * (0.9 if num_blocks <= 4_096 else 0.45)
    kinds = {event["type"] for record in run["steps"] for event in record["events"]}
    assert {"waiting", "block_copied", "forked"} <= kinds
    assert "request_rejected" not in kinds
    if num_blocks <= 4_096:
        assert {"block_evicted", "block_shared"} <= kinds


def test_a_seed_means_the_same_pool_everywhere() -> None:
    """Written down: a link holds the number of blocks alone, and `Random.random` is all that Python
    promises to keep."""
    drawn = [(r.arrive_step, len(r.prompt_tokens or ()), r.max_tokens)
             for r in pool_scenario(256).requests]  # fmt: skip
    assert drawn == [
        (0, 449, 13), (0, 338, 26), (1, 344, 49), (0, 386, 58), (3, 421, 52),
        (1, 763, 25), (1, 299, 16), (2, 540, 60), (3, 591, 47), (3, 446, 40),
    ]  # fmt: skip


def test_a_tiny_pool_has_no_workload() -> None:
    with pytest.raises(ScenarioError, match="too small"):
        pool_scenario(63)
