"""Who gives way when blocks run out."""

from __future__ import annotations

from collections.abc import Iterator

from core.request import Sequence, Status


def victims(running: list[Sequence], policy: str) -> Iterator[Sequence]:
    """Running sequences in the order in which they would be preempted, for one step.

    fcfs: the one admitted or resumed last goes first (twins by index), so that the oldest always
    gets on. priority: the least urgent, the latest arrival among equals. The one that asks for
    blocks may be the next victim itself. Members of a static batch that have ended hold their
    blocks and are never victims; whoever was preempted meanwhile is passed over.

    Nobody is admitted while this is used, so one order serves all victims of the step.
    """
    if policy == "fcfs":
        order = running[::-1]
    else:
        order = sorted(running, key=lambda seq: seq.sort_key, reverse=True)
    return (seq for seq in order if seq.status is Status.RUNNING)
