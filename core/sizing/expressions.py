"""Arithmetic over calls into the library, as data: nothing is ever evaluated from text.

An expression is one of

    40000000000                                                     a number
    {"call": "kv_bytes_sequence", "inputs": {"model": …, "tokens": …}}   the value of a function
    {"sum" | "difference" | "product" | "quotient" | "max": [a, b, …]}  over expressions
    {"floor" | "ceil": a}

An input of a call may be an expression again. All between the calls is exact (rationals), so a
floor cannot fall to the wrong side of a float.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

from core.sizing.errors import SizingError
from core.sizing.result import Number, Result

Evaluate = Callable[[str, Mapping[str, Any]], Result]
"""(function, inputs) → its Result: the door into the library."""

_DEEPEST = 20
_OVER_LISTS: dict[str, tuple[str, Callable[[Fraction, Fraction], Fraction]]] = {
    "sum": (" + ", lambda a, b: a + b),
    "difference": (" − ", lambda a, b: a - b),
    "product": (" · ", lambda a, b: a * b),
    "quotient": (" / ", lambda a, b: a / b),
    "max": (", ", max),
}
_OVER_ONE: dict[str, tuple[str, str, Callable[[Fraction], int]]] = {
    "floor": ("⌊", "⌋", math.floor),
    "ceil": ("⌈", "⌉", math.ceil),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call that was made, with what it gave."""

    function: str
    inputs: Mapping[str, Any]
    result: Result

    @property
    def text(self) -> str:
        """As it stands in the text of a value."""
        shown = ", ".join(f"{key}={_shown(value)}" for key, value in self.inputs.items())
        return f"{self.function}({shown})"


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression gives. exact: None if a function says that there is no such number.
    text: the arithmetic as one line. calls: those that it rests on, in order."""

    exact: Fraction | None
    text: str
    calls: tuple[Call, ...] = ()

    @property
    def number(self) -> Number | None:
        if self.exact is None:
            return None
        return self.exact.numerator if self.exact.denominator == 1 else float(self.exact)


def evaluate(expression: object, call: Evaluate, path: str, depth: int = 0) -> Value:
    """The value of an expression. Raises SizingError where one is malformed, divides by zero or
    calls what the library refuses; the error's path leads there."""
    if depth > _DEEPEST:
        raise SizingError(path, "is nested too deeply")
    if isinstance(expression, bool) or not isinstance(expression, int | float | dict):
        raise SizingError(path, "must be a number, a call or an operator over expressions")
    if not isinstance(expression, dict):
        return Value(_exact(expression, path), _shown(expression))
    if "call" in expression:
        return _called(expression, call, path, depth)
    if len(expression) != 1:
        raise SizingError(path, "must hold one operator, or call with inputs")
    ((operator, operands),) = expression.items()
    if operator in _OVER_ONE:
        left, right, integer = _OVER_ONE[operator]
        inner = evaluate(operands, call, f"{path}.{operator}", depth + 1)
        whole = None if inner.exact is None else Fraction(integer(inner.exact))
        return Value(whole, f"{left}{inner.text}{right}", inner.calls)
    if operator in _OVER_LISTS:
        return _over_list(operator, operands, call, path, depth)
    raise SizingError(path, f"{operator[:40]!r} is no operator: {', '.join(operators())}")


def operators() -> tuple[str, ...]:
    """The words for arithmetic."""
    return (*_OVER_LISTS, *_OVER_ONE)


def called(expression: object) -> tuple[str, ...]:
    """The functions that an expression names, without running it."""
    if isinstance(expression, dict):
        own = (expression["call"],) if isinstance(expression.get("call"), str) else ()
        return own + tuple(name for inner in expression.values() for name in called(inner))
    if isinstance(expression, list):
        return tuple(name for inner in expression for name in called(inner))
    return ()


def _called(expression: dict[str, Any], call: Evaluate, path: str, depth: int) -> Value:
    name, given = expression["call"], expression.get("inputs", {})
    if set(expression) - {"call", "inputs"} or not isinstance(name, str):
        raise SizingError(path, 'must be {"call": a function\'s name, "inputs": {…}}')
    if not isinstance(given, dict):
        raise SizingError(f"{path}.inputs", "must be an object")
    inputs: dict[str, Any] = {}
    calls: tuple[Call, ...] = ()
    for key, value in given.items():
        if _is_expression(value):
            inner = evaluate(value, call, f"{path}.inputs.{key}", depth + 1)
            inputs[key], calls = inner.number, calls + inner.calls
        else:
            inputs[key] = value
    try:
        result = call(name, inputs)
    except SizingError as error:
        raise SizingError(".".join(filter(None, (path, error.path))), error.message) from None
    exact = None if result.value is None else _exact(result.value, path)
    made = Call(name, inputs, result)
    return Value(exact, made.text, (*calls, made))


def _over_list(operator: str, operands: object, call: Evaluate, path: str, depth: int) -> Value:
    where = f"{path}.{operator}"
    if not isinstance(operands, list) or len(operands) < 2:
        raise SizingError(where, "must be a list of at least two expressions")
    values = [
        evaluate(operand, call, f"{where}[{index}]", depth + 1)
        for index, operand in enumerate(operands)
    ]
    sign, apply = _OVER_LISTS[operator]
    numbers = [value.exact for value in values if value.exact is not None]
    exact: Fraction | None = None
    if len(numbers) == len(values):
        try:
            exact = reduce(apply, numbers)
        except ZeroDivisionError:
            raise SizingError(where, "divides by zero") from None
    pairs = zip(operands, values, strict=True)
    text = sign.join(_within(operand, value) for operand, value in pairs)
    return Value(
        exact,
        f"max({text})" if operator == "max" else text,
        tuple(made for value in values for made in value.calls),
    )


def _is_expression(value: object) -> bool:
    """Inputs may be objects of their own (a GPU, a geometry); these have keys of no expression."""
    words = {"call", *operators()}
    return isinstance(value, dict) and bool(words & value.keys())


def _within(operand: object, value: Value) -> str:
    bare = not isinstance(operand, dict) or not {"sum", "difference", "product", "quotient"} & (
        operand.keys()
    )
    return value.text if bare else f"({value.text})"


def _exact(value: Number, path: str) -> Fraction:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise SizingError(path, "must be finite")
        return Fraction(repr(value))  # 0.3 is three tenths, not the nearest binary fraction
    return Fraction(value)


def _shown(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "null" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) or abs(value) < 1e15 else f"{value:g}"
