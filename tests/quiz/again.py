"""Where the numbers of the further topics are computed a second time: what that rests on.

From published geometry in exact fractions, from functions of the library that the generator does
not use, or by a run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from core.sizing import calls
from quiz.draw.common import geometry
from quiz.items import Item

GIB = 2**30
Expected = dict[str, Any]
Parts = list[str]

CHECKS: dict[str, Callable[[Parts, Item], Expected]] = {}


def check(template: str) -> Callable[[Callable[[Parts, Item], Expected]], None]:
    def add(function: Callable[[Parts, Item], Expected]) -> None:
        CHECKS[template] = function

    return add


def calc(function: str, **inputs: Any) -> Any:
    return calls.call(function, inputs).value


def shape(model: str) -> tuple[int, int, int]:
    """Layers, KV heads, numbers of a head."""
    fields = geometry(model)
    return fields["n_layers"], fields["n_kv_heads"], fields["d_head"]


WIDTH = {"bf16": Fraction(2), "fp8": Fraction(1), "int8": Fraction(1), "int4": Fraction(1, 2)}


def cache(model: str, dtype: str = "bf16", tokens: int = 1) -> Fraction:
    layers, heads, dim = shape(model)
    return 2 * layers * heads * dim * WIDTH[dtype] * tokens


def work(model: str, tokens: int) -> tuple[float, float]:
    """FLOP of a prefill's matrices and of its attention: 4 · d for each pair and query head, and
    half of S² pairs."""
    fields = geometry(model)
    attention = 2.0 * fields["n_layers"] * fields["n_heads"] * fields["d_head"] * tokens**2
    return float(calc("prefill_flops", model=model, tokens=tokens)) - attention, attention


def number(text: str) -> tuple[float, float]:
    """The number that an option says, and half a unit of its last digit."""
    found = re.search(r"(\d[\d,]*)(?:\.(\d+))?", text)
    assert found, text
    decimals = len(found.group(2) or "")
    return float(found.group().replace(",", "")), 0.5001 * 10.0**-decimals
