"""The registry: every sizing function by its name, once; calls that fail as a person can mend."""

from __future__ import annotations

import importlib
import inspect
import json
import math
import pkgutil
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core.sizing
from core.sizing import calls, catalog, inputs
from core.sizing.errors import SizingError
from core.sizing.result import Result, Step
from tests.sizing.examples import example


def public_functions() -> dict[str, Any]:
    """Every public function of core.sizing that is annotated to return a Result, but for those that
    a plan is put together with."""
    out = {}
    for module in pkgutil.iter_modules(core.sizing.__path__):
        if module.name == "plan_parts":
            continue
        loaded = importlib.import_module(f"core.sizing.{module.name}")
        for name, one in inspect.getmembers(loaded, inspect.isfunction):
            if one.__module__ == loaded.__name__ and one.__annotations__.get("return") == "Result":
                out[name] = one
    return {name: one for name, one in out.items() if not name.startswith("_")}


def test_every_public_function_can_be_called() -> None:
    found = public_functions()
    assert set(calls.functions()) == set(found)
    for name, one in calls.functions().items():
        assert one.call is found[name]


@pytest.mark.parametrize("name", calls.functions())
def test_a_function_says_what_it_takes_and_gives(name: str) -> None:
    one = calls.functions()[name]
    assert one.summary and one.signature.startswith(f"{name}(")
    listed = one.to_dict()
    json.dumps(listed, allow_nan=False)
    assert [row["name"] for row in listed["inputs"]].count("model | config") <= 1
    for row in listed["inputs"]:
        assert row["type"] and ("default" in row) == (not row["required"])
        assert "Any" not in row["type"] and "core." not in row["type"]


@pytest.mark.parametrize("name", calls.functions())
def test_an_answer_has_value_unit_and_derivation(name: str) -> None:
    answer = calls.call(name, example(name))
    result, unit = answer.result, calls.functions()[name].unit
    assert isinstance(result, Result)
    assert result.unit == unit or result.unit in unit.split(" or ") or unit == "unit asked for"
    assert result.value is not None or result.notes
    assert not result.value or result.symbols or result.source
    out = answer.to_dict()
    assert list(out) == ["function", "inputs", "value", "unit", "derivation"]
    assert out["inputs"] == example(name)
    assert json.loads(json.dumps(out, allow_nan=False)) == json.loads(json.dumps(out))


def test_every_number_that_is_no_count_says_its_unit() -> None:
    taken = {
        one.name: one
        for function in calls.functions().values()
        for one in inputs.parameters(function.call)
    }
    assert all(one.unit for one in taken.values() if float in one.types)
    assert set(inputs.UNITS) <= set(taken)


COUNTS = ("B", "params", "blocks", "streams", "links", "GPUs", "steps", "prefixes")


@pytest.mark.parametrize("name", calls.functions())
def test_bytes_and_counts_are_integers(name: str) -> None:
    """Where inputs are whole; an average may well lie between two of them."""
    result = calls.call(name, example(name)).result
    if result.unit in COUNTS and result.value is not None:
        assert type(result.value) is int


@pytest.mark.parametrize("name", ["kv_bytes_per_tokens", "kv bytes", "", "zzz", None, 3, [], {}])
def test_an_unknown_function_is_refused_with_what_is_near(name: object) -> None:
    with pytest.raises(SizingError, match=r"^function: ") as caught:
        calls.call(name, {})
    if name == "kv_bytes_per_tokens":
        assert "did you mean kv_bytes_per_token" in str(caught.value)


# ---- batches -----------------------------------------------------------------------------------


def case(name: str, **inputs: Any) -> dict[str, Any]:
    return {"id": name, "function": "blocks_for_tokens", "inputs": inputs}


def test_a_batch_answers_each_case_and_names_what_failed() -> None:
    answers = calls.batch(
        {
            "note": "other keys are left alone",
            "cases": [
                case("a", tokens=17),
                case("b", tokens=-1),
                {"id": "c", "function": "nope", "inputs": {}},
                {"id": "d", "inputs": {}},
                {"id": "e", "function": "blocks_for_tokens"},
                {**case("f", tokens=16), "expected": 1},
                {"id": "g", "function": "param_count", "inputs": {"config": {"model_type": 3}}},
            ],
        }
    )
    said = {
        name: one.value if isinstance(one, calls.Answer) else str(one)
        for name, one in answers.items()
    }
    assert said.pop("g").startswith("cases[6].inputs.config.model_type: ")
    assert said.pop("c").startswith("cases[2].function: 'nope' is no sizing function")
    assert said == {
        "a": 2,
        "b": "cases[1].inputs.tokens: must be at least 0, not -1",
        "d": "cases[3].function: is missing",
        "e": "cases[4].inputs: is missing",
        "f": 1,
    }


@pytest.mark.parametrize(
    ("content", "path"),
    [
        (None, "cases"),
        ([], "cases"),
        ({}, "cases"),
        ({"cases": None}, "cases"),
        ({"cases": {}}, "cases"),
        ({"cases": [1]}, "cases[0]"),
        ({"cases": [{}]}, "cases[0].id"),
        ({"cases": [{"id": 1}]}, "cases[0].id"),
        ({"cases": [case("a", tokens=1), case("a", tokens=2)]}, "cases[1].id"),
    ],
    ids=str,
)
def test_what_is_no_batch_is_refused_as_a_whole(content: object, path: str) -> None:
    with pytest.raises(SizingError) as caught:
        calls.batch(content)
    assert caught.value.path == path


def test_an_empty_batch_has_no_answers() -> None:
    assert calls.batch({"cases": []}) == {}


# ---- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", calls.functions())
def test_each_required_input_that_is_missing_is_named(name: str) -> None:
    good = example(name)
    for parameter in inputs.parameters(calls.functions()[name].call):
        if not parameter.required:
            continue
        without = {key: value for key, value in good.items() if key != parameter.name}
        with pytest.raises(SizingError, match=f"^inputs.{parameter.name}: is missing"):
            calls.call(name, without)


@pytest.mark.parametrize("name", calls.functions())
def test_each_number_is_refused_as_a_word_as_nan_and_as_nothing(name: str) -> None:
    for key, value in example(name).items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        for bad in ("12", float("nan"), float("inf"), None, [], {}, True, 10**300):
            if bad is None and value is not None and not _required(name, key):
                continue  # null is how an optional input is left out
            with pytest.raises(SizingError, match=f"^inputs.{key}"):
                calls.call(name, {**example(name), key: bad})


def _required(name: str, key: str) -> bool:
    known = {one.name: one for one in inputs.parameters(calls.functions()[name].call)}
    return known[key].required


@pytest.mark.parametrize("name", calls.functions())
def test_an_input_that_it_does_not_have_is_named(name: str) -> None:
    with pytest.raises(SizingError, match=r"^inputs.tokenz: is no input here; "):
        calls.call(name, {**example(name), "tokenz": 1})


MODELS = st.sampled_from(catalog.names())
WORDS = st.sampled_from(
    ["", *"x bf16 fp8 int4 q8_0 model gpu layer paged contiguous exact nominal".split()]
)
NUMBERS = st.one_of(
    st.sampled_from([-1, 0, 1, 2, 3, 7, 16, 0.5, -0.5, 4096.0, 2**31, 2**63, 10**39]),
    st.sampled_from([1e-300, 1e300]),
    st.floats(),
    st.integers(),
)
OBJECTS = st.sampled_from(
    [
        {},
        {"format": "fp8"},
        {"format": "int4", "scale": "per_group", "group_size": 64},
        {"format": "fp8", "layers": {"0-3": "bf16"}},
        {"model": "deepseek-v3", "dtype": "int4", "weights": "q4_0"},
        {"attention": "mha", "n_layers": 4, "n_kv_heads": 2, "d_head": 64},
        {"visible_mib": 1, "bandwidth": 1e-300, "peaks": {"bf16": 1e308}},
    ]
)
ANYTHING = st.one_of(
    st.none(), st.booleans(), WORDS, NUMBERS, MODELS, OBJECTS, st.lists(NUMBERS, max_size=3)
)


def beyond(value: float = 0.0) -> Result:
    """What no function of ours should do, and one may."""
    if value == 0:
        return Result(1.0 / value, "x")
    if value == 1:
        return Result(1.0, "x", steps=(Step("a", "b", float("inf"), "x"),))
    return Result(10**40 if value == 2 else float("nan"), "x")


@pytest.mark.parametrize("value", [0, 1, 2, 3])
def test_a_result_that_no_reader_could_hold_is_refused(
    value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(calls.functions(), "beyond", calls.Function("beyond", beyond, "x"))
    with pytest.raises(SizingError, match=r"^inputs: lead beyond what can be computed"):
        calls.call("beyond", {"value": value})


@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_whatever_is_put_in_gives_a_number_or_a_sentence_with_a_path(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(calls.functions())))
    names = [one.name for one in inputs.parameters(calls.functions()[name].call)]
    changed = data.draw(st.dictionaries(st.sampled_from(names), ANYTHING, min_size=1, max_size=4))
    given_inputs = {**example(name), **changed}
    if data.draw(st.booleans()) and "model" in given_inputs:
        given_inputs["model"] = data.draw(MODELS)
    try:
        answer = calls.call(name, given_inputs)
    except SizingError as error:
        assert error.path == "inputs" or error.path.startswith("inputs."), str(error)
        assert error.message and "\n" not in str(error) and len(str(error)) < 600
        return
    value = answer.value
    assert value is None or (type(value) in (int, float) and math.isfinite(value))
    assert value is not None or answer.result.notes
    json.dumps(answer.to_dict(), allow_nan=False)
