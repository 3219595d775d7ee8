"""Copy-on-write: the moment of one copy, in a recorded run, predicted and then looked at."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from core.errors import KVScopeError
from core.trace.pool_metrics import Copy, copies
from ui import catalogue, choice, runs
from ui.kit import predict
from ui.kit.predict import Number, Prediction, Said
from ui.lesson import Lesson

MOMENTS = {
    "run:two_answers_one_prefix": "Two answers, a real model",
    "run:beam_search": "Three beams, a real model",
    "scenario:fork": "Three answers, step by step",
}
PROOF = "run:two_answers_one_prefix"


@dataclass(frozen=True, slots=True)
class Moment:
    """The first copy of a run. shared: blocks that the writer's table shared until then."""

    chosen: str
    title: str
    first: Copy
    shared: int


@st.cache_resource(ttl=3600, max_entries=8, show_spinner=False)
def _moment(chosen: str, run_id: str, _played: runs.Played) -> Moment | None:
    data = _played.data()
    found = copies(data)
    if not found:
        return None
    # The copy is always of a table's last entry at that moment: all before it stay shared.
    return Moment(chosen, MOMENTS[chosen], found[0], found[0].index + 1)


def moment(chosen: str) -> Moment | None:
    """None where the run is not there (recordings can be taken away) or copies nothing."""
    kind, _, name = chosen.partition(":")
    try:
        played = (
            runs.recorded(name) if kind == "run" else runs.simulate(catalogue.entries()[name].text)
        )
        return _moment(chosen, played.packed.id, played)
    except KVScopeError:
        return None


def go(found: Moment) -> None:
    """Play it from the step of the copy, with the block that is copied looked at."""
    choice.choose(found.chosen)
    st.session_state[choice.VIEW] = "play"
    choice.go(found.first.step)
    st.session_state[choice.BLOCK] = found.first.src
    st.query_params["block"] = str(found.first.src)


def links() -> None:
    """A button to each moment."""
    for chosen in MOMENTS:
        found = moment(chosen)
        if found is not None:
            st.button(
                f"{found.title}: step {found.first.step}",
                icon=":material/content_copy:",
                on_click=lambda found=found: go(found),
                key=f"bp.moment.{chosen}",
            )


def ask(words: Lesson) -> None:
    """The prediction: how many blocks does a fork's first write copy?"""
    proof = moment(PROOF) or moment("scenario:fork")
    if proof is None:
        return
    values = {
        "shared": proof.shared,
        "sequence": proof.first.sequence,
        "src": proof.first.src,
        "dst": proof.first.dst,
        "before": proof.first.refs_before,
        "after": proof.first.refs_after,
        "slots": proof.first.num_slots,
        "kept": proof.shared - 1,
        "step": proof.first.step,
    }
    question = Prediction(
        words["copy-ask"].format(**values), (Number("copied", "Blocks copied", 99),), key="copy"
    )

    def reveal(said: Said) -> None:
        copied = int(said["copied"])
        about = f"You said {copied} copied."
        name = {1: "right", 0: "copy-none"}.get(copied, "copy-many")
        with st.container(width="stretch"):
            st.markdown(
                f"**{about}** {words[name].format(**values)} {words['copy-fact'].format(**values)}"
            )
        predict.ways_on(
            question,
            see="See the copy",
            on_see=lambda: go(proof),
            page=words.title,
            about=about,
        )

    predict.draw(question, reveal, name="predict-copy")
