"""The parts of the landing page."""

from __future__ import annotations

import html
from typing import Any

import streamlit as st

from core.errors import KVScopeError
from ui import catalogue, lesson, nav, runs, status
from ui.components.mini_pool import mini_pool
from ui.lesson import Lesson

PREVIEW = "two-answers"


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
            nav.block_pool(),
            label="Watch a run",
            icon=":material/play_arrow:",
            query_params=watch,
        )
        st.page_link(
            nav.prefill_decode(),
            label="Start the course",
            icon=":material/arrow_forward:",
        )
    st.html(f'<p class="kv-small">{html.escape(words["under-the-buttons"])}</p>')


def preview(data: dict[str, Any] | None, *, present: bool) -> None:
    """A run playing: a recorded one if there is one small enough, else a simulated one."""
    if data is not None:
        mini_pool({**data, "present": present})


def course(words: Lesson) -> None:
    """Every page that exists, in order, with what it is for."""
    pages = {
        "prefill_decode": nav.prefill_decode(),
        "kv_sizing": nav.kv_sizing(),
        "block_pool": nav.block_pool(),
        "quiz": nav.quiz(),
    }
    st.html(
        f'<div class="kv-map-head"><h2>The course</h2><span>{html.escape(words["course"])}</span>'
        "</div>"
    )
    with st.container(key="kv-pages"):
        columns = st.columns(len(pages), gap=None)
        for column, (name, page) in zip(columns, pages.items(), strict=True):
            with column:
                st.page_link(page, width="stretch")
                st.html(f"<p>{html.escape(lesson.load(name).objective)}</p>")


def runs_map(words: Lesson) -> None:
    """The block pool's scenarios and the recorded runs, each a way into that page."""
    st.html(
        f'<div class="kv-map-head"><h2>Runs</h2><span>{html.escape(words["runs"])}</span></div>'
    )
    groups: dict[str, list[tuple[str, dict[str, str]]]] = {}
    for entry in catalogue.entries().values():
        groups.setdefault(entry.group, []).append((entry.title, {"scenario": entry.slug}))
    recorded = runs.list_recorded()
    if recorded:
        groups["The real model, recorded"] = [(r.title, {"run": r.name}) for r in recorded]
    with st.container(key="kv-map"):
        for column, (name, items) in zip(
            st.columns(len(groups), gap=None), groups.items(), strict=True
        ):
            with column:
                st.html(f"<h3>{html.escape(name)}</h3>")
                for title, params in items:
                    st.page_link(
                        nav.block_pool(), label=title, query_params=params, width="stretch"
                    )


def _engine_text(words: Lesson) -> tuple[str, str, str]:
    state = status.engine_state()
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
        f"{_code(said)}</p></section>"
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


def _code(text: str) -> str:
    """Escape, and set `code` in monospace."""
    parts = html.escape(text).split("`")
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))
