"""Scenarios that must be refused: one ScenarioError each, with the path of the offending field."""

from __future__ import annotations

import json
import math
from typing import Any

import jsonschema_rs
import pytest

from core import jsonio
from core.errors import ScenarioError
from core.scenario import Scenario
from core.simulate import simulate
from tests.core.drive import req, scenario


def with_engine(**fields: Any) -> dict[str, Any]:
    return scenario(**fields)


def with_request(**fields: Any) -> dict[str, Any]:
    request = {"id": "A", "prompt_tokens": [1, 2, 3], **fields}
    return scenario({"id": "Z", "prompt": "fine"}, request)


def refused(data: Any) -> ScenarioError:
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_dict(data)
    assert len(str(caught.value)) < 1000 and "\n" not in str(caught.value)
    return caught.value


def at_or_in(found: str, path: str) -> bool:
    """The path of the field, or of the very item in it that is wrong."""
    return found == path or found.startswith(f"{path}[")


# ---- unknown keys and wrong types --------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (scenario() | {"colour": 1}, "colour"),
        (with_engine(num_block=4), "engine.num_block"),
        (with_request(promt="x"), "requests[1].promt"),
        (scenario() | {"Schema": "scenario/1"}, "Schema"),
    ],
    ids=["scenario", "engine", "request", "case"],
)
def test_an_unknown_key_is_refused_at_each_level(data: Any, path: str) -> None:
    error = refused(data)
    assert error.path == path
    assert error.message == "unknown field"


@pytest.mark.parametrize("version", ["scenario/2", "run/1", "", None, 1, "Scenario/1"])
def test_another_version_is_refused(version: Any) -> None:
    assert refused({"schema": version}).path == "schema"


def test_a_scenario_without_a_version_is_refused() -> None:
    assert refused({"requests": []}).path == ""


@pytest.mark.parametrize("data", [None, [], "x", 3, 1.5, True, [scenario()], (), b"{}", object()])
def test_what_is_no_object_is_refused(data: Any) -> None:
    assert refused(data).path == ""


INTEGERS = [
    "num_blocks",
    "block_size",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "long_prefill_token_threshold",
]
REQUEST_INTEGERS = ["arrive_step", "max_tokens", "n", "priority", "top_k", "logprobs"]
NO_INTEGERS = ["4", None, True, False, 1.5, math.nan, math.inf, [], {}, -(10**30), 10**30, 1e300]


@pytest.mark.parametrize("value", NO_INTEGERS, ids=repr)
@pytest.mark.parametrize("field", INTEGERS)
def test_an_engine_size_must_be_an_integer_within_limits(field: str, value: Any) -> None:
    assert refused(with_engine(**{field: value})).path == f"engine.{field}"


@pytest.mark.parametrize("value", NO_INTEGERS, ids=repr)
@pytest.mark.parametrize("field", REQUEST_INTEGERS)
def test_a_request_size_must_be_an_integer_within_limits(field: str, value: Any) -> None:
    assert refused(with_request(**{field: value})).path == f"requests[1].{field}"


@pytest.mark.parametrize("field", INTEGERS[:-1])
@pytest.mark.parametrize("value", [0, -1])
def test_an_engine_size_is_at_least_one(field: str, value: int) -> None:
    assert refused(with_engine(**{field: value})).path == f"engine.{field}"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("allocator", "Paged"),
        ("reserve", ""),
        ("prefix_cache", None),
        ("prefix_cache", False),
        ("eviction", "random"),
        ("batching", 1),
        ("policy", "FCFS"),
        ("preemption", "swap"),
        ("kv_dtype", "fp4"),
        ("chunked_prefill", 1),
        ("chunked_prefill", "true"),
        ("kv_cache", 0),
        ("watermark", "0.1"),
        ("watermark", True),
        ("watermark", -0.0001),
        ("watermark", 1.0001),
        ("watermark", math.nan),
        ("watermark", math.inf),
        ("watermark", None),
    ],
    ids=repr,
)
def test_an_engine_choice_must_be_a_listed_one(field: str, value: Any) -> None:
    assert refused(with_engine(**{field: value})).path == f"engine.{field}"


@pytest.mark.parametrize(
    ("kv_dtype", "path"),
    [
        ({"format": "int8", "layers": {"0": "int2"}}, "layers.0"),
        ({"format": "int8", "layers": {"00": 8}}, "layers.00"),
        ({"format": "int8", "layers": {"2-5": {"format": "int4"}}}, "layers.2-5"),
        ({"format": "int8", "layers": {"2-5": "int4", "3": math.inf}}, "layers.3"),
        ({"format": "int8", "layers": {"0x1": "int4"}}, "layers"),
        ({"format": "int8", "layers": ["int4"]}, "layers"),
        ({"format": "int8", "scale": None}, "scale"),
        ({"format": "int8", "bits": 8}, "bits"),
    ],
    ids=repr,
)
def test_a_field_of_the_cache_s_format_is_named(kv_dtype: Any, path: str) -> None:
    error = refused(with_engine(kv_dtype=kv_dtype))
    assert error.path == f"engine.kv_dtype.{path}" and "\n" not in str(error)


@pytest.mark.parametrize("key", ["7", "07", "+7", "²", "٧", "a"])
def test_a_place_in_an_object_is_told_whatever_its_key(key: str) -> None:
    validator = jsonschema_rs.validator_for({"additionalProperties": {"items": {"type": "null"}}})
    with pytest.raises(jsonschema_rs.ValidationError) as error:
        validator.validate({"8": [], key: [None, 0]})
    path = jsonio.keys({"8": [], key: [None, 0]}, list(error.value.instance_path))
    assert path == [key if key != "+7" else path[0], 1] and isinstance(path[0], str)


def test_all_choices_are_named() -> None:
    error = refused(with_engine(kv_dtype="fp4"))
    assert str(error).endswith(
        '"fp4" is not one of "model", "fp8", "fp8_per_token_head", "int8_per_token_head"'
    )


def test_without_a_cache_there_is_no_error_of_storing() -> None:
    error = refused({**with_engine(kv_cache=False, measure_kv_error=True), "model": "any"})
    assert error.path == "engine.measure_kv_error"


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("id", None, "id"),
        ("id", 3, "id"),
        ("id", "", "id"),
        ("id", "A#0", "id"),
        ("id", "#", "id"),
        ("id", "a\nb", "id"),
        ("id", "x" * 65, "id"),
        ("prompt_tokens", "abc", "prompt_tokens"),
        ("prompt_tokens", [1, "2"], "prompt_tokens"),
        ("prompt_tokens", [1, None], "prompt_tokens"),
        ("prompt_tokens", [True], "prompt_tokens"),
        ("prompt_tokens", [-1], "prompt_tokens"),
        ("prompt_tokens", [2**53], "prompt_tokens"),
        ("prompt_tokens", [10**30], "prompt_tokens"),
        ("prompt_tokens", [1.5], "prompt_tokens"),
        ("prompt_tokens", [math.nan], "prompt_tokens"),
        ("prompt_tokens", [[1]], "prompt_tokens"),
        ("prompt_tokens", {"0": 1}, "prompt_tokens"),
        ("n", 1025, "n"),
        ("n", 0, "n"),
        ("max_tokens", 0, "max_tokens"),
        ("max_tokens", -8, "max_tokens"),
        ("arrive_step", -1, "arrive_step"),
        ("arrive_step", 10**9, "arrive_step"),
        ("temperature", -0.1, "temperature"),
        ("temperature", math.nan, "temperature"),
        ("temperature", math.inf, "temperature"),
        ("temperature", "hot", "temperature"),
        ("top_p", 0, "top_p"),
        ("top_p", 1.1, "top_p"),
        ("min_p", -1, "min_p"),
        ("repetition_penalty", 0, "repetition_penalty"),
        ("seed", -1, "seed"),
        ("seed", "0", "seed"),
        ("stop", "text", "stop"),
        ("stop", [""], "stop[0]"),
        ("stop", [1], "stop[0]"),
        ("stop_token_ids", [-1], "stop_token_ids[0]"),
        ("stop_token_ids", 5, "stop_token_ids"),
        ("stop_token_ids", [1, True], "stop_token_ids[1]"),
        ("ignore_eos", 1, "ignore_eos"),
        ("priority", 2**31, "priority"),
        ("cache_salt", "", "cache_salt"),
        ("cache_salt", 5, "cache_salt"),
        ("cache_salt", "x" * 201, "cache_salt"),
        ("adapter", [], "adapter"),
        ("cancel_step", -1, "cancel_step"),
        ("cancel_step", "2", "cancel_step"),
        ("output_tokens", [], "output_tokens"),
        ("output_tokens", [-1], "output_tokens"),
        ("output_tokens", [True], "output_tokens"),
        ("output_tokens", "abc", "output_tokens"),
        ("beam_width", -1, "beam_width"),
        ("length_penalty", math.nan, "length_penalty"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_request_field_of_a_wrong_kind_is_refused(field: str, value: Any, path: str) -> None:
    error = refused(with_request(**{field: value}))
    assert at_or_in(error.path, f"requests[1].{path}")


def test_a_request_needs_an_id() -> None:
    assert refused(scenario({"prompt": "x"})).path == "requests[0]"


def test_whole_floats_are_integers_and_integers_are_numbers() -> None:
    """JSON has one kind of number: 16.0 is 16, and a watermark of 1 is 1.0."""
    checked = Scenario.from_dict(
        scenario(req("A", [1.0, 2], n=2.0, seed=3.0, temperature=1), num_blocks=16.0, watermark=1)
    )
    assert checked.engine.num_blocks == 16 and type(checked.engine.num_blocks) is int
    assert type(checked.engine.watermark) is float
    request = checked.requests[0]
    assert request.prompt_tokens == (1, 2) and type(request.prompt_tokens[0]) is int
    assert (type(request.n), type(request.seed), type(request.temperature)) == (int, int, float)
    assert Scenario.from_dict(checked.to_dict()) == checked


# ---- rules across fields -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (scenario(req("A", [1]), req("A", [2])), "requests[1].id"),
        (scenario({"id": "A", "prompt": "x", "prompt_tokens": [1]}), "requests[0]"),
        (scenario({"id": "A"}), "requests[0]"),
        (scenario({"id": "A", "prompt": None, "prompt_tokens": None}), "requests[0]"),
        (with_request(prompt="\ud800", prompt_tokens=None), "requests[1].prompt"),
        (with_request(prompt="a\udfffb", prompt_tokens=None), "requests[1].prompt"),
        (with_request(cache_salt="\ud800"), "requests[1].cache_salt"),
        (with_request(adapter="\ud800"), "requests[1].adapter"),
        (with_request(cancel_step=0), "requests[1].cancel_step"),
        (with_request(arrive_step=3, cancel_step=3), "requests[1].cancel_step"),
        (with_request(arrive_step=3, cancel_step=2), "requests[1].cancel_step"),
        (
            scenario(chunked_prefill=False, max_num_batched_tokens=63, max_model_len=64),
            "engine.max_num_batched_tokens",
        ),
        (scenario(allocator="contiguous"), "engine.prefix_cache"),
        (scenario(allocator="contiguous", prefix_cache="hash"), "engine.prefix_cache"),
        (
            scenario(req("A", [1], n=2), allocator="contiguous", prefix_cache="off"),
            "requests[0].n",
        ),
        (with_request(stop=["x"]), "requests[1].stop"),
        (with_request(beam_width=2), "requests[1].beam_width"),
        (with_engine(kv_cache=False), "engine.kv_cache"),
        (with_request(n=2, output_tokens=[1, 2]), "requests[1].output_tokens"),
        (with_request(n=1, output_tokens=[[1, 2]]), "requests[1].output_tokens"),
        (with_request(n=2, output_tokens=[[1], [2], [3]]), "requests[1].output_tokens"),
        (with_request(n=3, output_tokens=[[1], [2]]), "requests[1].output_tokens"),
        (with_request(n=2, output_tokens=[[1], []]), "requests[1].output_tokens"),
        (with_request(n=2, output_tokens=[[1], 2]), "requests[1].output_tokens"),
        (with_request(n=2, output_tokens=[]), "requests[1].output_tokens"),
    ],
)
def test_a_broken_rule_is_refused_with_its_path(data: Any, path: str) -> None:
    assert at_or_in(refused(data).path, path)


def test_rules_that_hold_for_scripts_only_are_not_asked_of_a_real_model() -> None:
    no_cache = with_request(stop=["x"]) | {"model": "some-model"}
    no_cache["engine"]["kv_cache"] = False
    beams = with_request(beam_width=2) | {"model": "some-model"}
    for data in (no_cache, beams):
        checked = Scenario.from_dict(data)
        with pytest.raises(ScenarioError):
            simulate(checked)


@pytest.mark.parametrize(
    "data",
    [
        scenario() | {"name": "\ud800"},
        scenario() | {"model": "\ud800"},
        scenario() | {"\ud800": 1},
        with_engine(policy="\ud800"),
        with_request(id="\ud800"),
    ],
    ids=["name", "model", "key", "choice", "id"],
)
@pytest.mark.parametrize("as_json", [False, True], ids=["dict", "json"])
def test_a_lone_surrogate_is_refused_wherever_it_stands(data: Any, as_json: bool) -> None:
    """It can neither be printed nor written to a run file."""
    with pytest.raises(ScenarioError):
        Scenario.from_json(json.dumps(data)) if as_json else Scenario.from_dict(data)


# ---- data that is no JSON ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        with_request(stop_token_ids={1}),
        with_request(cache_salt=b"x"),
        scenario() | {1: 2},
        with_request(n=2, output_tokens=((1, 2), (3, 4))),
        with_request(prompt_tokens=range(3)),
        with_engine(num_blocks=1j),
    ],
    ids=["set", "bytes", "number as key", "tuples", "range", "complex"],
)
def test_python_values_without_json_are_refused_or_taken_as_their_twins(data: Any) -> None:
    """A tuple may count as a list; nothing else than a ScenarioError may come of it."""
    try:
        checked = Scenario.from_dict(data)
    except ScenarioError:
        return
    assert checked.requests[1].output_tokens == ((1, 2), (3, 4))


@pytest.mark.parametrize("depth", [100, 300, 100_000])
@pytest.mark.parametrize("kind", ["list", "dict"])
def test_deeply_nested_values_are_refused(depth: int, kind: str) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind == "list" else {"a": value}
    refused(scenario() | {"engine": value})
