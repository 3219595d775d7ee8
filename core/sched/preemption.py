"""Who gives way when blocks run out."""

from __future__ import annotations

from core.request import Sequence, Status


def choose_victim(running: list[Sequence], policy: str) -> Sequence:
    """The running sequence to preempt; it may be the one that asks.

    fcfs: the one admitted or resumed last (twins by index), so that the oldest always gets on.
    priority: the least urgent, the latest arrival among equals.
    Members of a static batch that have ended hold their blocks and are never victims.
    """
    if policy == "fcfs":
        return next(seq for seq in reversed(running) if seq.status is Status.RUNNING)
    alive = (seq for seq in running if seq.status is Status.RUNNING)
    return max(alive, key=lambda seq: seq.sort_key)
