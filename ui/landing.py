"""The parts of the landing page."""

from __future__ import annotations

import html
from typing import Any

import streamlit as st

from core.errors import KVScopeError
from ui import catalogue, nav, runs, status
from ui.components.mini_pool import mini_pool
from ui.kit import states, store
from ui.lesson import Lesson

PREVIEW = "two-answers"
MOST = 4
"""Links of a group that are always in sight."""


def preview_data() -> dict[str, Any] | None:
    """The run of the picture and of "Watch a run". None where it cannot be had: the page stands."""
    from ui import preview

    try:
        return preview.preview_data(tuple(runs.recorded_names()))
    except KVScopeError:
        return None


def hero(words: Lesson, watch: dict[str, str]) -> None:
    """What this is, and two ways in."""
    st.html(
        f'<div class="kv-title"><h1>{html.escape(words.title)}</h1>'
        f"<p>{html.escape(words.objective)}</p></div>"
    )
    with st.container(key="kv-cta", horizontal=True):
        st.page_link(
            nav.page("block_pool"),
            label="Watch a run",
            icon=":material/play_arrow:",
            query_params=watch,
        )
        st.page_link(
            nav.page(nav.STATIONS[0].name),
            label="Start the course",
            icon=":material/arrow_forward:",
        )
    st.html(f'<p class="kv-small">{html.escape(words["under-the-buttons"])}</p>')


def preview(data: dict[str, Any] | None, *, present: bool) -> None:
    """A run playing: a recorded one if there is one small enough, else a simulated one."""
    if data is not None:
        mini_pool({**data, "present": present})


def course(words: Lesson) -> None:
    """Every page that exists, by section and in order, with how far the learner is."""
    marks = {place.name: nav.mark(place, store.progress()) for place in nav.STATIONS}
    done, begun = (list(marks.values()).count(mark) for mark in (nav.DONE, nav.BEGUN))
    said = words["course"].format(pages=len(marks))
    if done or begun:
        said = words["course-begun"].format(pages=len(marks), done=done, begun=begun)
    with st.container(key="kv-course-head", horizontal=True, vertical_alignment="center"):
        st.html(
            f'<div class="kv-map-head"><h2>The course</h2><span>{html.escape(said)}</span></div>'
        )
        if "course" in nav.PLACES:
            st.page_link(nav.page("course"))
    sections = list(dict.fromkeys(place.section for place in nav.STATIONS))
    with st.container(key="kv-pages"):
        for column, section in zip(st.columns(len(sections), gap=None), sections, strict=True):
            with column:
                st.html(f"<h3>{html.escape(section)}</h3>")
                for place in nav.STATIONS:
                    if place.section == section:
                        st.page_link(nav.page(place.name), width="stretch")


Way = tuple[str, str, dict[str, str]]
"""A link: its label, the page, the query."""


def _scenarios() -> dict[str, list[Way]]:
    """The block pool's scenarios by group."""
    out: dict[str, list[Way]] = {}
    for entry in catalogue.entries().values():
        way = (entry.title, "block_pool", {"scenario": entry.slug})
        out.setdefault(entry.group, []).append(way)
    return out


def _recorded() -> dict[str, list[Way]]:
    """The recorded runs by the page that is about them, in the order of the course."""
    known = catalogue.recorded()
    out: dict[str, list[Way]] = {place.name: [] for place in nav.COURSE}
    for run in runs.list_recorded():
        about = known.get(run.name, {})
        name = about.get("page", "block_pool")
        out[name].append((run.title, name, about.get("query", {"run": run.name})))
    return {place.title: out[place.name] for place in nav.COURSE if out[place.name]}


def _map(key: str, groups: dict[str, list[Way]]) -> None:
    """A column for each group: the first few, the rest folded."""
    with st.container(key=f"kv-map-{key}"):
        for column, (name, ways) in zip(
            st.columns(len(groups), gap=None), groups.items(), strict=True
        ):
            with column:
                st.html(f"<h3>{html.escape(name)}</h3>")
                most = MOST if len(ways) > MOST + 1 else len(ways)  # nobody opens a fold for one
                _links(ways[:most])
                if ways[most:]:
                    with st.expander(f"{len(ways) - most} more", type="compact"):
                        _links(ways[most:])


def _links(ways: list[Way]) -> None:
    for label, name, query in ways:
        st.page_link(nav.page(name), label=label, query_params=query, width="stretch")


def runs_map(words: Lesson) -> None:
    """The block pool's scenarios, then the recorded runs of each page: every line is a way in."""
    st.html(
        f'<div class="kv-map-head"><h2>Runs</h2><span>{html.escape(words["runs"])}</span></div>'
    )
    _map("scenarios", _scenarios())
    recorded = _recorded()
    said = html.escape(words["recorded"])
    st.html(f'<div class="kv-map-head"><h2>The real model, recorded</h2><span>{said}</span></div>')
    if recorded:
        _map("recorded", recorded)
    else:
        states.empty("No recorded run is here.", words["recorded-none"])


def _engine_text(words: Lesson) -> tuple[str, str, str]:
    state = status.engine_state()
    if status.engine_is_off():
        return "off", "Off.", words["engine-off"]
    if state.torch_version is None:
        return "off", "Not installed.", words["engine-no-torch"]
    text = words["engine-ready" if state.model_fetched else "engine-no-model"]
    said = text.format(model=status.MODEL_NAME, torch=state.torch_version)
    return ("ok", "Installed.", said) if state.model_fetched else ("warn", "No model yet.", said)


def cards(words: Lesson) -> None:
    """What runs here, how to run it elsewhere, and the projector."""
    kind, word, said = _engine_text(words)
    with st.container(key="kv-cards"):
        first, second, third = st.columns(3)
    first.html(
        f'<section class="kv-panel"><h3>Engine</h3><p><span class="kv-{kind}">{word}</span> '
        f"{states.with_code(said)}</p></section>"
    )
    second.html(
        '<section class="kv-panel"><h3>On your machine</h3><pre>make run</pre>'
        f"<p>{html.escape(words['on-your-machine'])}</p></section>"
    )
    third.html(
        '<section class="kv-panel"><h3>In a classroom</h3>'
        f"<p>{html.escape(words['classroom'])} "
        f'<a href="block_pool?scenario={PREVIEW}&amp;present=1" target="_self">'
        "Open the projector view</a></p></section>"
    )
