"""An engine that lives for days: what it keeps, and runs that begin in the middle of its life."""

from __future__ import annotations

import dataclasses
import gc
import json
import random
import subprocess
import tracemalloc
from typing import Any

import pytest

from core.engine import Engine
from core.errors import RunError
from core.kv.hashing import root_key
from core.runner import ScriptedRunner
from core.scenario import RequestSpec, Scenario
from core.trace.reducer import Reducer
from core.trace.run import Run, run_from_dict

SETTINGS: list[dict[str, Any]] = [
    {},
    {"prefix_cache": "hash", "eviction": "lfu"},
    {"eviction": "fifo", "policy": "priority", "num_blocks": 12},
    {"prefix_cache": "off", "batching": "static"},
    {"prefix_cache": "off", "allocator": "contiguous", "num_blocks": 40},
]


def engine(debug: bool = True, **fields: Any) -> Engine:
    fields = {"num_blocks": 24, "block_size": 4, "max_num_seqs": 4, **fields}
    scenario = {"schema": "scenario/1", "engine": fields}
    return Engine(Scenario.from_dict(scenario), ScriptedRunner(), debug=debug)


def submit(live: Engine, chance: random.Random, name: str) -> None:
    """A request of one of a few salts, with one of a few beginnings."""
    start = [chance.randrange(3)] * chance.choice([4, 8])
    tokens = (*start, *(chance.randrange(50) for _ in range(chance.randrange(1, 9))))
    n = chance.choice([1, 1, 2]) if live.config.allocator == "paged" else 1
    spec = RequestSpec(
        id=name,
        arrive_step=live.num_steps,
        prompt_tokens=tokens,
        max_tokens=chance.randrange(1, 7),
        n=n,
        cache_salt=f"salt {name if chance.random() < 0.5 else 'of all'}",
    )
    live.add([spec])


def work(live: Engine, chance: random.Random, steps: int, first_name: int = 0) -> int:
    """So many steps with requests that come and go, each record taken at once."""
    for _ in range(steps):
        if chance.random() < 0.4 and len(live.requests) < 8:
            submit(live, chance, f"r{first_name}")
            first_name += 1
            if chance.random() < 0.1:
                live.cancel(live.requests[-1])
        live.step()
        live.take_steps()
    return first_name


def allocated() -> int:
    """Bytes that are held, without the memo of namespaces, which has a limit of its own."""
    root_key.cache_clear()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("fields", SETTINGS, ids=str)
def test_memory_stays_flat(fields: dict[str, Any]) -> None:
    tracemalloc.start()
    try:
        live, chance = engine(debug=False, **fields), random.Random(7)
        names = work(live, chance, 1000)
        before = allocated()
        work(live, chance, 2000, names)
        grown = allocated() - before
    finally:
        tracemalloc.stop()
    assert grown < 20_000, f"{grown:,} bytes more after 2,000 steps"


@pytest.mark.parametrize("fields", SETTINGS, ids=str)
def test_only_what_lives_is_kept(fields: dict[str, Any]) -> None:
    live = engine(**fields)
    work(live, random.Random(3), 300)
    while not live.done:
        live.step()
    live.take_steps()
    assert live.requests == [] and live.results() == {} and live.take_steps() == []
    assert live.recorder is not None and not live.recorder.events


def test_an_id_may_be_used_again_and_draws_other_numbers() -> None:
    live = engine()
    for _ in range(2):
        live.add([RequestSpec(id="A", arrive_step=live.num_steps, prompt_tokens=(1, 2))])
        order = live.requests[-1].order
        while not live.done:
            live.step()
        live.take_steps()
    assert order == 1


def test_a_taken_record_is_gone() -> None:
    live = engine()
    work(live, random.Random(1), 3)
    assert live.recorder is not None
    with pytest.raises(IndexError, match="taken"):
        live.recorder.step(1)


def mid_life(seed: int, **fields: Any) -> tuple[Run, list[dict[str, Any]]]:
    """A run that begins after some steps, and the engine's own states after each of its steps."""
    live, chance = engine(**fields), random.Random(seed)
    names = work(live, chance, 40)
    header = json.loads(json.dumps(live.header()))
    start, steps, states = live.num_steps, [], []
    for _ in range(40):
        if chance.random() < 0.4 and len(live.requests) < 8:
            submit(live, chance, f"r{names}")
            names += 1
        came = [r for r in live.requests if r.spec.arrive_step == live.num_steps]
        live.step()
        states.append(live.snapshot())
        (record,) = live.take_steps()
        record["prompts"] = {r.id: r.prompt_tokens.tolist() for r in came}
        steps.append({**record, "step": record["step"] - start})
    return run_from_dict({"schema": "run/1", "header": header, "steps": steps}), states


def without_times(state: dict[str, Any], live: set[str]) -> dict[str, Any]:
    """A state without `last_used`, which counts from another step, and without what has ended."""
    out: dict[str, Any] = json.loads(json.dumps(state))
    for entry in [*out["cached"].values(), *out["tree"]]:
        del entry["last_used"]
    out["outputs"] = {name: o for name, o in out["outputs"].items() if name in live}
    return out


def assert_same(reduced: dict[str, Any], own: dict[str, Any]) -> None:
    live = {*own["waiting"], *own["running"]}
    assert without_times(reduced, live) == without_times(own, live)


@pytest.mark.parametrize("fields", SETTINGS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_a_run_may_begin_in_the_middle(seed: int, fields: dict[str, Any]) -> None:
    run, states = mid_life(seed, **fields)
    assert run.header["initial_state"]["running"] or seed
    reducer = Reducer(run.header)
    for record, own in zip(run.steps, states, strict=True):
        reducer.apply_step(record)
        assert reducer.usage() == record["usage"]
        assert_same(reducer.state(), own)


@pytest.mark.parametrize("fields", SETTINGS, ids=str)
def test_the_browser_begins_in_the_middle_as_well(
    fields: dict[str, Any], node: str, root: Any
) -> None:
    run, states = mid_life(5, **fields)
    done = subprocess.run(
        [node, str(root / "tests" / "js" / "reduce_cli.mjs")],
        input=json.dumps(run.to_dict()),
        capture_output=True,
        text=True,
        check=True,
    )
    for reduced, own in zip(json.loads(done.stdout), states, strict=True):
        assert_same(reduced, own)


@pytest.mark.parametrize(
    "change",
    [
        {"free_order": [0, 0]},
        {"free_order": [99]},
        {
            "cached": {
                "99": {"tokens": [], "key": "", "parent_key": None, "last_used": 0, "hits": 0}
            }
        },
        {"tree": [{"id": 0, "parent": None, "blocks": [23]}], "cached": {}},
        {"sequences": {"A": {}}},
        {"ref_counts": {"-1": 1}},
    ],
)
def test_a_damaged_beginning_is_one_clear_error(change: dict[str, Any]) -> None:
    run, _ = mid_life(0)
    run.header["initial_state"] |= change
    with pytest.raises(RunError):
        Reducer(run_from_dict(run.to_dict()).header)


def test_an_engine_that_has_done_nothing_needs_no_beginning() -> None:
    live = engine()
    assert "initial_state" not in live.header()
    assert dataclasses.replace(live.scenario, requests=()) == live.scenario
