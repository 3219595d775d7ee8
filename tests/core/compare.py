"""Bring runs, hand-worked fixtures and the reference simulator to one shape."""

from __future__ import annotations

from typing import Any

DECISIONS = ("request_rejected", "preempted", "waiting", "finished")


def decisions(record: dict[str, Any]) -> list[list[str]]:
    """[kind, sequence or request, reason] of a step, in order."""
    return [
        [event["type"], event.get("sequence", event["request"]), event["reason"]]
        for event in record["events"]
        if event["type"] in DECISIONS
    ]


def of_run(record: dict[str, Any]) -> dict[str, Any]:
    """A step of a run with `state`, as `tests/reference.py` gives it."""
    state = record["state"]
    cached = {
        int(block): {key: entry[key] for key in ("tokens", "last_used", "hits")}
        for block, entry in state["cached"].items()
    }
    return {
        "order": list(record["scheduled"]),
        "scheduled": record["scheduled"],
        "usage": record["usage"],
        "block_tables": state["block_tables"],
        "ref_counts": {int(block): refs for block, refs in state["ref_counts"].items()},
        "free_order": state["free_order"],
        "cached": cached,
        "waiting": state["waiting"],
        "running": state["running"],
        "outputs": state["outputs"],
        "decisions": decisions(record),
    }


def of_reference(record: dict[str, Any]) -> dict[str, Any]:
    """A step of the reference simulator."""
    return {
        "order": list(record["scheduled"]),
        "scheduled": record["scheduled"],
        "usage": record["usage"],
        **record["state"],
        "decisions": [list(decision) for decision in record["decisions"]],
    }
