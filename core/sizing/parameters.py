"""Exact parameter counts, put together from matrices and vectors.

Three numbers of every part: all of it; what one token's forward pass touches (a mixture of experts
leaves most experts alone); and what sits in matrices that each token is multiplied by, 2 FLOPs a
number. Biases, norms and tables that are only looked up are no matrices in that sense: what a
quantised checkpoint leaves in 16 bits whatever else it does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Count:
    """total, active, matmul: numbers of parameters. matmul counts a matrix once per use. vectors:
    those of the total that are in no matrix."""

    total: int = 0
    active: int = 0
    matmul: int = 0
    vectors: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.total + other.total,
            self.active + other.active,
            self.matmul + other.matmul,
            self.vectors + other.vectors,
        )

    def __mul__(self, times: int) -> Count:
        return Count(
            self.total * times, self.active * times, self.matmul * times, self.vectors * times
        )

    def used_again(self, times: int) -> Count:
        """The same weights applied `times` times more: no new parameters, more multiplications."""
        return replace(self, matmul=self.matmul * (1 + times))


NOTHING = Count()


def linear(inputs: int, outputs: int, bias: bool = False) -> Count:
    """A matrix [outputs, inputs], and a bias [outputs] if it has one."""
    return matrix(inputs * outputs) + (vector(outputs) if bias else NOTHING)


def matrix(size: int) -> Count:
    """`size` numbers that each token is multiplied by: also the kernel of a depthwise conv."""
    return Count(size, size, size)


def vector(size: int) -> Count:
    """A bias, a norm's weight, a lookup table's worth of numbers: touched, no multiplication."""
    return Count(size, size, 0, size)


def experts(number: int, visited: int, one: Count) -> Count:
    """`number` experts alike, `visited` of them by each token."""
    return Count(
        one.total * number, one.active * visited, one.matmul * visited, one.vectors * number
    )
