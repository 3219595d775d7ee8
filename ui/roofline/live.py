"""The chosen run's scenario on the engine that is here, now: its steps as LIVE points beside the
recorded ones. They are the session's; a link leads to the recorded run, whose steps are the same.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.errors import KVScopeError
from ui import awaited, engine_process, runs
from ui.roofline import measured

Json = dict[str, Any]
_PART, _SAID, _SHOWN, _COUNT = "rl.live.part", "rl.live.said", "rl.live.shown", "rl.live.count"


def asked(what: object, run: str) -> bool:
    """What the instrument's buttons ask: {"do": "run" | "live" | "recorded"}. run: the recorded run
    that is chosen. Whether something is to be drawn."""
    state = st.session_state
    wish = what.get("do") if isinstance(what, dict) else None
    if wish == "run":
        _measure(run)
    elif wish in ("live", "recorded"):
        state[_SHOWN] = wish == "live" and _PART in state
    else:
        return False
    return True


def _measure(run: str) -> None:
    """Run it, and show what it took; or say why there is nothing to show."""
    state = st.session_state
    state.pop(_SAID, None)
    try:
        done = awaited.run(runs.recorded(run).header["scenario"])
    except KVScopeError as exc:
        state[_SAID] = run, str(exc)
        return
    state[_COUNT] = state.get(_COUNT, 0) + 1
    part = measured.of_run(f"live-{state[_COUNT]}", done.to_dict())
    if not part["rows"]:
        said = "The engine that is here times no steps, so there is nothing to draw."
        state[_SAID] = run, said
        return
    state[_PART], state[_SHOWN] = {**part, "of": run}, True


def part(run: str) -> Json | None:
    """What was measured here of that run, where it is to be shown."""
    found: Json | None = st.session_state.get(_PART)
    shown = st.session_state.get(_SHOWN, False) and found is not None and found["of"] == run
    return found if shown else None


def controls(run: str) -> Json:
    """For the buttons: {can: an engine is here, has: that run was measured here, shown, said: why
    it could not be}. An engine that is being started again counts, as on the other pages."""
    found = st.session_state.get(_PART)
    of, said = st.session_state.get(_SAID, (None, ""))
    return {
        "can": engine_process.seen().state != "absent",
        "has": found is not None and found["of"] == run,
        "shown": part(run) is not None,
        "said": said if of == run else "",
    }
