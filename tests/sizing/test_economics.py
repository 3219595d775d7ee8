"""Time, sharing and money: that every derivation adds up, and laws that hold for any model."""

from __future__ import annotations

import inspect
import math
import re
import typing
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.sizing import catalog, gpus
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec
from core.sizing.result import Result
from tests.sizing import derivation
from tests.sizing.economics_cases import CASES, Case, label
from tests.sizing.speed import a_millisecond_of_work, seconds

every_case = pytest.mark.parametrize("case", CASES, ids=label)
LETTER = re.compile(r"(?<![\w₀-₉*'])(?:[A-Za-z]['*]?|[dnbLMWt]_\w+'?)(?![\w'*])")
WHOLE = ("B", "FLOP", "tokens", "steps", "links", "GPUs", "prefixes", "documents")


@every_case
def test_each_step_can_be_computed_again(case: Case) -> None:
    """From its own text, to the last digit; a step found by search has no text."""
    function, inputs = case
    result = function(**inputs)
    for step in result.steps:
        if step.substituted:
            shown = derivation.evaluate(step.substituted)
            if isinstance(step.value, int):
                assert shown == step.value, step
            else:
                assert math.isclose(float(shown), step.value, rel_tol=1e-12, abs_tol=1e-15), step
    if result.steps:
        assert result.value == result.steps[-1].value


@every_case
def test_each_letter_of_a_formula_is_explained(case: Case) -> None:
    """By a symbol, or by an earlier step that names what it gives: "F = linear + attention"."""
    function, inputs = case
    result = function(**inputs)
    named = {symbol.symbol for symbol in result.symbols}
    for step in result.steps:
        name, equals, rest = step.formula.partition(" = ")
        letters = set(LETTER.findall(rest if equals else name))
        assert letters <= named, (letters - named, step.formula)
        named |= {name} if equals else set()


@every_case
def test_counts_are_whole_numbers(case: Case) -> None:
    function, inputs = case
    result = function(**inputs)
    assert result.unit
    root = function.__name__.startswith(("attention_equals", "swap_recompute"))
    if result.unit in WHOLE and not root:
        assert isinstance(result.value, int)


def renamed(value: Any) -> Any:
    if isinstance(value, ModelSpec):
        return replace(value, name="gpt-5-moe-mla-4096", architecture="other")
    if isinstance(value, dict) and "model" in value:
        name = value["model"]
        return {**value, "model": renamed(catalog.get(name) if isinstance(name, str) else name)}
    return value


@every_case
def test_a_name_changes_nothing(case: Case) -> None:
    function, inputs = case
    other = {key: renamed(value) for key, value in inputs.items()}
    assert function(**other).value == function(**inputs).value


def test_all_of_them_take_less_than_a_tenth_of_a_millisecond_each() -> None:
    """A plan of some twenty has a millisecond; the search over a Zipf law is not part of one."""
    quick = [(f, inputs) for f, inputs in CASES if inputs.get("access") != "zipf"]

    def all_of_them() -> None:
        for function, inputs in quick:
            function(**inputs)

    # Twice the aim: the least processor time still varies.
    assert seconds(all_of_them) < 0.2 * len(quick) * seconds(a_millisecond_of_work)


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-2, 5),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["bf16", "fp8", "q8_0", "llama-3-70b", 10**400, 2**63, -1, 0, 0.5, 1e308]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(
        st.sampled_from(["model", "dtype", "n_layers", "x"]), st.integers(), max_size=3
    ),
)


def sides(function: Callable[..., Result]) -> set[str]:
    """Parameters that are objects of the library: whoever reads the JSON makes those."""
    hints = typing.get_type_hints(function)
    return {name for name, hint in hints.items() if hint in (ModelSpec, gpus.GpuSpec)}


@settings(max_examples=400, deadline=None)
@given(case=st.sampled_from(CASES), data=st.data())
def test_bad_input_is_one_sentence_with_the_fields_path(case: Case, data: st.DataObject) -> None:
    function, inputs = case
    names = [n for n in inspect.signature(function).parameters if n not in sides(function)]
    field = data.draw(st.sampled_from(names))
    bad = {**inputs, field: data.draw(ANYTHING)}
    try:
        result = function(**bad)
    except SizingError as exc:
        assert exc.path
        assert "\n" not in str(exc)
        assert len(str(exc)) < 700
    else:
        assert isinstance(result, Result)
        assert result.value is None or math.isfinite(result.value)


@pytest.mark.parametrize("name", catalog.names())
def test_every_model_of_the_catalogue_can_be_asked(name: str) -> None:
    """An answer, or a sentence that says what is not known of it."""
    model = catalog.get(name)
    for function, inputs in CASES:
        own = {
            key: model if value.__class__ is ModelSpec else value for key, value in inputs.items()
        }
        if own == inputs:
            continue
        try:
            assert function(**own).unit
        except SizingError as exc:
            assert exc.path in ("model", "n_gpu", "tp", "dtype"), exc
