"""A run in words, for the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from core.trace.reasons import REASONS
from core.trace.run import Run

Json = dict[str, Any]


def describe_run(run: Run, states: list[Json] | None = None) -> Iterator[str]:
    """Lines: where the run comes from, then each step with its events."""
    source, scenario = run.header["source"], run.header["scenario"]
    engine = scenario["engine"]
    name = scenario["name"] or "unnamed scenario"
    yield f"{name}: {engine['num_blocks']} blocks × {engine['block_size']} tokens"
    if run.header["label"] == "SIMULATED":
        yield "SIMULATED: real scheduler and block manager, scripted tokens, no model"
        if any(request["prompt"] is not None for request in scenario["requests"]):
            yield "a prompt given as text counts one token for each of its bytes"
    else:
        parts = [source["device"], source["model"], source["dtype"], run.header["recorded_at"]]
        yield f"{run.header['label']}: " + ", ".join(str(part) for part in parts)
    window = run.header.get("sliding_window")
    if window is not None:
        yield f"every layer of the model sees the last {window:,} tokens only"
    if not scenario["requests"]:
        yield "no requests, so no steps"
    for index, record in enumerate(run.steps):
        yield from describe_step(record, states[index] if states else None)
    for name, result in run.results.items():
        ending = f"{name} ended: {result.get('finish_reason')}"
        text = result.get("text")
        yield ending if text is None else f"{ending}. {text!r}"


def describe_step(record: Json, state: Json | None = None) -> Iterator[str]:
    """Lines for one step: what was computed, what happened and why, and the state if given."""
    shares = [
        f"{name} {share['num_computed_tokens'] + share['num_cached_tokens']}"
        f"+{share['num_scheduled_tokens']}"
        for name, share in record["scheduled"].items()
    ]
    usage = record["usage"]
    yield (
        f"step {record['step']}: {', '.join(shares) or 'nothing scheduled'} "
        f"| {usage['in_use']} in use, {usage['cached']} cached, {usage['free']} free"
    )
    for event in record["events"]:
        if event["type"] not in ("scheduled", "token_sampled"):
            yield "    " + describe_event(event)
    if state is not None:
        for part, value in state.items():
            yield f"    {part}: {json.dumps(value, ensure_ascii=False)}"


def describe_event(event: Json) -> str:
    """One line: who, what, why."""
    kind = event["type"]
    who = event.get("sequence", event.get("request", ""))
    if kind == "forked" and "position" in event:
        who = f"{event['request']} off {who}"
    reason = event.get("reason")
    skip = {"type", "request", "sequence", "reason", "sequences", "keys", "parent_key", "before"}
    details = [f"{key} {value}" for key, value in event.items() if key not in skip]
    line = " ".join(part for part in (kind, who, ", ".join(details)) if part)
    if reason is None:
        return line
    why = REASONS.get(kind, {}).get(reason, "")
    return f"{line} [{reason}] {why}".rstrip()
