"""Where the reader stands on the page: kept in the session, mirrored in the address."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui.components.prefix_view import prefix_view
from ui.kit import page
from ui.kit.address import Address
from ui.prefix import place
from ui.prefix.pairs import Pair

PLACE, NOTICE = "px.place", "px.notice"
_SEEN, _AT = "px.seen", "px.at"
ADDRESS = Address("px", place.NAMES)


def start() -> None:
    """Take over what the address asks for, if someone has just arrived by it."""
    state = st.session_state
    asked = ADDRESS.arrived()
    if asked is not None:
        state[PLACE], state[NOTICE] = place.read(asked)
        state[_AT] = None


def get(name: str) -> Any:
    """One value of the place."""
    return st.session_state[PLACE][name]


def change(**values: Any) -> None:
    """Go somewhere else; the instrument begins anew there."""
    rest = {name: place.DEFAULTS[name] for name in place.REST}
    st.session_state[PLACE] = {**st.session_state[PLACE], **rest, **values}
    st.session_state[NOTICE] = st.session_state[_AT] = None


def widget(name: str) -> str:
    """The key of the widget that shows one value of the place, set to it; to be given with
    `follow` as its `on_change`."""
    key = f"px.w.{name}"
    st.session_state[key] = get(name)
    return key


def follow(name: str) -> None:
    """A widget was moved: the place goes with it."""
    value = st.session_state.get(f"px.w.{name}")
    if value is not None and value != get(name):
        change(**{name: value})


def write() -> dict[str, str]:
    """Put the place into the address; what was put there."""
    wanted = place.written(st.session_state[PLACE])
    ADDRESS.write(wanted)
    return wanted


def instrument(pair: Pair, *, present: bool, begin: int = 0) -> None:
    """Chain and tree of a pair, standing where the place says; begin: where it says nothing."""
    state = st.session_state
    here = state[PLACE]
    link = {k: v for k, v in place.written(here).items() if k not in place.REST}
    kept = ("level", "present")
    link |= {k: st.query_params[k] for k in kept if k in st.query_params}
    # Where it began, and not where the reader is by now: else each rest would send both runs again.
    if (state.get(_AT) or ("",))[0] != pair.id:
        step = here["step"] or min(begin, pair.last)
        state[_AT] = (pair.id, step, here["pick"], here["follow"])
    _, step, pick, follow = state[_AT]
    shown = prefix_view(
        pair.chain,
        pair.radix,
        pair.looks,
        key="px.view",
        run_id=pair.id,
        title=pair.title,
        step=step,
        pick=pick,
        follow=follow,
        link="&".join(f"{k}={v}" for k, v in link.items()),
        present=present,
    )
    page.follow_present(shown.present, present)
    rested = shown.get("place")
    # The component keeps its last report when the picture changes: only a new one counts.
    if rested is not None and (pair.id, rested) != state.get(_SEEN) and _of(pair, rested):
        state[_SEEN] = (pair.id, rested)
        state[PLACE] = {**here, **place.rest(rested)}


def _of(pair: Pair, rested: Any) -> bool:
    """The report is about this pair, not about the one before."""
    return isinstance(rested, dict) and rested.get("id") == pair.id
