"""Where an instrument's controls stand: taken from the address, moved by the instrument, and never
put where nothing can be computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import streamlit as st

from core.errors import KVScopeError
from ui.kit.address import Address

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Controls(Generic[P]):
    """component: the key of the instrument, whose state `choice` is {seq, place: {name: text}}.
    address: what the page writes and reads, and the prefix of what is kept in the session. read,
    taken: of the page's `place` module. compute: raises KVScopeError where a place cannot be."""

    component: str
    address: Address
    default: P
    read: Callable[[Mapping[str, str]], tuple[P, str | None]]
    taken: Callable[[P, object], P]
    compute: Callable[[P], object]

    @property
    def place(self) -> str:
        """The session's key of the place."""
        return f"{self.address.key}.place"

    @property
    def notice(self) -> str:
        """The session's key of what is to be said of the link, if anything."""
        return f"{self.address.key}.notice"

    def now(self) -> P:
        """Where the controls stand."""
        found: P = st.session_state.get(self.place, self.default)
        return found

    def go(self, to: P) -> None:
        """Put the controls there."""
        st.session_state[self.place] = to
        self._refuse("")

    def start(self) -> None:
        """Take over what the address asks for, if someone has just arrived by it, and say what it
        asks in vain."""
        state, asked = st.session_state, self.address.arrived()
        if asked is not None:
            wanted, state[self.notice] = self.read(asked)
            self.go(wanted)
        try:
            self.compute(self.now())
        except KVScopeError as exc:  # a link's model on a link's GPUs
            self.go(self.default)
            self._refuse(f"This cannot be: {exc}. Shown instead: the page's first example.")
        if state[self.notice]:
            st.warning(state[self.notice], icon=":material/link_off:")

    def take(self) -> None:
        """What a control said. Where it cannot be computed the picture stays, and one line says
        why."""
        state = st.session_state
        sent = state[self.component].choice
        if not isinstance(sent, dict) or not isinstance(sent.get("seq"), int):
            return
        state[f"{self.address.key}.seq"] = sent["seq"]
        wanted = self.taken(self.now(), sent.get("place"))
        try:
            self.compute(wanted)
        except KVScopeError as exc:
            self._refuse(f"This cannot be: {exc}.")
        else:
            self.go(wanted)
            state[self.notice] = None

    def data(self, *, present: bool) -> dict[str, Any]:
        """What every instrument gets beside its figures: {refused, seq, present}."""
        state, key = st.session_state, self.address.key
        return {
            "refused": state.get(f"{key}.refused", ""),
            "seq": state.get(f"{key}.seq", 0),
            "present": present,
        }

    def _refuse(self, sentence: str) -> None:
        st.session_state[f"{self.address.key}.refused"] = sentence
