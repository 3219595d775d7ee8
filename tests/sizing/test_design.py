"""Designs: whole replicas for the users, the step at their load, and which plan another beats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.sizing import calls, catalog, gpus
from core.sizing.deployment import Deployment
from core.sizing.design import MOST_REPLICAS, design, dominated, full_plan
from core.sizing.errors import SizingError


def _deployment(**more: Any) -> Deployment:
    given: dict[str, Any] = {
        "tp": 2, "weight_dtype": "fp8", "kv_dtype": "fp8", "prefix_tokens": 1024, "users": 200,
        "price_per_gpu_hour": 2.0, **more,
    }  # fmt: skip
    return Deployment(catalog.get("llama-3-70b"), gpus.get("h100-sxm5"), **given)


def test_the_users_make_the_replicas_and_the_load() -> None:
    made = design(_deployment())
    assert (made.plan.batch, made.replicas, made.num_gpus) == (158, 2, 4)
    assert (
        made.gpus.value
        == calls.call(
            "gpus_for_users", {"users": 200, "streams_per_replica": 158, "gpus_per_replica": 2}
        ).value
    )
    assert made.price is not None and made.price.value == 8
    assert made.load == 100 and made.holds
    assert made.step is not None
    assert made.step.value == calls.call("decode_step_time", {
        "model": "llama-3-70b", "gpu": "h100-sxm5", "n_gpu": 2, "batch": 100, "context": 4096,
        "weights": "fp8", "kv": "fp8", "mfu": 0.5,
    }).value  # fmt: skip
    whole = full_plan(made, _deployment())
    assert whole.streams.value == made.streams == 316


@settings(max_examples=40, deadline=None)
@given(users=st.integers(1, 5000))
def test_one_replica_fewer_would_not_hold_them(users: int) -> None:
    made = design(_deployment(users=users))
    assert made.holds and (made.replicas - 1) * made.plan.batch < users
    assert made.load * made.replicas >= users


def test_replicas_that_were_asked_for_are_what_there_is() -> None:
    few = design(_deployment(), 1)
    assert not few.holds and few.load == 158 and few.num_gpus == 2 and not few.meets(None, None)
    many = design(_deployment(), 5)
    assert many.holds and many.load == 40
    assert many.step is not None and few.step is not None
    assert (many.step.value or 0) < (few.step.value or 0)


def test_limits_are_kept_or_not() -> None:
    made = design(_deployment())
    first, step = made.first_token.value, made.step.value if made.step else None
    assert first is not None and step is not None
    assert made.meets(first, step) and made.meets(None, None)
    assert not made.meets(first * 0.99, None) and not made.meets(None, step * 0.99)


def test_what_cannot_be_is_said() -> None:
    nothing = design(_deployment(tp=1, weight_dtype="bf16"))
    assert (nothing.replicas, nothing.load, nothing.step, nothing.price) == (0, 0, None, None)
    assert nothing.gpus.value is None and not nothing.holds
    with pytest.raises(SizingError, match="users"):
        design(replace(_deployment(), users=None))
    with pytest.raises(SizingError, match="the most here"):
        design(_deployment(users=158 * MOST_REPLICAS + 1))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_what_is_left_is_the_frontier(points: list[tuple[int, int]]) -> None:
    lost = dominated(points)
    kept = {one for one, beaten in zip(points, lost, strict=True) if not beaten}
    for one, beaten in zip(points, lost, strict=True):
        better = [o for o in kept if o[0] <= one[0] and o[1] <= one[1] and o != one]
        assert bool(better) == beaten
