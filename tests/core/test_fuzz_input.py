"""Random JSON into the readers: only the project's own errors come out."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import KVScopeError
from core.jsonio import loads
from core.scenario import Scenario
from core.simulate import simulate, verify
from core.trace.events import FIELDS
from core.trace.run import parse_run, run_from_dict
from core.trace.text import describe_run
from tests.core.drive import req, scenario

QUICK = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

numbers = st.one_of(
    st.integers(-2, 12),
    st.sampled_from([2**31, 2**53 - 1, 2**53, 2**63, 10**30, -(10**30), 1.0, 1.5, -0.0, 1e300]),
    st.sampled_from([math.nan, math.inf, -math.inf]),
)
texts = st.one_of(
    st.sampled_from(["A", "B", "A#0", "", "#", "none", "radix", "front", "held", "x" * 70]),
    st.text(st.characters(), max_size=4),  # lone surrogates included
)
plain = st.one_of(st.none(), st.booleans(), numbers, texts)
anything = st.recursive(
    plain,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)

ENGINE = list(Scenario.from_dict(scenario()).to_dict()["engine"])
REQUEST = list(Scenario.from_dict(scenario(req("A", [1]))).to_dict()["requests"][0])

scenario_like = st.fixed_dictionaries(
    {"schema": st.just("scenario/1")},
    optional={
        "name": anything,
        "seed": anything,
        "model": anything,
        "engine": st.dictionaries(st.sampled_from(ENGINE), anything, max_size=3),
        "requests": st.lists(
            st.dictionaries(st.sampled_from(REQUEST), anything, max_size=5), max_size=3
        ),
    },
)

RUN = json.dumps(
    simulate(
        Scenario.from_dict(
            scenario(
                req("A", list(range(9)), max_tokens=4),
                req("B", [0, 1, 2, 3, 9, 9], n=2, max_tokens=3, arrive_step=1),
                req("C", [7] * 6, max_tokens=5, arrive_step=1),
                num_blocks=6,
            )
        )
    ).to_dict()
)


@QUICK
@given(anything)
def test_anything_as_a_scenario(data: Any) -> None:
    with contextlib.suppress(KVScopeError):
        Scenario.from_dict(data)


@QUICK
@given(scenario_like)
def test_almost_a_scenario_is_refused_or_a_fixed_point(data: Any) -> None:
    """What is accepted can be written, read again, and means the same."""
    try:
        checked = Scenario.from_dict(data)
    except KVScopeError:
        return
    assert Scenario.from_json(json.dumps(checked.to_dict()).encode("utf-8")) == checked


@QUICK
@given(
    st.dictionaries(st.sampled_from(ENGINE), st.integers(1, 20), max_size=3),
    st.lists(
        st.fixed_dictionaries(
            {"prompt": st.text(max_size=12)},
            optional={
                "max_tokens": st.integers(1, 5),
                "n": st.integers(1, 3),
                "arrive_step": st.integers(0, 4),
                "priority": st.integers(-2, 2),
                "cancel_step": st.integers(0, 6),
                "cache_salt": st.text(min_size=1, max_size=2),
            },
        ),
        max_size=4,
    ),
)
def test_what_is_accepted_runs_to_the_end_and_is_verified(engine: Any, requests: Any) -> None:
    data = scenario(*({"id": f"R{i}", **one} for i, one in enumerate(requests)), **engine)
    try:
        checked = Scenario.from_dict(data)
    except KVScopeError:
        return
    run = simulate(checked, debug=True)
    verify(parse_run(run.to_bytes()))


@QUICK
@given(
    st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace"))
)
def test_any_bytes_as_json_scenario_or_run(data: bytes) -> None:
    for read in (loads, Scenario.from_json, parse_run):
        with contextlib.suppress(KVScopeError):
            read(data)
    with contextlib.suppress(KVScopeError):
        parse_run(gzip.compress(data))


@QUICK
@given(anything)
def test_anything_as_a_run(data: Any) -> None:
    with contextlib.suppress(KVScopeError):
        run_from_dict(data)


@QUICK
@given(
    st.fixed_dictionaries(
        {
            "schema": st.just("run/1"),
            "header": anything,
            "steps": st.lists(anything, max_size=2),
        },
        optional={"results": anything},
    )
)
def test_almost_a_run(data: Any) -> None:
    with contextlib.suppress(KVScopeError):
        run_from_dict(data)


def _consume(content: Any) -> None:
    run = run_from_dict(content)
    list(describe_run(run, list(run.states())))
    verify(run)


@QUICK
@given(st.data())
def test_a_run_with_random_changes_gives_only_the_projects_own_errors(data: st.DataObject) -> None:
    """One to three values anywhere in a good run are replaced by random ones."""
    content = json.loads(RUN)
    for _ in range(data.draw(st.integers(1, 3))):
        place: Any = content
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            inner = place[key]
            if isinstance(inner, dict | list) and inner and data.draw(st.integers(0, 9)):
                place = inner
                continue
            place[key] = data.draw(anything)
            break
    with contextlib.suppress(KVScopeError):
        _consume(content)


values: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(["request", "by"], st.sampled_from(["A", "B", "C", "Z"])),
    "sequence": st.sampled_from(["A", "B#0", "B#1", "C", "Z"]),
    "sequences": st.lists(st.sampled_from(["A", "B#0", "B#1", "Z"]), max_size=3),
    **dict.fromkeys(["blocks"], st.lists(st.integers(0, 6), max_size=4)),
    "before": st.lists(st.integers(-1, 6), max_size=4),
    "keys": st.lists(st.sampled_from(["a", "b"]), max_size=3),
    "parent_key": st.just("a"),
    "reason": st.sampled_from(["finished", "duplicate", "copy_on_write", "prompt", "reused"]),
    "cause": st.sampled_from(["hit", "canonical"]),
    "to": st.sampled_from(["front", "back", "before", "held"]),
    "holds": st.booleans(),
    "parent": st.integers(-1, 4),
}


@st.composite
def random_event(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(list(FIELDS)))
    small = st.integers(0, 7)
    return {
        "type": kind,
        **{
            field: draw(values.get(field, small))
            for field in FIELDS[kind]
            if draw(st.integers(0, 7))
        },
    }


@QUICK
@given(st.lists(st.tuples(st.integers(0, 50), random_event()), min_size=1, max_size=4))
def test_random_well_formed_events_give_only_the_projects_own_errors(added: Any) -> None:
    content = json.loads(RUN)
    events = [record["events"] for record in content["steps"]]
    for place, event in added:
        step = events[place % len(events)]
        step.insert(place % (len(step) + 1), event)
    with contextlib.suppress(KVScopeError):
        _consume(content)
