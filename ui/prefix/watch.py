"""Study "Watch": a recorded run or a generated workload, as a chain and as a tree."""

from __future__ import annotations

import html
from functools import cache

import streamlit as st

from core.errors import KVScopeError
from core.trace.prefix_metrics import Totals
from core.workloads_prefix import KINDS, Knobs
from ui import catalogue, lesson, runs
from ui.components.series import label_of, series
from ui.kit import states
from ui.lesson import Lesson
from ui.prefix import pairs, place, state

RECORDED = (
    "one_system_prompt",
    "two_answers_one_prefix",
    "documents_reordered",
    "long_prompt_cached",
)
"""Runs of a real model in which prompts share something, in the order of the list."""

BEGIN = {"one_system_prompt": 2, "two_answers_one_prefix": 2, "documents_reordered": 20}
"""The step with which a picture begins, where that is not the first one with a hit."""


@cache
def _titles() -> dict[str, tuple[str, str]]:
    """Choice → its title and what it shows, for what is generated here."""
    words, out = lesson.load("prefix_cache"), {}
    for name in (*place.FIXED, *KINDS):
        title, _, shows = words[f"work-{name}"].partition("\n")
        out[name] = (title.strip(), shows.strip())
    return out


def options() -> dict[str, str]:
    """Every choice with its title."""
    here = {one.name: one.title for one in runs.list_recorded()}
    out = {name: f"Recorded: {here[name]}" for name in RECORDED if name in here}
    return out | {name: title for name, (title, _) in _titles().items()}


def pair_of(work: str) -> pairs.Pair:
    """The pair that is to be watched. Raises KVScopeError."""
    titles = _titles()
    if work in place.FIXED:
        return pairs.fixed(titles[work][0], work, state.get("evict"))
    if work in KINDS:
        knobs = Knobs(*(state.get(name) for name in ("users", "turns", "block", "pool", "seed")))
        return pairs.workload(titles[work][0], work, knobs, state.get("evict"))
    return pairs.recorded(work)


def first_hit(pair: pairs.Pair) -> int:
    """The step of the first look that finds something; 0 if none does."""
    return next((one.step for one in pair.lookups if one.hit_blocks), 0)


def draw(words: Lesson, *, present: bool) -> None:
    listed = options()
    work = state.get("work")
    if work not in listed and runs.recorded_path(work) is None:
        st.warning("This link's workload or run is not here; this is the first one.")
        state.change(work=next(iter(listed)))
        work = state.get("work")
    if work not in listed:
        listed[work] = f"Recorded: {work}"
    if not present:
        _controls(listed)
    try:
        pair = pair_of(work)
    except KVScopeError as exc:
        states.refused(exc, words["refused"])
        return
    state.instrument(pair, present=present, begin=BEGIN.get(work, first_hit(pair)))
    if not present:
        rates(pair)


def _controls(listed: dict[str, str]) -> None:
    work = state.get("work")
    with st.container(key="kv-px-controls", horizontal=True, vertical_alignment="bottom"):
        st.selectbox(
            "What to watch",
            list(listed),
            format_func=listed.__getitem__,
            key=state.widget("work"),
            on_change=state.follow,
            args=("work",),
            width=380,
        )
        if place.turns_at(work, "users"):
            _number("Users", "users")
            _number("Turns", "turns")
            _select("Block size", "block", place.BLOCKS)
            _select("Pool, tokens", "pool", place.POOLS)
            _number("Seed", "seed")
        if place.turns_at(work, "evict"):
            _select("Eviction", "evict", place.EVICTION, str.upper)
    said = catalogue.recorded().get(work)
    if said:
        shows, look = html.escape(said["shows"]), html.escape(said["look"])
        st.html(f'<p class="kv-px-about">{shows} <span>{look}</span></p>')
    elif work in _titles():
        st.html(f'<p class="kv-px-about">{html.escape(_titles()[work][1])}</p>')


def _number(label: str, name: str) -> None:
    low, high = place.LIMITS[name]
    st.number_input(
        label,
        low,
        high,
        step=1,
        key=state.widget(name),
        on_change=state.follow,
        args=(name,),
        width=112,
    )


def _select(label: str, name: str, options: tuple, shown=str) -> None:
    st.selectbox(
        label,
        options,
        format_func=shown,
        key=state.widget(name),
        on_change=state.follow,
        args=(name,),
        width=112,
    )


def found_sentence(total: Totals) -> str:
    """What a run found and computed. Tokens found by requests that had run before stand apart:
    they are their own, and no sign that prompts begin alike."""
    said = (
        f"**{total.cached:,} of {total.looked_up:,}** tokens of prompts were found in the tree, "
        f"{100 * total.hit_rate:.0f}\u2009%; **{total.computed:,}** tokens were computed, those of "
        "the answers included."
    )
    if total.again_looked_up:
        said += (
            f" Requests taken up again after preemption found **{total.again_cached:,} of "
            f"{total.again_looked_up:,}** tokens again; these are no hits, and not in the rate."
        )
    return said


def rates(pair: pairs.Pair) -> None:
    """The share of tokens found so far, over the steps, and what it comes to."""
    total = pair.totals
    st.markdown(found_sentence(total))
    series(
        {
            "title": "Hit rate so far",
            "unit": "%",
            "x": {"label": "step", "last": pair.last},
            "lines": [
                {
                    "name": "tokens found",
                    "values": [None if v is None else round(100 * v, 2) for v in pair.rates],
                    "style": "a",
                }
            ],
            "label": label_of(pair.header),
            "small": True,
        },
        key="px.rate",
    )
