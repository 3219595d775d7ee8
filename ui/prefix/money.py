"""Study "Time and money": first-token times with and without, and the formula beside them."""

from __future__ import annotations

import html
import json
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import streamlit as st

from core.errors import KVScopeError
from core.sizing.prefix import reusable_tokens
from core.trace.prefix_cost import SchedulingCost, scheduling_cost
from core.trace.prefix_metrics import computed_tokens, hit_rate
from ui import runs
from ui.components.series import label_of, series
from ui.kit import page, states
from ui.lesson import Lesson
from ui.prefix import pairs
from ui.prefix.economics import Saving, saving

WITH, WITHOUT = "long_prompt_cached", "long_prompt_uncached"
UNIQUE_WITH = {"Radix tree": "unique_cached", "Hash chain": "unique_hashed"}
UNIQUE_WITHOUT = "unique_uncached"
RUNS = (WITH, WITHOUT, *UNIQUE_WITH.values(), UNIQUE_WITHOUT)
Costs = dict[str, SchedulingCost]


def _stamp(names: tuple[str, ...]) -> tuple[int, ...]:
    found = [runs.recorded_path(name) for name in names]
    return tuple(path.stat().st_mtime_ns if path else 0 for path in found)


@lru_cache(maxsize=2)
def _figures(stamp: tuple[int, ...]) -> tuple[Saving, Costs, dict[str, Any]]:
    on, off = pairs.recorded_data(WITH), pairs.recorded_data(WITHOUT)
    shared = {"x": {"label": "step", "last": len(on["steps"]) - 1}, "label": label_of(on["header"])}
    charts = {
        "rate": {
            **shared,
            "title": "Hit rate so far",
            "unit": "%",
            "lines": [
                {
                    "name": "with the cache",
                    "values": [None if v is None else round(100 * v, 2) for v in hit_rate(on)],
                    "style": "a",
                }
            ],
        },
        "computed": {
            **shared,
            "title": "Tokens computed in each step",
            "unit": "tokens",
            "lines": [
                {"name": "without", "values": computed_tokens(off), "style": "b"},
                {"name": "with the cache", "values": computed_tokens(on), "style": "a"},
            ],
        },
    }
    bare = pairs.recorded_data(UNIQUE_WITHOUT)
    costs = {
        name: cost
        for name, run in UNIQUE_WITH.items()
        if (cost := scheduling_cost(pairs.recorded_data(run), bare)) is not None
    }
    return saving(on, off), costs, charts


def figures() -> tuple[Saving, Costs, dict[str, Any]]:
    """All figures of the study, from the recorded runs. Raises KVScopeError."""
    return _figures(_stamp(RUNS))


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}\u2009%"


def draw(words: Lesson, *, present: bool) -> None:
    try:
        found, costs, charts = figures()
        label, about = runs.label(runs.recorded(WITH).header)
    except KVScopeError as exc:
        states.refused(exc, words["refused"])
        return
    st.html(f'<h2 class="kv-px-h2">{html.escape(words["time-title"])}</h2>')
    if not present:
        st.markdown(words["time-help"])
    st.html(bars(found, f"{label}: {about}"))
    with st.container(horizontal=True, vertical_alignment="center"):
        page.bar()
        if not present:
            page.exports(files(found))
    if present:
        return
    left, right = st.columns(2, gap="medium")
    with left:
        series(charts["rate"], key="px.money.rate")
    with right:
        series(charts["computed"], key="px.money.computed")
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.html(formula(found, label))
        st.markdown(explained(words, found))
    with right:
        if costs.keys() == UNIQUE_WITH.keys():
            st.markdown(words["cost"])
            st.html(cost_table(costs, label))
            st.markdown(cost_explained(words, costs))
        else:
            st.markdown(words["cost-none"])


def files(found: Saving) -> list[page.Export]:
    """The figures to take away."""
    head = "chat,prompt_tokens,tokens_found,first_token_ms_with,first_token_ms_without\n"
    rows = "".join(
        f"{r.id},{r.prompt},{r.found},{r.with_ms:.3f},{r.without_ms:.3f}\n" for r in found.requests
    )
    return [
        page.Export(
            "First-token times, CSV", "prefix-first-token.csv", "text/csv", lambda: head + rows
        ),
        page.Export(
            "All figures, JSON",
            "prefix-figures.json",
            "application/json",
            lambda: json.dumps(asdict(found), indent=1),
        ),
    ]


def bars(found: Saving, label: str) -> str:
    """First-token times of each request, side by side."""
    most = max(max(r.with_ms, r.without_ms) for r in found.requests)
    rows = []
    for r in found.requests:
        rows.append(
            f"<tr class='pair'><th scope='row' rowspan='2'>{html.escape(r.id)}</th>"
            f"<td class='n' rowspan='2'>{r.found:,} of {r.prompt:,}</td>"
            f"{_bar('without', r.without_ms, most)}</tr><tr>{_bar('with', r.with_ms, most)}</tr>"
        )
    return (
        "<div class='kv-px-table' tabindex='0' role='region' aria-label='First-token times'><table>"
        f"<caption>Time to first token, ms · {html.escape(label)}</caption><thead><tr>"
        "<th scope='col'>Chat</th><th scope='col' class='n'>Tokens found</th>"
        "<th scope='col'>Cache</th><th scope='col' class='wide'>Time to first token</th>"
        "<th scope='col' class='n'>ms</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _bar(name: str, ms: float, most: float) -> str:
    wide = 100 * ms / most
    return (
        f"<td>{name}</td><td class='wide'><span class='kv-px-bar {name}'>"
        f"<i style='width:{wide:.1f}%'></i></span></td><td class='n'>{ms:,.0f}</td>"
    )


def formula(found: Saving, label: str) -> str:
    """The formula's shares beside the measured ones."""
    reused = {
        reusable_tokens(found.S, r.prompt - found.S, found.block_size) for r in found.requests
    }
    said = " or ".join(f"{tokens:,}" for tokens in sorted(reused))
    rows = (
        (
            "Requests that find the prefix",
            "h = (n − 1) / n",
            found.h,
            found.measured_h,
        ),
        (
            "Prompt tokens not computed",
            "h · S′ / (S + U)",
            found.formula_tokens,
            found.measured_tokens,
        ),
        ("Prefill FLOP not done", "h · (F − F′) / F", found.formula_flops, None),
        ("First-token time saved, all chats", "", None, found.measured_time),
        ("… of the chats that hit", "1 · (F − F′) / F, as FLOP", found.hit_flops, found.hit_time),
    )
    body = "".join(
        f"<tr><th scope='row'>{name}</th><td>{how}</td><td class='n'>{percent(said)}</td>"
        f"<td class='n'>{percent(measured)}</td></tr>"
        for name, how, said, measured in rows
    )
    given = (
        f"n {len(found.requests)} prompts, S {found.S} shared tokens, U {found.U:.1f} of their "
        f"own, bs {found.block_size}: read off the prompts<br>"
        f"S′ = ⌊min(S, S + U − 1) / bs⌋ · bs = {said}"
    )
    return (
        "<div class='kv-px-table' tabindex='0' role='region' aria-label='Formula and measurement'>"
        f"<table><caption>{given}</caption><thead><tr><th scope='col'>Share</th>"
        "<th scope='col'>Formula</th><th scope='col' class='n'>MODELLED</th>"
        f"<th scope='col' class='n'>{html.escape(label)}</th></tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def explained(words: Lesson, found: Saving) -> str:
    """Why the time saved is not the FLOP saved, from the runs' own parts."""
    parts = "; ".join(
        f"{name} {off:,.0f} → {on:,.0f} ms" for name, (on, off) in found.parts.items()
    )
    return words["time-explained"].format(
        parts=parts,
        decode=f"{found.decode_ms:,.0f}",
        flops=percent(found.hit_flops),
        time=percent(found.hit_time),
    )


def cost_table(costs: Costs, label: str) -> str:
    """Scheduling and bookkeeping where nothing ever hits, with each cache over without."""
    one = next(iter(costs.values()))
    heads = (f"{one.busy.count} at work", f"{one.quiet.count} others", f"all {one.all.count}")
    head = "".join(f"<th scope='col' class='n'>{text}</th>" for text in heads)
    body = "".join(
        f"<tr><th scope='row'>{html.escape(name)}</th>"
        + "".join(
            f"<td class='n'>{part.ratio:.2f}\u2009×</td>"
            for part in (cost.busy, cost.quiet, cost.all)
        )
        + "</tr>"
        for name, cost in costs.items()
    )
    return (
        "<div class='kv-px-table' tabindex='0' role='region' aria-label='Cost of the caches'>"
        f"<table><caption>Time of steps, with the cache over without · {html.escape(label)}"
        f"</caption><thead><tr><th scope='col'>Cache</th>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def cost_explained(words: Lesson, costs: Costs) -> str:
    """What the table says, with the microseconds that each cache adds to a step at work."""
    one = next(iter(costs.values()))
    return words["cost-explained"].format(
        busy=one.busy.count,
        more=" and ".join(
            f"{_signed(cost.busy.more_us)}\u2009µs ({name.lower()})" for name, cost in costs.items()
        ),
    )


def _signed(us: float) -> str:
    return f"{us:+,.0f}".replace("-", "−")
