"""Arithmetic as data: exact, bounded, and clear when it is malformed."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sizing import expressions
from core.sizing.errors import SizingError
from core.sizing.result import Result


def _door(name: str, inputs: Mapping[str, Any]) -> Result:
    if name == "twice":
        return Result(2 * inputs["x"], "x")
    if name == "none":
        return Result(None, "x", notes=("there is none",))
    raise SizingError("inputs.x", "is refused")


def _value(expression: object) -> Any:
    return expressions.evaluate(expression, _door, "here").exact


def test_arithmetic_is_exact() -> None:
    assert _value({"floor": {"product": [0.3, 10]}}) == 3  # 2.999… in floats
    assert _value({"quotient": [1, 3]}) == Fraction(1, 3)
    assert _value({"difference": [10, 3, 2]}) == 5
    assert _value({"max": [0, {"difference": [1, 2]}]}) == 0
    assert _value({"ceil": {"quotient": [7, 2]}}) == 4
    assert _value({"sum": [1, {"call": "twice", "inputs": {"x": {"sum": [1, 2]}}}]}) == 7


def test_a_value_tells_its_calls_and_its_text() -> None:
    expression = {"quotient": [{"sum": [1, {"call": "twice", "inputs": {"x": 4000}}]}, 2]}
    value = expressions.evaluate(expression, _door, "here")
    assert value.text == "(1 + twice(x=4,000)) / 2"
    assert [(call.function, call.inputs) for call in value.calls] == [("twice", {"x": 4000})]
    assert value.number == 4000.5
    assert expressions.called(expression) == ("twice",)


def test_no_such_number_stays_no_such_number() -> None:
    none = {"call": "none", "inputs": {}}
    assert _value(none) is None
    assert _value({"sum": [1, none]}) is None
    assert _value({"floor": none}) is None


def test_objects_that_are_no_expression_go_through_as_inputs() -> None:
    seen: list[Any] = []

    def door(name: str, inputs: Mapping[str, Any]) -> Result:
        seen.append(inputs["gpu"])
        return Result(1, "")

    own = {"name": "mine", "visible_mib": 1}
    expressions.evaluate({"call": "f", "inputs": {"gpu": own}}, door, "here")
    assert seen == [own]


@pytest.mark.parametrize(
    ("expression", "path"),
    [
        ("1 + 1", "here"),
        (None, "here"),
        (True, "here"),
        ([1, 2], "here"),
        ({}, "here"),
        ({"power": [2, 3]}, "here"),
        ({"sum": [1, 2], "product": [1, 2]}, "here"),
        ({"sum": [1]}, "here.sum"),
        ({"sum": 1}, "here.sum"),
        ({"sum": [1, "2"]}, "here.sum[1]"),
        ({"quotient": [1, 0]}, "here.quotient"),
        ({"quotient": [1, {"difference": [2, 2]}]}, "here.quotient"),
        ({"call": "twice", "inputs": {"x": 1}, "more": 1}, "here"),
        ({"call": 3}, "here"),
        ({"call": "twice", "inputs": []}, "here.inputs"),
        ({"call": "other", "inputs": {}}, "here.inputs.x"),
        (float("nan"), "here"),
    ],
)
def test_what_is_malformed_is_refused_with_its_path(expression: object, path: str) -> None:
    with pytest.raises(SizingError) as error:
        _value(expression)
    assert error.value.path == path


def test_depth_is_bounded() -> None:
    deep: Any = 1
    for _ in range(50):
        deep = {"floor": deep}
    with pytest.raises(SizingError, match="nested too deeply"):
        _value(deep)


_LEAF = st.integers() | st.floats() | st.text(max_size=3) | st.none() | st.booleans()
_KEYS = st.sampled_from(["sum", "quotient", "floor", "call", "inputs", "x"])


@given(
    st.recursive(_LEAF, lambda e: st.lists(e, max_size=3) | st.dictionaries(_KEYS, e, max_size=3))
)
def test_anything_is_a_value_or_an_error_with_a_path(expression: object) -> None:
    try:
        expressions.evaluate(expression, _door, "here")
    except SizingError as error:
        assert error.path.startswith("here")
    except (TypeError, KeyError):  # the stand-in door checks nothing; the library's own does
        assert "call" in str(expression)
