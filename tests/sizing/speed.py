"""How long a call takes beside plain Python on the same machine: no absolute time is asserted."""

from __future__ import annotations

import time
from collections.abc import Callable


def a_millisecond_of_work() -> int:
    """Plain Python that takes about a millisecond on a core of the 2020s."""
    return len({index: str(index) for index in range(12_000)})


def seconds(work: Callable[[], object]) -> float:
    """The least processor time of one call, so that what else runs beside it hardly counts."""
    times = []
    for _ in range(30):
        start = time.process_time()
        work()
        work()
        times.append(time.process_time() - start)
    return min(times) / 2
