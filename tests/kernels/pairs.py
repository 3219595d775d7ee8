"""A pairwise cover: few cases in which every two values of different parameters meet."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any


def pairwise(parameters: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Cases that hold every pair of values of every two parameters; the same at each call.

    Greedy: a case starts from a pair that is still missing, and is filled up with whatever covers
    most of the others.
    """
    names = list(parameters)
    choose = random.Random(0)
    missing = {
        frozenset(((a, i), (b, j)))
        for a, b in combinations(names, 2)
        for i in range(len(parameters[a]))
        for j in range(len(parameters[b]))
    }
    cases = []
    while missing:
        chosen = dict(min(missing, key=sorted))
        free = [name for name in names if name not in chosen]
        choose.shuffle(free)
        for name in free:
            order = list(range(len(parameters[name])))
            choose.shuffle(order)
            chosen[name] = max(
                order,
                key=lambda i: sum(frozenset(((name, i), other)) in missing
                                  for other in chosen.items()),
            )  # fmt: skip
        missing -= {frozenset(pair) for pair in combinations(chosen.items(), 2)}
        cases.append({name: parameters[name][chosen[name]] for name in names})
    return cases


def named(case: dict[str, Any]) -> str:
    """A test's id."""
    return "-".join(f"{key}={value}" for key, value in case.items())
