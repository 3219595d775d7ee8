"""The reader's prompt on the engine that is here, now: once with the model's own cache, once with
the chosen one. What it gave is the session's; a link leads to the format and the prompt."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.errors import KVScopeError
from core.kv_spec import MODEL, KVSpec
from ui import awaited, engine_process
from ui.quantise import measured
from ui.quantise.place import Place

Json = dict[str, Any]
_OWN, _PAIRS, _SAID = "kq.live.own", "kq.live.pairs", "kq.live.said"
MOST = 12
"""Pairs that a session keeps."""


def _name(place: Place) -> tuple[str, KVSpec]:
    return asked(place), place.spec


def asked(place: Place) -> str:
    """What is asked: the reader's prompt, else the lesson's."""
    return place.prompt or measured.prompt()


def run(place: Place) -> None:
    """Run both, and keep what they gave; or say why there is nothing to show."""
    state = st.session_state
    state.pop(_SAID, None)
    prompt = asked(place)
    try:
        known = state.get(_OWN)
        if known is None or known[0] != prompt:
            own = awaited.run(measured.scenario(prompt, MODEL)).to_dict()
            known = state[_OWN] = (prompt, own)
        other = awaited.run(measured.scenario(prompt, place.kv_dtype())).to_dict()
        found = measured.of_runs(known[1], other)
    except KVScopeError as exc:
        state[_SAID] = _name(place), str(exc)
        return
    pairs = dict(list(state.get(_PAIRS, {}).items())[1 - MOST :])
    state[_PAIRS] = pairs | {_name(place): found}


def part(place: Place) -> Json | None:
    """What was measured here in this format with this prompt, if it was."""
    found: Json | None = st.session_state.get(_PAIRS, {}).get(_name(place))
    return found


def controls(place: Place) -> Json:
    """For the button: {can: an engine is here, has: that this was measured here, said: why this
    could not be}. An engine that is being started again counts: pressed too early, the button says
    so, while one that is hidden would stay so until something else is drawn."""
    name, said = st.session_state.get(_SAID, (None, ""))
    return {
        "can": engine_process.seen().state != "absent",
        "has": part(place) is not None,
        "said": said if name == _name(place) else "",
    }
