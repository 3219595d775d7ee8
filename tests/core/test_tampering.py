"""`--verify`: whatever is changed in a recorded run is refused when read, or reported."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import MismatchError, RunError
from core.scenario import Scenario
from core.simulate import simulate, verify
from core.trace.run import run_from_dict
from tests.core.drive import Json, cli, req, scenario

SHARED = list(range(9))


def requests() -> list[Json]:
    """Hits, splits, forks, copies, preemption, eviction, a cancel, a rejection."""
    return [
        req("A", SHARED, max_tokens=6),
        req("B", [*SHARED[:4], 50, 51], max_tokens=4, arrive_step=1, output_tokens=[7, 8, 9]),
        req("C", [60, 61], n=2, max_tokens=4, arrive_step=1),
        req("D", SHARED[:6], max_tokens=4, arrive_step=2, cancel_step=9),
        req("E", [1] * 70, arrive_step=2),
        {"id": "F", "prompt": "hey", "max_tokens": 2, "arrive_step": 3, "priority": 1},
    ]


ENGINES: dict[str, Json] = {
    "radix": {"num_blocks": 7},
    "hash": {"num_blocks": 7, "prefix_cache": "hash", "eviction": "lfu"},
    "static": {"num_blocks": 8, "batching": "static", "policy": "priority"},
    "off": {"num_blocks": 7, "prefix_cache": "off", "long_prefill_token_threshold": 3},
}


def recorded(engine: str, keep_state: bool = False) -> Json:
    data = scenario(*requests(), **ENGINES[engine])
    run = simulate(Scenario.from_dict(data), keep_state=keep_state, debug=True)
    return json.loads(json.dumps(run.to_dict()))


def passed(content: Json) -> str | None:
    """None where the change is refused when read or reported by verify; else what came of it."""
    try:
        verify(run_from_dict(content))
    except RunError:
        return None
    except Exception as exc:
        return repr(exc)
    return "verified"


def others(value: Any) -> Iterator[Any]:
    """Values of the same kind that differ."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
        if value > 0:
            yield value - 1
        yield 0 if value else 5
    elif isinstance(value, str):
        yield value + "x"
        yield "A" if value != "A" else "B"
    elif isinstance(value, list):
        yield [*value, value[-1]] if value else [0]
        yield value[:-1]
        if len(value) > 1 and value[::-1] != value:
            yield value[::-1]
        for i, item in enumerate(value):
            for other in others(item):
                yield [*value[:i], other, *value[i + 1 :]]


@pytest.mark.parametrize("engine", list(ENGINES))
def test_a_run_as_recorded_is_verified(engine: str) -> None:
    verify(run_from_dict(recorded(engine)))
    verify(run_from_dict(recorded(engine, keep_state=True)))
    for kind in ("finished", "waiting", "request_rejected"):
        assert kind in json.dumps(recorded(engine))


@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_change_of_an_event_field_is_detected(engine: str) -> None:
    """Each field of each event: dropped, and changed to each of several other values."""
    content = recorded(engine)
    missed = []
    for k, record in enumerate(content["steps"]):
        for i, event in enumerate(record["events"]):
            for field, value in event.items():
                if (event["type"], field) == ("token_sampled", "token"):
                    continue  # has a test of its own
                rest = {key: other for key, other in event.items() if key != field}
                for changed in [rest, *({**event, field: other} for other in others(value))]:
                    record["events"][i] = changed
                    if came := passed(content):
                        missed.append((k, event["type"], field, changed.get(field), came))
            record["events"][i] = event
    assert missed == []


@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_event_left_out_doubled_or_moved_is_detected(engine: str) -> None:
    content = recorded(engine)
    missed = []
    for k, record in enumerate(content["steps"]):
        events = record["events"]
        for i, event in enumerate(events):
            variants = {"left out": [*events[:i], *events[i + 1 :]]}
            variants["doubled"] = [*events[: i + 1], *events[i:]]
            if i and events[i - 1] != event:
                variants["moved"] = [*events[: i - 1], event, events[i - 1], *events[i + 1 :]]
            for how, changed in variants.items():
                record["events"] = changed
                if came := passed(content):
                    missed.append((k, i, event["type"], how, came))
        record["events"] = events
    assert missed == []


@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_change_of_shares_and_usage_is_detected(engine: str) -> None:
    content = recorded(engine)
    missed = []
    for k, record in enumerate(content["steps"]):
        for part in [record["usage"], *record["scheduled"].values()]:
            for field, value in list(part.items()):
                for other in others(value):
                    part[field] = other
                    if came := passed(content):
                        missed.append((k, field, value, other, came))
                part[field] = value
        for name in list(record["scheduled"]):
            share = record["scheduled"].pop(name)
            if came := passed(content):
                missed.append((k, "scheduled", name, "dropped", came))
            record["scheduled"][name + "x"] = share
            if came := passed(content):
                missed.append((k, "scheduled", name, "renamed", came))
            del record["scheduled"][name + "x"]
            record["scheduled"][name] = share
    assert missed == []


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for i, item in enumerate(value):
            yield from leaves(item, (*path, i))
    else:
        yield path


def change_at(content: Any, path: tuple[Any, ...]) -> None:
    *parents, last = path
    for part in parents:
        content = content[part]
    value = content[last]
    content[last] = next(others(value), "x") if value not in ([], {}) else [1]


@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_change_of_a_recorded_state_is_detected(engine: str) -> None:
    """Tables, counts, free order, cached blocks, tree, queues and outputs, down to each leaf."""
    content = recorded(engine, keep_state=True)
    missed = []
    for k in range(0, len(content["steps"]), 3):
        state = content["steps"][k]["state"]
        for path in leaves(state):
            content["steps"][k]["state"] = copy.deepcopy(state)
            change_at(content["steps"][k]["state"], path)
            if came := passed(content):
                missed.append((k, path, came))
        for part in state:
            content["steps"][k]["state"] = {p: v for p, v in state.items() if p != part}
            if came := passed(content):
                missed.append((k, part, "dropped", came))
        content["steps"][k]["state"] = state
    assert missed == []


@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_change_of_a_sampled_token_is_detected(engine: str) -> None:
    """Without a model the tokens follow from the scenario: a run cannot claim others."""
    content = recorded(engine)
    missed = []
    for k, record in enumerate(content["steps"]):
        for event in record["events"]:
            if event["type"] == "token_sampled":
                token = event["token"]
                event["token"] = token + 1
                if came := passed(content):
                    missed.append((k, event["sequence"], token, came))
                event["token"] = token
    assert missed == []


def test_a_prompt_that_is_not_the_scenarios_text_is_detected() -> None:
    """F's prompt is "hey": without a model its tokens are its bytes, and no others."""
    content = recorded("off")
    assert content["header"]["prompts"]["F"] == list(b"hey")
    content["header"]["prompts"]["F"] = [1, 2, 3]
    assert passed(content) is None


@pytest.mark.parametrize("engine", list(ENGINES))
def test_a_prompt_of_token_ids_that_was_changed_is_detected(engine: str) -> None:
    content = recorded(engine)
    for name in "ABCDE":
        tokens = content["header"]["prompts"][name]
        for changed in ([*tokens[:-1], tokens[-1] + 1], [*tokens, 1], tokens[:-1]):
            content["header"]["prompts"][name] = changed
            assert passed(content) is None, name
        del content["header"]["prompts"][name]
        assert passed(content) is None, name
        content["header"]["prompts"][name] = tokens


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("engine", "num_blocks"), 9),
        (("engine", "block_size"), 5),
        (("engine", "max_num_seqs"), 2),
        (("engine", "max_num_batched_tokens"), 5),
        (("engine", "max_model_len"), 9),
        (("engine", "prefix_cache"), "hash"),
        (("engine", "prefix_cache"), "off"),
        (("engine", "eviction"), "fifo"),
        (("engine", "batching"), "static"),
        (("engine", "policy"), "priority"),
        (("engine", "watermark"), 0.9),
        (("engine", "long_prefill_token_threshold"), 2),
        (("requests", 0, "max_tokens"), 5),
        (("requests", 0, "id"), "AA"),
        (("requests", 1, "arrive_step"), 2),
        (("requests", 1, "cache_salt"), "x"),
        (("requests", 1, "stop_token_ids"), [7]),
        (("requests", 1, "output_tokens"), [7, 8]),
        (("requests", 2, "n"), 3),
        (("requests", 3, "cancel_step"), 8),
    ],
    ids=str,
)
def test_a_changed_setting_of_the_scenario_is_detected(path: tuple[Any, ...], value: Any) -> None:
    content = recorded("radix")
    part = content["header"]["scenario"]
    for key in path[:-1]:
        part = part[key]
    assert part[path[-1]] != value
    part[path[-1]] = value
    # Without an eviction between rivals, or without a difference in order, two settings can give
    # the same steps: what matters is that another behaviour never passes.
    content_again = simulate(Scenario.from_dict(content["header"]["scenario"])).to_dict()
    same = [r["events"] for r in content_again["steps"]] == [r["events"] for r in content["steps"]]
    assert passed(content) == ("verified" if same else None)


def test_steps_missing_at_the_end_or_added_are_detected() -> None:
    content = recorded("radix")
    last = content["steps"].pop()
    assert passed(content) is None
    content["steps"] += [last, {**last, "step": last["step"] + 1, "events": [], "scheduled": {}}]
    assert passed(content) is None
    content["steps"] = []
    assert passed(content) is None


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("A", {"finish_reason": "stop_token", "num_cached_tokens": 0}),
        ("A", {"finish_reason": None, "num_cached_tokens": 0}),
        ("A", {"finish_reason": "max_tokens", "num_cached_tokens": 4}),
        ("nobody", {"finish_reason": "max_tokens", "num_cached_tokens": 0}),
        ("E", {"finish_reason": "max_tokens", "num_cached_tokens": 0}),
    ],
    ids=str,
)
def test_a_changed_or_invented_result_is_detected(name: str, result: Json) -> None:
    content = recorded("radix")
    content["results"][name] = result
    assert passed(content) is None


def test_a_simulated_run_cannot_call_itself_recorded() -> None:
    """Its tokens come from no model, so no label but SIMULATED is true."""
    content = recorded("radix")
    content["header"]["label"] = "RECORDED"
    assert passed(content) is None


def test_timings_may_differ() -> None:
    content = recorded("radix")
    for record in content["steps"]:
        record["timing"] = {"schedule_us": 1.5, "forward_us": 0, "sample_us": 1e6}
    verify(run_from_dict(content))


def test_the_first_difference_is_named() -> None:
    content = recorded("radix")
    record = content["steps"][2]
    record["usage"]["free"] += 1
    with pytest.raises(MismatchError, match=r"step 2.*usage"):
        verify(run_from_dict(content))


def test_replay_verify_exits_with_1_for_a_tampered_run_and_0_for_a_good_one(
    tmp_path: Path,
) -> None:
    content = recorded("radix")
    path = tmp_path / "x.run.json.gz"
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    done = cli("replay", path, "--verify")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("verified: ")
    next(e for e in content["steps"][0]["events"] if e["type"] == "admitted")["num_tokens"] += 1
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    done = cli("replay", path, "--verify")
    assert done.returncode == 1 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("not verified: step 0, event")
