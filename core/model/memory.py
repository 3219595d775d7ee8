"""How much memory may still be taken."""

from __future__ import annotations

import os
from pathlib import Path

import torch

MARGIN = 256 << 20
"""Bytes left free beside the pool, for activations and the rest of the process."""


def available_memory_bytes(device: torch.device) -> int | None:
    """Bytes that can be allocated on a device now; None where the system does not say.

    CUDA: free memory as the driver reports it, and what torch has taken from the driver and no
    tensor holds: a pool that was let go of is there. Linux: `MemAvailable`, or what the control
    group (a container's limit) leaves, whichever is less. Elsewhere: all physical memory.
    """
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + kept
    limits = [n for n in (_mem_available(), _cgroup_available()) if n is not None]
    if limits:
        return min(limits)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def device_memory() -> dict[str, int]:
    """Bytes of the present CUDA device: total, free to every process, allocated by tensors here."""
    free, total = torch.cuda.mem_get_info()
    return {"total": total, "free": free, "allocated": torch.cuda.memory_allocated()}


def _mem_available() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def _cgroup_available() -> int | None:
    """What cgroup v2 still allows this process, reclaimable page cache counted as free."""
    try:
        own = Path("/proc/self/cgroup").read_text(encoding="ascii").rpartition("::/")[2].strip()
        group = Path("/sys/fs/cgroup") / own
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        used = int((group / "memory.current").read_text(encoding="ascii"))
        cache = _inactive_file(group / "memory.stat")
        return None if limit == "max" else max(0, int(limit) - used + cache)
    except (OSError, ValueError):
        return None


def _inactive_file(stat: Path) -> int:
    """Bytes of page cache that the kernel drops when memory is asked for."""
    for line in stat.read_text(encoding="ascii").splitlines():
        if line.startswith("inactive_file "):
            return int(line.split()[1])
    return 0
