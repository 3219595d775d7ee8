"""What else the machine was doing meanwhile: figures of a shared machine say so. No torch."""

from __future__ import annotations

import os
import time
from pathlib import Path
from time import perf_counter


class OtherWork:
    """How much of the processor's time went to other processes since it was made."""

    def __init__(self) -> None:
        self._started = perf_counter()
        self._busy, self._own = _busy_seconds(), _own_seconds()

    def share(self) -> float | None:
        """0 … 1 of all cores; None where the system does not say."""
        busy = _busy_seconds()
        if busy is None or self._busy is None:
            return None
        others = busy - self._busy - (_own_seconds() - self._own)
        capacity = (perf_counter() - self._started) * (os.cpu_count() or 1)
        return max(0.0, others / capacity)


def look_around(seconds: float = 1.0) -> float | None:
    """The share that others take while this process waits, 0 … 1 of all cores.

    For benchmarks that start processes of their own: while those run, theirs and others' work
    cannot be told apart, so look before the first starts and after the last has ended.
    """
    other = OtherWork()
    time.sleep(seconds)
    return other.share()


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _busy_seconds() -> float | None:
    """Processor seconds of the whole machine that were neither idle nor waiting for a disk."""
    try:
        line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
        fields = [int(field) for field in line.split()[1:9]]
        return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
