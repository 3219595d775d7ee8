"""The cover of cases is one."""

from __future__ import annotations

from itertools import combinations, product

from tests.kernels.pairs import pairwise


def test_every_two_values_meet():
    parameters = {"a": [1, 2, 3], "b": [None, "x"], "c": [0, 1, 2, 3], "d": [True, False]}
    cases = pairwise(parameters)
    for one, other in combinations(parameters, 2):
        met = {(case[one], case[other]) for case in cases}
        assert met == set(product(parameters[one], parameters[other]))
    assert len(cases) < 3 * 4 * 2
    assert cases == pairwise(parameters)
