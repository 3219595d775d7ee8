"""Speculative decoding: the sum against its closed form and against draws, and where it pays."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sizing.errors import SizingError
from core.sizing.speculation import expected_tokens_per_verify, speculative_speedup


def tokens(acceptance: float, k: int) -> float:
    value = expected_tokens_per_verify(acceptance, k).value
    assert value is not None
    return value


def speedup(acceptance: float, k: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    value = speculative_speedup(acceptance, k, draft_cost, verify_cost).value
    assert value is not None
    return value


@given(st.floats(0, 0.99), st.integers(0, 64))
def test_the_sum_is_the_closed_form(acceptance: float, k: int) -> None:
    closed = (1 - acceptance ** (k + 1)) / (1 - acceptance)
    assert tokens(acceptance, k) == pytest.approx(closed)


@pytest.mark.parametrize(("acceptance", "k"), [(0.5, 3), (0.8, 4), (0.9, 8)])
def test_it_is_what_draws_give(acceptance: float, k: int) -> None:
    """Accept until one is refused, and one token of the target's own in any case."""
    rng, passes, total = random.Random(7), 40_000, 0
    for _ in range(passes):
        kept = 0
        while kept < k and rng.random() < acceptance:
            kept += 1
        total += kept + 1
    assert total / passes == pytest.approx(tokens(acceptance, k), rel=0.02)


def test_the_ends() -> None:
    assert tokens(0.7, 0) == 1  # nothing proposed: plain decoding
    assert tokens(0.0, 9) == 1  # everything refused: the correction alone
    assert tokens(1.0, 9) == 10  # everything kept, and the token after it
    assert speedup(0.7, 0, 0.3) == 1


@given(st.floats(0, 1), st.integers(0, 63))
def test_a_longer_draft_yields_more_and_never_more_than_one_token(a: float, k: int) -> None:
    assert 0 <= tokens(a, k + 1) - tokens(a, k) <= 1


def test_a_free_draft_never_slows_while_memory_sets_the_pace() -> None:
    assert speedup(0.0, 4, 0.0) == 1
    assert speedup(0.6, 4, 0.0) > 1


@given(st.floats(0, 0.99), st.integers(1, 64))
def test_it_never_pays_where_verifying_costs_a_step_for_each_token(a: float, k: int) -> None:
    assert speedup(a, k, 0.0, verify_cost=k + 1) <= 1


def test_with_a_costly_draft_some_length_is_best() -> None:
    """And past it a longer draft loses again."""
    gains = [speedup(0.8, k, 0.1) for k in range(20)]
    best = gains.index(max(gains))
    assert 0 < best < 19
    assert gains[19] < gains[best]


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ((1.1, 4, 0.1), "acceptance"),
        ((0.5, -1, 0.1), "k"),
        ((0.5, 65, 0.1), "k"),
        ((0.5, 4, -0.1), "draft_cost"),
        ((0.5, 4, 0.1, 0.0), "verify_cost"),
    ],
)
def test_what_cannot_be_is_refused(values: tuple[float, int, float], path: str) -> None:
    with pytest.raises(SizingError) as caught:
        speculative_speedup(*values)
    assert caught.value.path == path
