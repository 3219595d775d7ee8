"""Blocks of a model whose layers see only the last W tokens: given back, and found again."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.engine import Engine
from core.errors import RunError
from core.kv.manager import KVCacheManager
from core.runner import ScriptedRunner
from core.scenario import Scenario
from core.sched.admission import Wait, lacks_blocks
from core.simulate import verify
from core.trace.run import Run, run_from_dict
from core.trace.text import describe_run
from tests import reference
from tests.core.drive import (
    Json,
    admit,
    compute,
    events,
    fork,
    manager,
    req,
    scenario,
    sequence,
    served,
    step_of,
    tokens,
)
from tests.core.test_tampering import others, passed
from tests.scenario_gen import random_scenario

SOURCE = {"device": "CPU", "dtype": "float32", "model": "some-model", "model_sha256": None}
any_scenario = st.randoms(use_true_random=False).map(random_scenario)
windows = st.integers(1, 14)
thorough = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def windowed(data: Json, window: int | None) -> Run:
    """The run of a scenario whose model has this window, checked after each step."""
    runner = ScriptedRunner(source=SOURCE, sliding_window=window)
    parsed = Scenario.from_dict(data)
    return Engine(parsed, runner, debug=True, keep_state=True, label="RECORDED").run_to_end()


def run_of(*requests: Json, window: int | None, **engine: Any) -> Run:
    return windowed(scenario(*requests, **{"prefix_cache": "hash", **engine}), window)


def tables(run: Run, name: str) -> list[list[int]]:
    """The block table after each step in which there is one."""
    states = [record["state"]["block_tables"] for record in run.steps]
    return [state[name] for state in states if name in state]


def given_back(run: Run) -> list[tuple[int, list[int], str, list[int]]]:
    """(step, blocks, to, entries) of each event by which a window passed blocks."""
    return [
        (record["step"], event["blocks"], event["to"], event["entries"])
        for record in run.steps
        for event in record["events"]
        if event["type"] == "blocks_freed" and event["reason"] == "window"
    ]


def windowed_cache(window: int, **engine: Any) -> KVCacheManager:
    """A hash cache, without a scheduler."""
    return manager(sliding_window=window, prefix_cache="hash", **engine)


# ---- giving back -------------------------------------------------------------------------------


def test_a_window_of_two_blocks() -> None:
    """W 8, blocks of 4. 20 computed: 20 − 7 = 13, so 3 whole blocks lie before them."""
    run = run_of(req("A", tokens(0, 20), max_tokens=8), window=8)
    assert tables(run, "A") == [
        [-1, -1, -1, 3, 4],  # 20 computed
        [-1, -1, -1, 3, 4, 5],  # 21
        [-1, -1, -1, 3, 4, 5],
        [-1, -1, -1, -1, 4, 5],  # 23: 23 − 7 = 16
        [-1, -1, -1, -1, 4, 5],
        [-1, -1, -1, -1, 4, 5, 6],
        [-1, -1, -1, -1, 4, 5, 6],
    ]  # 27 computed: entry 4 is given back in the step that ends it
    assert given_back(run) == [
        (0, [2, 1, 0], "back", [2, 1, 0]),
        (3, [3], "back", [3]),
        (7, [4], "back", [4]),
    ]
    assert run.steps[0]["state"]["free_order"] == [*range(5, 16), 2, 1, 0]
    assert run.steps[0]["usage"] == {"free": 11, "cached": 3, "in_use": 2}
    assert run.steps[-1]["state"]["free_order"] == [6, *range(7, 16), 2, 1, 0, 3, 4, 5]


def test_a_window_that_is_no_multiple_of_a_block() -> None:
    """W 6: the last 5 tokens are needed; of 13, those from 8 on."""
    run = run_of(req("A", tokens(0, 13), max_tokens=5), window=6)
    assert tables(run, "A") == [
        [-1, -1, 2, 3],  # 13 computed, 8 passed
        [-1, -1, 2, 3],
        [-1, -1, 2, 3],
        [-1, -1, 2, 3],  # 16, 11 passed
    ]
    assert given_back(run) == [(0, [1, 0], "back", [1, 0]), (4, [2], "back", [2])]


def test_a_window_of_one_token_needs_no_block_between_steps() -> None:
    run = run_of(req("A", tokens(0, 8), max_tokens=5), window=1)
    assert tables(run, "A") == [[-1, -1], [-1, -1, 2], [-1, -1, 2], [-1, -1, 2]]
    (ended,) = events(run, "blocks_freed", reason="finished")
    assert (ended["blocks"], ended["to"]) == ([], "front"), "the window had passed them all"
    assert run.steps[-1]["state"]["block_tables"] == {}
    assert run.steps[-1]["state"]["ref_counts"] == {}


def test_blocks_of_one_token() -> None:
    """W 3: the last 2 tokens are needed, each in a block of its own."""
    run = run_of(req("A", tokens(0, 4), max_tokens=3), window=3, block_size=1)
    assert tables(run, "A") == [[-1, -1, 2, 3], [-1, -1, -1, 3, 4]]
    assert given_back(run)[:2] == [(0, [1, 0], "back", [1, 0]), (1, [2], "back", [2])]


def test_without_a_cache_they_go_to_the_front() -> None:
    run = run_of(req("A", tokens(0, 13), max_tokens=2), window=6, prefix_cache="off")
    assert given_back(run) == [(0, [1, 0], "front", [1, 0])]
    assert run.steps[0]["state"]["free_order"] == [0, 1, *range(4, 16)]


def test_a_chunk_can_be_larger_than_the_window() -> None:
    """What a chunk has written and no later token can see goes in the same step."""
    run = run_of(
        req("A", tokens(0, 22), max_tokens=2),
        window=5,
        long_prefill_token_threshold=10,
        prefix_cache="off",
        num_blocks=6,
    )
    assert tables(run, "A") == [
        [-1, 1, 2],  # 10 computed, 6 passed
        [-1, -1, -1, -1, 3],  # entries 3 and 4 were blocks 0 and 3; 20 computed, 16 passed
        [-1, -1, -1, -1, 3, 1],  # given back were 0, 2, 1: the last one is taken first
    ]


def test_a_shared_block_only_loses_a_reference() -> None:
    """Both twins pass entries 0 and 1 in the step of the fork: held by the other, then free."""
    run = run_of(req("A", tokens(0, 13), n=2, max_tokens=3), window=6)
    assert given_back(run)[:2] == [
        (0, [1, 0], "held", [1, 0]),
        (0, [1, 0], "back", [1, 0]),
    ]
    assert run.steps[0]["state"]["block_tables"] == {"A#0": [-1, -1, 2, 3], "A#1": [-1, -1, 2, 3]}
    assert run.steps[0]["state"]["ref_counts"] == {"2": 2, "3": 2}
    (copy,) = events(run, "block_copied")
    assert (copy["src"], copy["dst"], copy["index"]) == (3, 4, 3)
    (forked,) = events(run, "forked")
    assert forked["blocks"] == [0, 1, 2, 3]


def test_a_fork_of_a_table_with_entries_given_back() -> None:
    """The prompt comes in chunks, so the fork finds a window that has passed two blocks."""
    run = run_of(
        req("A", tokens(0, 14), n=2, max_tokens=3),
        window=6,
        long_prefill_token_threshold=13,
    )
    (forked,) = events(run, "forked")
    assert forked["blocks"] == [2, 3]
    assert run.steps[1]["state"]["ref_counts"] == {"2": 2, "3": 2}


def test_a_preempted_sequence_gives_up_what_it_holds_and_comes_back_behind_a_hole() -> None:
    """W 5: one block of a prefix is enough. C has passed block 2, which B then takes."""
    run = run_of(
        req("A", tokens(0, 4), max_tokens=4),
        req("B", tokens(20, 4), max_tokens=4),
        req("C", tokens(50, 8), max_tokens=4),
        window=5,
        num_blocks=5,
    )
    assert run.steps[0]["state"]["block_tables"] == {"A": [0], "B": [1], "C": [-1, 3]}
    assert step_of(run, "preempted", "C") == 1
    (freed,) = events(run, "blocks_freed", step=1)
    assert (freed["reason"], freed["blocks"], freed["to"]) == ("preempted", [3], "back")
    assert run.steps[1]["state"]["block_tables"] == {"A": [0, 4], "B": [1, 2]}
    (resumed,) = events(run, "resumed", step=4)
    assert (resumed["num_tokens"], resumed["num_cached_tokens"]) == (9, 8)
    (shared,) = events(run, "block_shared", step=4)
    assert (shared["blocks"], shared["index"]) == ([3], 1)
    assert tables(run, "C")[1][:2] == [-1, 3]
    verify(run)


@pytest.mark.parametrize("engine", [{"prefix_cache": "radix"}, {"allocator": "contiguous"}])
def test_tree_and_reservations_give_nothing_back(engine: Json) -> None:
    engine = {"prefix_cache": "off", **engine}
    requests = [req("A", tokens(0, 20), max_tokens=8), req("B", tokens(0, 18), arrive_step=2)]
    with_window, without = (run_of(*requests, window=w, **engine) for w in (4, None))
    assert with_window.steps and strip(with_window) == strip(without)
    assert with_window.header["sliding_window"] == 4
    verify(with_window)


def strip(run: Run) -> list[Json]:
    """A run's steps without timings."""
    return [{key: part for key, part in step.items() if key != "timing"} for step in run.steps]


@thorough
@given(any_scenario, st.sampled_from([60, 61, 1000]))
def test_a_window_that_nothing_outgrows_changes_nothing(data: Json, window: int) -> None:
    """max_model_len is at most 60 in these scenarios."""
    assert strip(windowed(data, window)) == strip(windowed(data, None))


# ---- hits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "hit"),
    [
        ((), [-1, -1, 2, 3]),
        ((0,), [-1, -1, 2, 3]),
        ((0, 1), [-1, -1, 2, 3]),
        ((3,), [-1, 1, 2]),
        ((0, 3), [-1, 1, 2]),
        ((2,), [0, 1]),  # no two before it lie further right
        ((1, 3), [0]),  # a prefix shorter than the window has to be whole
        ((2, 0), []),
        ((1, 2), [0]),
        ((0, 1, 2), []),
        ((0, 1, 2, 3), []),
    ],
)
def test_a_hit_needs_the_last_blocks_of_the_prefix(
    missing: tuple[int, ...], hit: list[int]
) -> None:
    """W 8, blocks of 4: the last two blocks, from the right."""
    kv = windowed_cache(8)
    first = served(kv, tokens(0, 16))
    kv.release(first, "finished")
    for block in missing:
        kv.cache.uncache(first, block)
    again = sequence(tokens(0, 18))
    assert kv.find_prefix(again) == hit
    free = kv.num_free
    kv.admit(again, kv.find_prefix(again))
    held = [block for block in hit if block >= 0]
    assert free - kv.num_free == len(held)
    assert [kv.cache.hits[block] for block in range(4)] == [int(b in held) for b in range(4)]
    assert again.block_table == hit and again.num_computed_tokens == 4 * len(hit)
    compute(kv, again)
    kv.release(again, "finished")
    assert kv.num_free == 16


@pytest.mark.parametrize(
    ("window", "num_blocks"), [(1, 1), (2, 1), (5, 1), (6, 2), (9, 2), (10, 3), (17, 4), (18, 4)]
)
def test_how_many_blocks_a_hit_needs(window: int, num_blocks: int) -> None:
    """⌈(W − 1) / 4⌉ of a prefix of 4 blocks; at least one, or nothing would have been found."""
    kv = windowed_cache(window)
    kv.release(served(kv, tokens(0, 16)), "finished")
    hit = kv.find_prefix(sequence(tokens(0, 17)))
    assert hit == [-1] * (4 - num_blocks) + list(range(4 - num_blocks, 4))
    assert kv.find_prefix(sequence(tokens(100, 17))) == []


def test_the_key_decides_although_the_first_blocks_are_not_looked_at() -> None:
    """The same last two blocks behind another beginning, or under another salt, are no hit."""
    kv = windowed_cache(8)
    kv.release(served(kv, tokens(0, 16)), "finished")
    assert kv.find_prefix(sequence([99, *tokens(1, 16)])) == []
    assert kv.find_prefix(sequence(tokens(0, 17), cache_salt="x")) == []
    assert len(kv.find_prefix(sequence(tokens(0, 17)))) == 4


def test_a_hit_behind_evicted_parents() -> None:
    """B takes blocks 1 and 0, which A's window had passed; C still finds all of A's prompt."""
    run = run_of(
        req("A", tokens(0, 16), max_tokens=1),
        req("B", tokens(50, 14), max_tokens=1, arrive_step=1),
        req("C", tokens(0, 18), max_tokens=2, arrive_step=2),
        window=8,
        num_blocks=6,
    )
    assert [event["blocks"] for event in events(run, "block_evicted", step=1)] == [[1], [0]]
    (shared,) = events(run, "block_shared")
    assert (shared["blocks"], shared["index"]) == ([2, 3], 2)
    (admitted,) = events(run, "admitted", step=2)
    assert (admitted["num_tokens"], admitted["num_cached_tokens"]) == (18, 16)
    assert run.results["C"]["num_cached_tokens"] == 16
    assert run.steps[2]["scheduled"]["C"]["num_scheduled_tokens"] == 2
    assert run.steps[2]["state"]["block_tables"]["C"][:4] == [-1, -1, 2, 3]
    assert run.steps[2]["state"]["cached"]["2"]["hits"] == 1
    verify(run)


def test_an_entry_of_a_hit_that_names_no_block_needs_none() -> None:
    """5 entries, 4 of them a hit, 2 of which name no block: one free block is enough."""
    kv = windowed_cache(8, num_blocks=5)
    first = served(kv, tokens(0, 16))
    kv.release_before_window(first)
    kv.release(first, "finished")
    served(kv, tokens(50, 8))  # takes the empty block and block 1
    again = sequence(tokens(0, 18))
    hit = kv.find_prefix(again)
    assert hit == [-1, -1, 2, 3]
    assert (kv.num_free, kv.num_idle(hit)) == (3, 2)
    assert lacks_blocks(kv, again, hit, owed=0, watermark=0) is None
    assert lacks_blocks(kv, again, hit, owed=1, watermark=0) == Wait("no_free_blocks", 1, 0)
    assert admit(kv, again) == 4
    assert compute(kv, again) == 1
    assert (again.block_table, kv.num_free) == ([-1, -1, 2, 3, 0], 0)
    kv.release_before_window(again)  # 18 computed, 11 passed
    assert again.block_table == [-1, -1, 2, 3, 0]


def test_twins_give_back_one_after_another() -> None:
    kv = windowed_cache(6)
    seq = served(kv, tokens(0, 13))
    (twin,) = fork(kv, seq, 1)
    kv.release_before_window(seq)
    assert kv.pool.ref_counts[:4] == [1, 1, 2, 2] and kv.num_free == 12
    assert twin.block_table == [0, 1, 2, 3]
    kv.release_before_window(twin)
    assert kv.pool.ref_counts[:4] == [0, 0, 2, 2] and kv.num_free == 14
    kv.release_before_window(twin)
    assert kv.num_free == 14, "nothing is given back twice"


# ---- over random scenarios ---------------------------------------------------------------------


@thorough
@given(any_scenario, windows)
def test_blocks_are_conserved_and_never_more_than_the_window_needs(data: Json, window: int) -> None:
    engine = Scenario.from_dict(data).engine
    bounded = engine.prefix_cache != "radix" and engine.allocator == "paged"
    most = -(-(window - 1) // engine.block_size) + 1
    for record in windowed(data, window).steps:
        state = record["state"]
        held = {
            name: [block for block in table if block >= 0]
            for name, table in state["block_tables"].items()
        }
        counts = Counter(block for blocks in held.values() for block in blocks)
        assert {str(block): n for block, n in counts.items()} == state["ref_counts"]
        assert sum(record["usage"].values()) == engine.num_blocks
        if bounded:
            assert all(len(blocks) <= most for blocks in held.values())
        for table in state["block_tables"].values():
            passed_entries = table.count(-1)
            assert table[:passed_entries] == [-1] * passed_entries, "the first ones, always"


@thorough
@given(any_scenario, windows)
def test_a_run_with_a_window_survives_its_file_and_verifies(data: Json, window: int) -> None:
    run = windowed(data, window)
    verify(run_from_dict(json.loads(json.dumps(run.to_dict()))))


@thorough
@given(any_scenario, windows)
def test_untraced_and_traced_do_the_same(data: Json, window: int) -> None:
    """Blocks are freed by other code where nobody looks."""
    engines = [
        Engine(Scenario.from_dict(data), ScriptedRunner(sliding_window=window), trace=trace)
        for trace in (True, False)
    ]
    while not engines[0].done:
        for engine in engines:
            engine.step()
        first, second = (engine.snapshot() for engine in engines)
        assert first == second
    assert engines[1].done


def test_the_random_scenarios_meet_every_rule() -> None:
    """Or the comparisons above would say little."""
    met: Counter[str] = Counter()
    for seed in range(150):
        reference.simulate(random_scenario(random.Random(seed)), met, 1 + seed % 9)
    for rule in ("given back", "given back, still shared", "hits behind a hole"):
        assert met[f"window: {rule}"] >= 10, met


# ---- the file ----------------------------------------------------------------------------------


def recorded() -> Json:
    """Blocks given back to each place, held ones, a hit behind a hole."""
    run = run_of(
        req("A", tokens(0, 17), n=2, max_tokens=6),
        req("B", tokens(50, 14), max_tokens=2, arrive_step=5),
        req("C", tokens(0, 18), max_tokens=2, arrive_step=8),
        window=8,
        num_blocks=12,
        eviction="fifo",
    )
    return json.loads(json.dumps(run.to_dict()))


def test_a_changed_window_is_detected() -> None:
    content = recorded()
    assert passed(content) == "verified"
    for other in (1, 4, 7, 9, 12, None, 0, -1, 2**60, "8", 8.5):
        content["header"]["sliding_window"] = other
        assert passed(content) is None, other
    del content["header"]["sliding_window"]
    assert passed(content) is None


def test_a_script_has_no_window() -> None:
    data = scenario(req("A", [1, 2, 3], max_tokens=2))
    run = Engine(Scenario.from_dict(data), ScriptedRunner()).run_to_end()
    content = json.loads(json.dumps(run.to_dict()))
    assert content["header"]["sliding_window"] is None and passed(content) == "verified"
    content["header"]["sliding_window"] = 1000
    assert passed(content) is None


def test_every_changed_field_of_an_event_is_detected() -> None:
    content = recorded()
    missed = []
    kinds: Counter[tuple[Any, ...]] = Counter()
    for record in content["steps"]:
        for i, event in enumerate(record["events"]):
            if event["type"] not in ("blocks_freed", "block_shared", "forked"):
                continue
            kinds[event["type"], event.get("reason"), event.get("to")] += 1
            for field, value in event.items():
                rest = {key: other for key, other in event.items() if key != field}
                for changed in [rest, *({**event, field: other} for other in others(value))]:
                    record["events"][i] = changed
                    if came := passed(content):
                        missed.append((event["type"], field, changed.get(field), came))
            record["events"][i] = event
    assert missed == []
    assert {("blocks_freed", "window", to) for to in ("held", "before")} <= kinds.keys()


def first_window_event(content: Json) -> Json:
    return next(
        event
        for record in content["steps"]
        for event in record["events"]
        if event.get("reason") == "window"
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda event: event.pop("entries"),
        lambda event: event["entries"].append(0),
        lambda event: event["entries"].reverse(),
        lambda event: event.update(entries=[999, 998]),
        lambda event: event.update(sequence="nobody"),
        lambda event: event.update(entries=[-1, -2]),
    ],
)
def test_an_event_that_does_not_fit_is_one_clear_error(change: Callable[[Json], object]) -> None:
    content = recorded()
    event = first_window_event(content)
    assert len(event["blocks"]) == 2
    change(event)
    with pytest.raises(RunError):
        list(run_from_dict(content).states())


def test_a_hit_far_behind_all_tokens_takes_no_memory() -> None:
    content = recorded()
    shared = next(
        event
        for record in content["steps"]
        for event in record["events"]
        if event["type"] == "block_shared"
    )
    shared["index"] = 2**52
    with pytest.raises(RunError, match="behind all"):
        list(run_from_dict(content).states())


def test_the_text_says_what_and_why() -> None:
    run = run_of(req("A", tokens(0, 13), max_tokens=2), window=6)
    lines = "\n".join(describe_run(run))
    assert "sees the last 6 tokens only" in lines
    assert "blocks_freed A blocks [1, 0], to back, entries [1, 0] [window] The model's" in lines
