"""Test it on the engine: the plan made small, run by the real scheduler, N + 1 requests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlencode

import streamlit as st

from core import fill
from core.fill import Fill
from ui import links, nav, player, runs
from ui.kit import states
from ui.lesson import Lesson
from ui.planner import bench, figures
from ui.planner.place import Place
from ui.runs import Played

KEY = "cp.trial"


@dataclass(frozen=True)
class Tried:
    """What the engine did. admitted: the most sequences that ran at once; step: the first in which
    they all did, and the last request waited; reason: why, as the engine says it."""

    fill: Fill
    played: Played
    admitted: int
    step: int
    reason: str


@lru_cache(maxsize=64)
def tried(place: Place) -> Tried | None:
    """The trial of a place; None if its plan holds not one sequence."""
    made = fill.small(figures.planned(place).plan)
    if made is None:
        return None
    played = runs.simulate(json.dumps(made.scenario))
    run = played.data()
    last = made.scenario["requests"][-1]["id"]
    most = max(len(step["scheduled"]) for step in run["steps"])
    for step in run["steps"]:
        why = [
            event["reason"]
            for event in step["events"]
            if event["type"] == "waiting" and event["request"] == last
        ]
        if why and len(step["scheduled"]) == most:
            return Tried(made, played, most, step["step"], why[0])
    return Tried(made, played, most, 0, "")


def sentences(words: Lesson, done: Tried, plan_streams: int, binding: str) -> tuple[str, str]:
    """What was predicted for the small pool, and what the engine did."""
    pool, each, shared = done.fill.blocks
    bounds = done.fill.bounds
    predicted = words["trial-predicted"].format(
        streams=f"{plan_streams:,}",
        binding=binding,
        n=done.fill.predicted,
        pool=pool,
        each=each,
        shared=shared,
        block=fill.BLOCK,
        blocks=bounds["blocks"],
        seqs=bounds["max_num_seqs"],
        tokens=bounds["max_num_batched_tokens"],
    )
    right = done.admitted == done.fill.predicted and done.reason == done.fill.reason
    said = words["trial-right" if right else "trial-wrong"].format(
        n=done.admitted,
        next=_ordinal(done.admitted + 1),
        step=done.step,
        reason=done.reason,
        last=done.fill.scenario["requests"][-1]["id"],
    )
    return predicted, said


def _ordinal(n: int) -> str:
    """2nd, 3rd, 4th: of small numbers."""
    return f"{n}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(n, 'th') }"


@st.fragment
def draw(words: Lesson, *, present: bool) -> None:
    """The trial of the place as it stands, folded up: it runs when it is opened."""
    box = st.expander(
        "Test it on the engine: N fit, N + 1 waits",
        icon=":material/science:",
        key=KEY,
        on_change="rerun",
    )
    if not box.open:
        return
    with box:
        here = bench.now()
        done = tried(figures.alone(here))
        if done is None:
            states.empty("Nothing to run", words["trial-none"])
            return
        plan = figures.planned(here).plan
        predicted, said = sentences(words, done, plan.batch, plan.binding)
        st.markdown(predicted)
        st.markdown(said)
        packed = links.pack(done.fill.scenario)
        query = urlencode({"own": packed or "", "step": done.step})
        left, right = st.columns([1, 3], vertical_alignment="center")
        with left:
            st.button("Run the plan as it stands", icon=":material/refresh:", key=f"{KEY}.again")
        with right:
            st.page_link(
                nav.page("block_pool"),
                label="Open it on the block pool page",
                icon=":material/grid_view:",
                query_params={"own": packed or "", "step": str(done.step)},
            )
        player.show(
            done.played,
            key=f"{KEY}.player",
            step=done.step,
            block=None,
            link=f"block_pool?{query}",
            present=present,
        )
