"""The ledger's instrument on its page: votes come in here, and what may be seen goes out."""

from __future__ import annotations

import streamlit as st

from ui.claims import ledger, place, votes
from ui.components.ledger import answers, list_claims
from ui.kit import store
from ui.kit.address import Address

PLACE, NOTICE, BALLOT, OPEN = "claims.place", "claims.notice", "claims.ballot", "claims.open"
_LIST, _WISH = "claims.list", "claims.wish"
ADDRESS = Address("claims", place.NAMES)


def ballot() -> votes.Ballot:
    """What this visitor has voted so far."""
    found: votes.Ballot = st.session_state.get(BALLOT, votes.EMPTY)
    return found


def start() -> None:
    """Take over what the address asks for, if someone has just arrived by it."""
    state = st.session_state
    asked = ADDRESS.arrived()
    if asked is None:
        return
    found, state[NOTICE] = place.read(asked)
    state[BALLOT] = votes.Ballot(ballot().cast, all="show" in found)
    state[OPEN] = found.get("claim")
    state[PLACE] = found


def wish(id: str) -> None:
    """Have the list open a claim, as a click on its row does."""
    count = st.session_state.get(_WISH, {"n": 0})["n"]
    st.session_state[_WISH] = {"id": id, "n": count + 1}


def _ask() -> None:
    """A claim was opened, perhaps with a vote. A made-up one changes nothing."""
    sent = st.session_state[_LIST].ask
    if not isinstance(sent, dict) or not isinstance(sent.get("id"), str):
        return
    if sent["id"] not in ledger.known():
        return
    st.session_state[OPEN] = sent["id"]
    before = ballot()
    st.session_state[BALLOT] = after = before.vote(sent["id"], sent.get("vote"))
    if after is not before:
        store.begin()


def _show_all() -> None:
    wish = st.session_state[_LIST].all
    if isinstance(wish, bool):
        st.session_state[BALLOT] = votes.Ballot(ballot().cast, all=wish)


@st.fragment
def draw(*, present: bool) -> None:
    """A fragment: an opened claim, a vote and a filter draw nothing else of the page again."""
    store.follow()
    state = st.session_state
    shown = list_claims(
        {**ledger.rows(), "place": state[PLACE], "present": present},
        key=_LIST,
        on_ask=_ask,
        on_all=_show_all,
    )
    wished = state.get(_WISH, {"id": None, "n": 0})
    answers({**votes.shown(ballot(), state[OPEN]), "wish": wished}, key="claims.answers")
    _write_address(shown.get("place"))


def _write_address(said: object) -> None:
    wanted = place.written(said if said is not None else st.session_state[PLACE])
    if ballot().all:
        wanted["show"] = "all"
    else:
        wanted.pop("verdict", None)
    ADDRESS.write(wanted)
