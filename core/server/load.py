"""Other work on the machine: a timing taken beside it is labelled so."""

from __future__ import annotations

import os
import time
from typing import Any

NOTICEABLE = 0.1
"""Share of the processor from which other work is worth a word."""

_EVERY_S = 0.25
_IDLE = (3, 4)  # columns of /proc/stat: idle, iowait


def _machine_s() -> tuple[float, float] | None:
    """(busy, all) processor seconds of the machine since it started; None where it does not say."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(field) for field in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    total = sum(ticks)
    per_s = os.sysconf("SC_CLK_TCK")
    return (total - sum(ticks[i] for i in _IDLE)) / per_s, total / per_s


class OtherWork:
    """What other processes take of the processor, measured over the last quarter of a second."""

    def __init__(self) -> None:
        self._last = self._read()
        self._at = time.monotonic()
        self._share: float | None = None

    def _read(self) -> tuple[float, float, float] | None:
        machine = _machine_s()
        own = os.times()
        return None if machine is None else (*machine, own.user + own.system)

    def share(self) -> float | None:
        """0 … 1 of all cores; None where the system does not say, or has not said yet."""
        now = time.monotonic()
        if now - self._at < _EVERY_S:
            return self._share
        read = self._read()
        if read is not None and self._last is not None:
            busy, total, own = (new - old for new, old in zip(read, self._last, strict=True))
            if total > 0:
                self._share = min(1.0, max(0.0, (busy - own) / total))
        self._last, self._at = read, now
        return self._share


def machine_load() -> dict[str, Any]:
    """Cores that may be used, and the load average of a minute (None where there is none)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    return {"cores": cores, "load_1m": load}
