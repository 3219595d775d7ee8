"""The controls of a study and its picture. A fragment: a control draws nothing else again."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import streamlit as st

from core.errors import KVScopeError
from ui.batching import below, place, studies
from ui.components.gantt import gantt
from ui.kit import page, states, text
from ui.kit.address import Address
from ui.lesson import Lesson

PLACE, NOTICE = "ba.place", "ba.notice"
_SEEN = "ba.seen"
ADDRESS = Address("ba", place.NAMES)


def start() -> None:
    """Take over what the address asks for, if someone has just arrived by it."""
    asked = ADDRESS.arrived()
    if asked is not None:
        st.session_state[PLACE], st.session_state[NOTICE] = place.read(asked)


def current() -> dict[str, Any]:
    found: dict[str, Any] = st.session_state[PLACE]
    return found


def change(**values: Any) -> None:
    """Go to another picture: it begins at step 0, with targets of its own."""
    fresh = {name: place.DEFAULTS[name] for name in place.STANDING}
    st.session_state[PLACE] = {**current(), **fresh, **values}
    st.session_state[NOTICE] = None


def _write() -> None:
    """Put the present place into the address."""
    ADDRESS.write(place.written(current()))


def _segments(name: str, label: str, options: Mapping[Any, str]) -> None:
    key = f"ba.w.{name}"
    st.session_state[key] = current()[name]  # the control follows the place, wherever it was set
    st.segmented_control(
        label,
        list(options),
        format_func=options.__getitem__,
        key=key,
        required=True,
        on_change=lambda: change(**{name: st.session_state[key] or current()[name]}),
        label_visibility="collapsed",
    )


def _slider(name: str, label: str, *, step: int = 1, unit: str = "%d") -> None:
    key = f"ba.w.{name}"
    low, high = place.LIMITS[name]
    st.session_state[key] = current()[name]
    st.slider(
        label,
        low,
        high,
        step=step,
        format=unit,
        key=key,
        on_change=lambda: change(**{name: st.session_state[key]}),
        width=190,
    )


def _row(name: str) -> st.delta_generator.DeltaGenerator:
    return st.container(key=f"kv-ba-{name}", horizontal=True, vertical_alignment="bottom")


def _controls(study: str) -> None:
    now = current()
    if study == "landing":
        _segments("chunk", "Tokens a step", {c: f"{c} tokens a step" for c in place.CHUNKS})
        return
    if study == "arrivals":
        with _row("draw"):
            _segments("mix", "What arrives", place.MIXES)
            _segments("pattern", "How it arrives", place.PATTERNS)
            st.button(
                "New draw",
                icon=":material/casino:",
                on_click=lambda: change(seed=secrets.randbelow(place.LIMITS["seed"][1])),
                key="ba.draw",
            )
        with _row("numbers"):
            _slider("rate", "Requests in 100 steps", step=5)
            _slider("count", "Requests")
            _slider("seats", "Places")
        return
    with _row("numbers"):
        _segments("source", "Which runs", place.SOURCES)
        if now["source"] == "simulated":
            _slider("seats", "Places")
            if study == "pressure":
                _slider("watermark", "Watermark, % of the pool")


@st.fragment
def draw(words: Lesson, *, present: bool) -> None:
    """The studies, the present one's controls and its picture."""
    study = current()["study"]
    with st.container(key="kv-ba-top", horizontal=present):
        _segments("study", "Study", place.STUDIES)
        if not present:
            text.draw(words[f"study-{study}"])
        _controls(study)
    if st.session_state[NOTICE]:
        st.warning(st.session_state[NOTICE], icon=":material/link_off:")
    try:
        shown = studies.shown(current())
    except KVScopeError as exc:
        _write()
        states.refused(exc, words["refused"])
        return
    _picture(shown, present=present)
    if not present:
        below.draw(words, study, shown)


def _picture(shown: studies.Shown, *, present: bool) -> None:
    state, now = st.session_state, current()
    standing = {name: now[name] for name in place.STANDING}
    standing["axis"] = standing["axis"] or shown.axis
    # The component keeps its own place while its runs stay: what it told is not sent back to it.
    picture = "+".join(lane.packed.id for lane in shown.lanes)
    if state.get("ba.shown") != picture:
        state["ba.shown"], state["ba.given"] = picture, standing
    given = gantt(
        shown.lanes,
        key="gantt",
        title=shown.title,
        place=state["ba.given"],
        present=present,
    )
    page.follow_present(given.present, present)
    rests = given.get("place")
    if isinstance(rests, dict) and rests.get("id") == picture and rests != state.get(_SEEN):
        state[_SEEN] = rests
        told_place = place.reported(rests)
        if told_place["axis"] == shown.axis:
            told_place["axis"] = None
        state[PLACE] = {**now, **told_place}
    _write()
