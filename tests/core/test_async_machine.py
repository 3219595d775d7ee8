"""Anything may happen between two steps, one of which is in flight: see `test_serving_machine`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.core.test_serving_machine import Serving


class AsyncServing(Serving):
    """The same with asynchronous scheduling; `finish` also waits for what is in flight."""

    asynchronous = True


TestAsyncServing = AsyncServing.TestCase
TestAsyncServing.settings = settings(
    max_examples=30,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
