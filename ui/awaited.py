"""A scenario on the engine, waited for: a page draws it when it has ended."""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

import streamlit as st

from core.client import EngineRefusedError, EngineUnreachableError
from core.errors import KVScopeError
from core.trace.run import Run
from core.trace.streamed import RunBuilder
from ui import engine_process, live_routes

WAIT_S = 60.0
_OWNER = "awaited.owner"


class LiveRunError(KVScopeError):
    """The engine could not run what was asked for; the message says why."""


def run(body: dict[str, Any]) -> Run:
    """A scenario on the engine, to its end. Raises KVScopeError."""
    client = engine_process.client()
    if client is None:
        raise LiveRunError("The engine is away just now; the picture stays as it is.")
    owner = st.session_state.setdefault(_OWNER, secrets.token_hex(8))
    try:
        started = live_routes.RUNS.submit(owner, lambda: client.scenario(body))
    except EngineRefusedError as exc:
        raise LiveRunError(f"The engine did not take it: {exc}.") from None
    except EngineUnreachableError:  # it ended, and nobody has noticed yet
        raise LiveRunError(
            "The engine no longer answers. It is being started again where the app started it: "
            "try once more in a moment."
        ) from None
    builder, number, until = RunBuilder(), -1, time.monotonic() + WAIT_S
    live_routes.RUNS.follow(started)
    try:
        while builder.end is None:
            data, number = started.events_after(number)
            for kind, value in _messages(data):
                builder.add(kind, value)
            if builder.end is None:
                if time.monotonic() > until:
                    started.cancel()
                    raise LiveRunError(f"The engine took longer than {WAIT_S:g} s and was stopped.")
                time.sleep(0.05)
    finally:
        live_routes.RUNS.leave(started)
    done = builder.run()
    if done is None or not done.steps or builder.end.get("reason") != "finished":
        said = builder.end.get("message") or builder.end.get("reason") or "no reason given"
        raise LiveRunError(f"The engine did not finish this run: {said}.")
    return done


def _messages(data: bytes) -> list[tuple[str, Any]]:
    """The messages in a piece of a run's events."""
    out = []
    for event in data.decode("utf-8", "replace").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in event.split("\n") if ": " in line)
        if "data" in fields:
            out.append((fields["event"], json.loads(fields["data"])))
    return out
