"""A recorded run in a lesson: what the pool held after one step, who waited, and the way there.

All of it is read from the run's own events, by the engine's reducer.
"""

from __future__ import annotations

import html
from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st

from core.errors import KVScopeError
from core.request import GIVEN_BACK
from core.trace.reducer import Reducer
from ui import catalogue, nav, preview, runs
from ui.kit import states
from ui.reading.document import Run

Json = dict[str, Any]
LETTERS_UP_TO = 160
"""Blocks of a pool that are drawn large enough for a letter."""
COLOURS = 10


def draw(run: Run, *, key: str) -> None:
    """The card, with a link to the page that plays the run at that step."""
    try:
        path = runs.recorded_path(run.name)
        if path is None:
            runs.recorded(run.name)  # says so
            return
        step = int(run.query.get("step", "0"))
        picture = _picture(path, path.stat().st_mtime_ns, run.name, step)
        word, detail = runs.label(runs.recorded(run.name).header)
    except (KVScopeError, ValueError, OSError) as exc:
        states.empty("This recorded run is not here.", f"{run.caption} {exc}")
        return
    with st.container(key=key):
        st.html(
            f'<figure class="kv-run"><header><span class="kv-prov {word.lower()}"><b>{word}</b>'
            f"<span>{html.escape(detail)}</span></span></header>{picture}"
            f"<figcaption>{html.escape(run.caption)}</figcaption></figure>"
        )
        name, query = target(run)
        st.page_link(
            nav.page(name),
            label=f"Play it on the page {nav.PLACES[name].title}",
            icon=":material/play_arrow:",
            query_params=query,
        )


def target(run: Run) -> tuple[str, dict[str, str]]:
    """The page that is about a run, and the query that shows it there as the lesson wants it."""
    about = catalogue.recorded().get(run.name, {})
    name = about.get("page", "block_pool")
    return name, {**about.get("query", {"run": run.name}), **run.query}


@lru_cache(maxsize=128)
def _picture(path: Path, mtime_ns: int, name: str, step: int) -> str:
    """The pool after a step, and what was in use over the whole run, as HTML. Raises RunError, and
    ValueError for a step that the run does not have."""
    played = runs.recorded(name)
    run = played.data()
    if not 0 <= step < len(run["steps"]):
        raise ValueError(f"It has steps 0 to {len(run['steps']) - 1}.")
    reducer = Reducer(run["header"])
    for record in run["steps"][: step + 1]:
        reducer.apply_step(record)
    state, record = reducer.state(), run["steps"][step]
    title = html.escape(run["header"]["scenario"].get("name") or name)
    _, happened = preview.headline(record["events"])
    said = f"Step {step} of 0 to {len(run['steps']) - 1}. {happened} {_queue(state)}"
    return (
        f"<h3>{title}</h3>{_pool(run, state)}<p>{html.escape(said)}</p>{_usage(run['steps'], step)}"
    )


def _queue(state: Json) -> str:
    running, waiting = ", ".join(state["running"]), ", ".join(state["waiting"])
    parts = [f"Running: {running}." if running else "Nobody runs."]
    if waiting:
        parts.append(f"Waiting: {waiting}.")
    return " ".join(parts)


def _pool(run: Json, state: Json) -> str:
    """Every block as a cell: whose it is, shared, cached and idle, or free."""
    blocks = run["header"]["scenario"]["engine"]["num_blocks"]
    order = {one["id"]: i for i, one in enumerate(run["header"]["scenario"]["requests"])}
    owners: dict[int, list[str]] = {}
    for sequence, table in state["block_tables"].items():
        for block in table:
            if block != GIVEN_BACK:
                owners.setdefault(block, []).append(sequence)
    cached = {int(block) for block in state["cached"]}
    large = blocks <= LETTERS_UP_TO
    cells = []
    for block in range(blocks):
        held = owners.get(block)
        if held:
            request = held[0].partition("#")[0]
            i = order.get(request, 0) % COLOURS
            letter = html.escape(request[:1]) if large else ""
            shared = ' class="shared"' if len(held) > 1 else ""
            style = f"--c:var(--r{i});--o:var(--o{i});--h:var(--h{i})"
            cells.append(f'<i{shared} style="{style}">{letter}</i>')
        else:
            cells.append('<i class="idle"></i>' if block in cached else '<i class="free"></i>')
    label = html.escape(_pool_words(blocks, owners, cached, order))
    size = "" if large else " small"
    return f'<div class="pool{size}" role="img" aria-label="{label}">{"".join(cells)}</div>'


def _pool_words(
    blocks: int, owners: dict[int, list[str]], cached: set[int], order: dict[str, int]
) -> str:
    """What the picture shows, for who does not see it."""
    held = {name: sum(held[0].partition("#")[0] == name for held in owners.values())
            for name in order}  # fmt: skip
    parts = [f"{name} {number}" for name, number in held.items() if number]
    shared = sum(len(held) > 1 for held in owners.values())
    idle = len(cached - owners.keys())
    parts += [f"{shared} of them shared"] if shared else []
    parts += [f"{idle} cached and idle"] if idle else []
    parts.append(f"{blocks - len(owners) - idle} free")
    return f"A pool of {blocks} blocks: {', '.join(parts)}."


def _usage(steps: list[Json], step: int) -> str:
    """Blocks in use after each step as bars, the present step marked."""
    used = [record["usage"]["in_use"] for record in steps]
    top = max(*used, 1)
    bars = "".join(
        f'<b class="now" style="--n:{n / top:.3f}"></b>' if k == step
        else f'<b style="--n:{n / top:.3f}"></b>'
        for k, n in enumerate(used)
    )  # fmt: skip
    said = f"Blocks in use after each step: at most {max(used)}, {used[step]} after step {step}."
    return f'<div class="usage" aria-hidden="true">{bars}</div><small>{said}</small>'
