"""What the block pool page plays: kept in the session, mirrored in the address.

A choice is ``scenario:<slug>``, ``run:<name>``, ``own`` (the visitor's scenario) or ``file`` (a run
file that the visitor brought). The address is read when someone arrives by a link and written
whenever the choice changes, so the address always opens the picture one is looking at. A run file
has no address: it exists on the visitor's side only.

How it is looked at is in the address too: ``view`` (play, hand, size, paged), the block ``size``
and the ``reserve`` that the studies are set to. ``base`` names the recorded run whose tokens a
scenario of one's own is made of, for their texts.
"""

from __future__ import annotations

import json

import streamlit as st

from core.errors import KVScopeError, ScenarioError
from core.scenario import Scenario
from ui import catalogue, forms, links, runs

DEFAULT = "scenario:two-answers"
CHOICE = "bp.choice"
OWN = "bp.own"
FILE = "bp.file"
STEP = "bp.step"
BLOCK = "bp.block"
NOTICE = "bp.notice"
VIEW = "bp.view"
SIZE = "bp.size"
RESERVE = "bp.reserve"
BASE = "bp.base"
_SEEN = "bp.seen"
_SELECT = "bp.select"
_WHAT = ("scenario", "run", "own")
_HOW = ("view", "size", "reserve", "base")
_KEYS = (*_WHAT, *_HOW)
_PLACE = ("step", "block")


def start() -> None:
    """Take over what the address asks for, if someone has just arrived by it."""
    state = st.session_state
    params = {k: st.query_params[k] for k in (*_KEYS, *_PLACE) if k in st.query_params}
    asked = {k: v for k, v in params.items() if k in _KEYS}
    if CHOICE in state and (not asked or asked == state.get(_SEEN)):
        return
    state[NOTICE] = None
    state[STEP], state[BLOCK] = 0, None
    state[VIEW], state[SIZE], state[RESERVE], state[BASE] = "play", None, None, None
    state.setdefault(CHOICE, DEFAULT)
    try:
        target, notice = links.read(params)
    except links.LinkError as exc:
        _refuse(str(exc))
        return
    state[STEP], state[BLOCK] = target.step or 0, target.block
    state[VIEW], state[SIZE], state[RESERVE] = target.view, target.size, target.reserve
    if target.own_text is not None:
        state[OWN] = target.own_text
        state[BASE] = target.base if runs.recorded_path(target.base or "") else None
        state[CHOICE] = "own"
    elif target.run is not None:
        _take_run(target.run)
    elif target.scenario is not None:
        _take_scenario(target.scenario)
    state[NOTICE] = state[NOTICE] or notice


def _take_run(name: str) -> None:
    try:
        runs.recorded(name)
    except KVScopeError:
        there = "cannot be read" if runs.recorded_path(name) else "is not on this server"
        _refuse(f"The recorded run of this link {there}.")
    else:
        st.session_state[CHOICE] = f"run:{name}"


def _take_scenario(slug: str) -> None:
    if slug in catalogue.entries():
        st.session_state[CHOICE] = f"scenario:{slug}"
    else:
        _refuse("This link asks for a scenario that is not here.")


def _refuse(why: str) -> None:
    st.session_state[CHOICE] = DEFAULT
    st.session_state[NOTICE] = f"{why.rstrip('.')}. Here is the first scenario instead."


def choose(choice: str) -> None:
    """Change what is played; the picture starts at step 0."""
    st.session_state[CHOICE] = choice
    st.session_state[NOTICE] = None
    go(0)


def go(step: int) -> None:
    """The picture starts at this step when it is drawn anew."""
    st.session_state[STEP], st.session_state[BLOCK] = step, None
    for key in _PLACE:
        if key in st.query_params:
            del st.query_params[key]
    if step:
        st.query_params["step"] = str(step)


def step_now() -> int:
    """Where the reader stands, as far as the browser has told."""
    target, _ = links.read({"step": st.query_params.get("step", "0")})
    return target.step or 0


def set_own(scenario: Scenario, *, base: str | None = None) -> None:
    """Play a scenario of one's own. base: the recorded run whose tokens it is made of."""
    st.session_state[OWN] = forms.pretty(scenario)
    st.session_state[BASE] = base
    choose("own")


def options() -> dict[str, str]:
    """Every choice with its title, in the order of the list."""
    out = {f"scenario:{e.slug}": e.title for e in catalogue.entries().values()}
    for item in runs.list_recorded():
        out[f"run:{item.name}"] = f"Recorded: {item.title}"
    if st.session_state.get(OWN):
        out["own"] = "Your own scenario"
    if st.session_state.get(FILE):
        out["file"] = f"Your file: {st.session_state[FILE][0]}"
    return out


def select() -> None:
    """The list of everything that can be played."""
    listed = options()
    state = st.session_state
    if state[CHOICE] not in listed:
        choose(DEFAULT)
    state[_SELECT] = state[CHOICE]  # the list follows the choice, wherever it was made
    st.selectbox(
        "What to play",
        list(listed),
        format_func=listed.__getitem__,
        key=_SELECT,
        on_change=lambda: choose(state[_SELECT]),
        label_visibility="collapsed",
        width=400,
    )


def current_run() -> runs.Played:
    """The run of the present choice. Raises KVScopeError."""
    kind, _, name = st.session_state[CHOICE].partition(":")
    if kind == "scenario":
        return runs.simulate(catalogue.entries()[name].text)
    if kind == "run":
        return runs.recorded(name)
    if kind == "own":
        return runs.simulate(st.session_state[OWN], base=st.session_state[BASE] or "")
    played: runs.Played = st.session_state[FILE][1]
    return played


def file_note() -> str:
    """What was checked of the visitor's file."""
    header = st.session_state[FILE][1].header
    return runs.LIVE_FILE_NOTE if "hidden_token" in header else runs.FILE_NOTE


def scenario_text() -> str | None:
    """The present choice's scenario as JSON for the editor; None if it cannot be had."""
    kind, _, name = st.session_state[CHOICE].partition(":")
    if kind == "scenario":
        return catalogue.entries()[name].text
    if kind == "own":
        text: str = st.session_state[OWN]
        return text
    try:
        return forms.pretty(Scenario.from_dict(current_run().header["scenario"]))
    except KVScopeError:
        return None


def write_address() -> str | None:
    """Put the present choice into the address. Returns a sentence where it does not fit."""
    kind, _, name = st.session_state[CHOICE].partition(":")
    wanted: dict[str, str] = {}
    problem = None
    if kind in ("scenario", "run"):
        wanted[kind] = name
    elif kind == "own":
        packed = _packed_own()
        if packed is None:
            problem = "This scenario is too long for a link. Send it as a file."
        else:
            wanted["own"] = packed
    else:
        problem = "A run file from your disk has no link. Send the file."
    wanted |= _how(kind)
    for key in _KEYS:
        if key in wanted:
            if st.query_params.get(key) != wanted[key]:
                st.query_params[key] = wanted[key]
        elif key in st.query_params:
            del st.query_params[key]
    st.session_state[_SEEN] = wanted
    return problem


def _how(kind: str) -> dict[str, str]:
    """The parameters that say how it is looked at; what is usual is left out."""
    state = st.session_state
    out = {}
    if state[VIEW] != "play":
        out["view"] = state[VIEW]
    if state[VIEW] == "size" and state[SIZE]:
        out["size"] = str(state[SIZE])
    if state[VIEW] == "paged" and state[RESERVE]:
        out["reserve"] = state[RESERVE]
    if kind == "own" and state[BASE]:
        out["base"] = state[BASE]
    return out


def link() -> dict[str, str]:
    """What a link to the present picture needs, but for the step."""
    return {k: st.query_params[k] for k in (*_KEYS, "level") if k in st.query_params}


def _packed_own() -> str | None:
    text = st.session_state[OWN]
    try:
        return links.pack(forms.minimal(Scenario.from_json(text)))
    except ScenarioError:
        pass
    try:  # not a scenario yet: the link still carries what was typed, if it is JSON at all
        return links.pack(json.loads(text))
    except (ValueError, RecursionError, AttributeError):
        return None
