"""Runs that break the format or contradict themselves: one RunError each."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from core.errors import RunError
from core.trace.run import run_from_dict
from core.trace.text import describe_run
from tests.core.drive import Json


def consume(content: Any) -> None:
    """Read a run as `replay --state` does."""
    run = run_from_dict(content)
    list(describe_run(run, list(run.states())))


def event_of(content: Json, kind: str, **fields: Any) -> Json:
    return next(
        event
        for record in content["steps"]
        for event in record["events"]
        if event["type"] == kind and all(event.get(k) == v for k, v in fields.items())
    )


# ---- content -----------------------------------------------------------------------------------


def put(*path: Any, value: Any) -> Callable[[Json], None]:
    def change(content: Any) -> None:
        *parents, last = path
        for part in parents:
            content = content[part]
        content[last] = value

    change.__name__ = f"{'.'.join(map(str, path))} = {value!r}"[:60]
    return change


def drop(*path: Any) -> Callable[[Json], None]:
    def change(content: Any) -> None:
        *parents, last = path
        for part in parents:
            content = content[part]
        del content[last]

    change.__name__ = f"no {'.'.join(map(str, path))}"
    return change


def name_of(change: Callable[[Json], None]) -> str:
    return ascii(change.__name__)


@pytest.mark.parametrize(
    "change",
    [
        put("schema", value="run/2"),
        put("schema", value=None),
        put("schema", value={"a": "x" * 10_000}),
        drop("schema"),
        drop("header"),
        drop("steps"),
        put("extra", value=1),
        put("steps", value={}),
        put("steps", value=[None]),
        put("header", value=[]),
        put("header", "label", value="MEASURED"),
        put("header", "source", value={}),
        put("header", "prompts", value=[]),
        put("header", "prompts", "A", value="abc"),
        put("header", "prompts", "A", value=[-1]),
        put("header", "prompts", "A", value=[True]),
        put("header", "eos_token_ids", value=[-1]),
        put("header", "recorded_at", value=5),
        put("header", "scenario", value={}),
        put("header", "scenario", "schema", value="scenario/2"),
        put("header", "scenario", "engine", "num_blocks", value=0),
        put("header", "scenario", "engine", "num_blocks", value=10**30),
        put("header", "scenario", "engine", "colour", value=0),
        put("header", "scenario", "requests", 1, "id", value="A"),
        put("header", "scenario", "requests", 0, "n", value=-1),
        put("steps", 0, "step", value=1),
        put("steps", 1, "step", value=0),
        put("steps", 0, "step", value=-1),
        put("steps", 0, "step", value=None),
        put("steps", 0, "scheduled", value=[]),
        put("steps", 0, "scheduled", "A", value={"num_scheduled_tokens": 9}),
        put("steps", 0, "scheduled", "A", "num_scheduled_tokens", value=0),
        put("steps", 0, "scheduled", "A", "num_scheduled_tokens", value=True),
        put("steps", 0, "usage", value={}),
        put("steps", 0, "usage", "free", value=-1),
        put("steps", 0, "usage", "free", value=10**30),
        put("steps", 0, "timing", value={"schedule_us": -1}),
        put("steps", 0, "timing", value={"schedule_us": "slow"}),
        put("steps", 0, "state", value=[]),
        put("steps", 0, "events", value=[{}]),
        put("steps", 0, "events", value=[{"type": 3}]),
        put("results", value=[]),
        put("results", "A", value={"num_cached_tokens": -1}),
        drop("steps", 0),
        drop("steps", 3),
    ],
    ids=name_of,
)
def test_a_run_that_breaks_the_format_is_refused(
    content: Json, change: Callable[[Json], None]
) -> None:
    change(content)
    with pytest.raises(RunError) as caught:
        run_from_dict(content)
    assert len(str(caught.value)) < 400


def test_a_step_twice_or_out_of_order_is_refused(content: Json) -> None:
    for steps in (
        [content["steps"][0], *content["steps"]],
        content["steps"][::-1],
        [content["steps"][1], content["steps"][0], *content["steps"][2:]],
    ):
        with pytest.raises(RunError, match="says that it is step"):
            run_from_dict({**content, "steps": steps})


@pytest.mark.parametrize("content", [None, [], "x", 3, True, {}, {"schema": []}, (), b"x"])
def test_what_is_no_run_at_all_is_refused(content: Any) -> None:
    with pytest.raises(RunError, match="not a run"):
        run_from_dict(content)


# ---- events that do not fit the state ----------------------------------------------------------

HUGE = 2**53 - 1


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("blocks_allocated", {"blocks": [0, 0]}),
        ("blocks_allocated", {"blocks": [HUGE]}),
        ("blocks_allocated", {"blocks": [-1]}),
        ("blocks_allocated", {"blocks": [7]}),
        ("blocks_allocated", {"blocks": [0.5]}),
        ("blocks_freed", {"blocks": [6, 6]}),
        ("blocks_freed", {"blocks": [HUGE]}),
        ("blocks_freed", {"blocks": [-1]}),
        ("blocks_freed", {"to": "nowhere"}),
        ("blocks_freed", {"before": [1, 2, 3, 4, 5]}),
        ("blocks_freed", {"to": "before", "before": [HUGE]}),
        ("block_shared", {"blocks": [HUGE]}),
        ("block_shared", {"cause": "luck"}),
        ("block_copied", {"src": 6}),
        ("block_copied", {"src": HUGE}),
        ("block_copied", {"index": HUGE}),
        ("block_copied", {"sequence": "nobody"}),
        ("block_cached", {"request": "nobody"}),
        ("block_cached", {"sequence": "nobody"}),
        ("block_cached", {"keys": []}),
        ("block_evicted", {"blocks": [5, 5]}),
        ("block_evicted", {"blocks": [HUGE]}),
        ("node_split", {"node": HUGE}),
        ("node_split", {"num_blocks": 0}),
        ("node_split", {"num_blocks": HUGE}),
        ("admitted", {"sequence": "nobody"}),
        ("preempted", {"sequence": "nobody"}),
        ("preempted", {"position": -1}),
        ("token_sampled", {"sequence": "nobody"}),
        ("token_sampled", {"token": -1}),
        ("forked", {"sequences": []}),
        ("forked", {"sequences": ["nobody", "else"]}),
        ("request_arrived", {"sequences": []}),
    ],
    ids=str,
)
def test_an_event_that_does_not_fit_the_state_is_one_run_error(
    content: Json, kind: str, fields: Json
) -> None:
    """Refused with the step where the state can tell, and never anything but a RunError."""
    event_of(content, kind).update(fields)
    with pytest.raises(RunError, match=r"^(step \d+|not a valid run)"):
        consume(content)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("block_cached", {"blocks": []}),
        ("block_cached", {"blocks": [HUGE]}),
        ("block_cached", {"index": HUGE}),
        ("block_cached", {"parent": HUGE}),
        ("block_cached", {"node": HUGE}),
        ("block_shared", {"index": HUGE}),
        ("request_arrived", {"position": HUGE}),
        ("request_arrived", {"sequences": ["A", "A"]}),
        ("token_sampled", {"token": 5.0}),
        ("blocks_allocated", {"reason": "copy_on_write"}),
        ("blocks_allocated", {"blocks": []}),
        ("blocks_freed", {"blocks": []}),
        ("finished", {"sequence": "nobody"}),
        ("node_split", {"new_parent": 0}),
        ("scheduled", {"sequence": "nobody"}),
    ],
    ids=str,
)
def test_any_other_change_of_an_event_gives_a_run_error_or_nothing(
    content: Json, kind: str, fields: Json
) -> None:
    event_of(content, kind).update(fields)
    try:
        consume(content)
    except RunError:
        return


def test_each_event_missing_or_doubled_is_a_run_error_or_nothing(content: Json) -> None:
    """Every event once left out and once repeated: nothing but a RunError ever comes of it."""
    refused = total = 0
    wrong = []
    for k, record in enumerate(content["steps"]):
        for i, event in enumerate(record["events"]):
            for times in (0, 2):
                changed = copy.deepcopy(content)
                changed["steps"][k]["events"][i : i + 1] = [event] * times
                total += 1
                try:
                    consume(changed)
                except RunError:
                    refused += 1
                except Exception as exc:
                    wrong.append((k, event["type"], times, repr(exc)))
    assert wrong == []
    assert refused > total / 4


@pytest.mark.parametrize(
    "change",
    [
        drop("header", "scenario", "engine"),
        drop("header", "scenario", "engine", "num_blocks"),
        drop("header", "scenario", "engine", "prefix_cache"),
        drop("header", "scenario", "name"),
        put("header", "scenario", "engine", "num_blocks", value=7.0),
        put("header", "scenario", "engine", "block_size", value=4.0),
        put("header", "prompts", "A", value=[float(token) for token in range(9)]),
        put("steps", 0, "step", value=0.0),
        put("header", "label", value="\ud800"),
        put("header", "host", value={"cpu": "\ud800"}),
        put("header", "scenario", "name", value="\ud800"),
        put("results", "A", "text", value="\ud800"),
        put("header", "prompts", value={}),
        put("header", "scenario", "requests", value=[]),
        put("results", value={}),
        drop("results"),
    ],
    ids=name_of,
)
def test_an_unusual_header_is_a_run_error_or_read(
    content: Json, change: Callable[[Json], None]
) -> None:
    """Where the format lets defaults, whole floats or odd texts pass, reading must cope."""
    change(content)
    try:
        consume(content)
    except RunError:
        return
    run_from_dict(content).to_bytes()
