"""Derivations that can be checked: what a step shows is computed again from its own text."""

from __future__ import annotations

import ast
import math
import re
from fractions import Fraction

from core.sizing.result import Result

_FUNCTIONS = {"ceil": math.ceil, "floor": math.floor, "min": min, "max": max}


def evaluate(text: str) -> Fraction:
    """The value of `2 · 80 · 8 · 128 · 0.5`, `⌈1500 / 16⌉`, `max(0, 5 − 7)` …, exactly."""
    plain = (
        text.replace("·", "*")
        .replace("−", "-")
        .replace("⌈", "ceil(")
        .replace("⌊", "floor(")
        .replace("⌉", ")")
        .replace("⌋", ")")
    )
    return _value(ast.parse(plain, mode="eval").body, plain)


def _value(node: ast.expr, text: str) -> Fraction:
    if isinstance(node, ast.Constant):
        return Fraction(ast.get_source_segment(text, node) or "")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, text)
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, text), _value(node.right, text)
        match node.op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                return left / right
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return Fraction(_FUNCTIONS[node.func.id](*(_value(arg, text) for arg in node.args)))
    raise AssertionError(f"not arithmetic: {text}")


def check(result: Result) -> None:
    """Each step's numbers give its value, the last step gives the result, and every symbol of one
    letter or with an index that a formula names is explained."""
    for step in result.steps:
        shown = evaluate(step.substituted)
        if isinstance(step.value, int):
            assert shown == step.value, step
        else:
            assert math.isclose(float(shown), step.value, rel_tol=1e-12), step
    if result.steps and result.value is not None:
        assert result.value in (result.steps[-1].value, max(result.steps[-1].value, 0))
    named = {symbol.symbol for symbol in result.symbols}
    values = {(symbol.symbol, symbol.value) for symbol in result.symbols}
    assert len(values) == len(named), "one letter means two things"
    for step in result.steps:
        letters = set(re.findall(r"(?<![\w₀-₉])(?:[A-Za-z]|[dnbLMW]_\w+)(?!\w)", step.formula))
        assert letters <= named, (letters - named, step.formula)
