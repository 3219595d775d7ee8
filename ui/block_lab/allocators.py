"""Paged against contiguous: the same requests under both, step by step side by side."""

from __future__ import annotations

import csv
import html
import io
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core import by_hand
from core.errors import KVScopeError
from core.pool_studies import both_allocators
from core.trace.pool_metrics import Life, PoolSeries, PoolSummary, lives, pool_series, pool_summary
from ui import choice, forms, player, runs
from ui.block_lab import studies
from ui.components.series import label_of, series
from ui.kit import page
from ui.lesson import Lesson

MAX_TOKENS = 30_000
MAX_SLOTS = 65_536
RESERVES = {"request": "What it may reach", "max_model_len": "The longest there is"}
_WIDGET = "bp.reserve.widget"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs, and what was counted in it."""

    name: str
    played: runs.Played
    series: PoolSeries
    summary: PoolSummary
    lives: dict[str, Life]

    @property
    def waited(self) -> int:
        """Steps that requests stood in the queue, all together."""
        return sum(life.waited for life in self.lives.values())


@st.cache_resource(ttl=3600, max_entries=16, show_spinner=False)
def sides(run_id: str, reserve: str, base: str, _played: runs.Played) -> tuple[Side, Side]:
    """(paged, contiguous). Raises ActionError or ScenarioError where there cannot be both."""
    scenario = by_hand.as_script(_played.data())
    studies.check(scenario, MAX_TOKENS, MAX_SLOTS)
    found = []
    pair = both_allocators(scenario, "request" if reserve == "request" else "max_model_len")
    for name, one in zip(("Paged", "Contiguous"), pair, strict=True):
        played = runs.simulate(forms.pretty(one), base=base)
        run = played.data()
        found.append(Side(name, played, pool_series(run), pool_summary(run), lives(run)))
    return found[0], found[1]


@st.fragment
def draw(words: Lesson, played: runs.Played, *, present: bool) -> None:
    """What a reservation is for, the figures, the two runs in step, and memory over time."""
    state = st.session_state
    base = studies.base_of(state[choice.CHOICE], state[choice.BASE])
    reserve = _reserve(played)
    try:
        paged, contiguous = sides(played.packed.id, reserve, base, played)
    except KVScopeError as exc:
        studies.instead(
            exc,
            "contiguous",
            "Play one that both can serve",
            key="paged",
            played=played,
            present=present,
        )
        return
    with st.container(key="kv-reserve", horizontal=True, vertical_alignment="center"):
        st.html('<b class="kv-label">A reservation is for</b>', width="content")
        _control(reserve)
        if not present:
            page.exports([page.Export("The waiting, CSV", "allocators.csv", "text/csv",
                                      lambda: to_csv(paged, contiguous))])  # fmt: skip
        st.html(f'<p class="kv-about">{html.escape(slower(paged, contiguous))}</p>')
    choice.write_address()
    player.draw(paged.played, compare=contiguous.played, present=present)
    st.html(figures(paged, contiguous, words["paged-note"]))
    columns = st.columns(3)
    for column, chart in zip(columns, charts(paged, contiguous, present=present), strict=True):
        with column:
            series(chart, key=f"bp.series.{chart['title']}")


def _reserve(played: runs.Played) -> str:
    """What is chosen; else the scenario's own way, if it reserves."""
    engine = played.header["scenario"]["engine"]
    own = engine["reserve"] if engine["allocator"] == "contiguous" else "request"
    chosen: str = st.session_state[choice.RESERVE] or own
    return chosen


def _control(reserve: str) -> None:
    state = st.session_state
    state[_WIDGET] = reserve

    def change() -> None:
        state[choice.RESERVE] = state[_WIDGET]
        choice.go(choice.step_now())

    st.segmented_control(
        "A reservation is for",
        list(RESERVES),
        format_func=RESERVES.__getitem__,
        required=True,
        key=_WIDGET,
        on_change=change,
        label_visibility="collapsed",
        width="content",
    )


def figures(paged: Side, contiguous: Side, note: str) -> str:
    """The two runs in figures and who waits how long, as HTML."""
    rows = [
        ("Steps", "until all have ended", lambda s: f"{s.summary.steps:,}"),
        ("Most of the pool written", "", lambda s: f"{100 * max(s.series.utilisation):.0f} %"),
        ("Held and not written", "of held slots, all steps",
         lambda s: f"{100 * s.summary.waste:.1f} %"),
        ("Free, and no use to who waits", "blocks, most at once",
         lambda s: f"{max(s.series.unfit):,}"),
        ("Steps of waiting", "all requests together", lambda s: f"{s.waited:,}"),
        ("Preemptions", "", lambda s: f"{s.summary.preemptions:,}"),
    ]  # fmt: skip
    both = (paged, contiguous)
    body = "".join(
        f"<tr><th scope=row>{html.escape(title)}<small>{html.escape(about)}</small></th>"
        + "".join(f"<td>{value(side)}</td>" for side in both)
        + "</tr>"
        for title, about, value in rows
    )
    waits = "".join(
        f"<tr><th scope=row>{html.escape(name)}</th>"
        + "".join(_life(side.lives.get(name)) for side in both)
        + "</tr>"
        for name in paged.lives
    )
    heads = "".join(f"<th scope=col>{side.name}</th>" for side in both)
    return (
        '<section class="kv-study"><header><p>' + html.escape(note) + "</p>" + studies.SIMULATED
        + f'</header><div class="kv-pair"><table><thead><tr><td></td>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
        f"<div><details class=kv-table{' open' if len(paged.lives) <= 8 else ''}>"
        "<summary>Each request's waiting, in steps</summary><div>"
        f"<table><thead><tr><th scope=col>Request</th>{heads}</tr></thead>"
        f"<tbody>{waits}</tbody></table></div></details></div></div></section>"
    )  # fmt: skip


def _life(life: Life | None) -> str:
    if life is None:
        return "<td>rejected</td>"
    token = "no token" if life.first_token is None else f"first token in step {life.first_token}"
    return f"<td>{life.waited}<small>{token}</small></td>"


def slower(paged: Side, contiguous: Side) -> str:
    """Who waits longer, in a sentence."""
    more = {
        name: contiguous.lives[name].waited - life.waited
        for name, life in paged.lives.items()
        if name in contiguous.lives
    }
    longer = [name for name, steps in more.items() if steps > 0]
    shorter = [name for name, steps in more.items() if steps < 0]
    said = []
    for names, where in ((longer, "contiguous memory"), (shorter, "pages")):
        if names:
            many = "all" if len(names) == len(more) > 1 else ", ".join(names[:8])
            many += f" and {len(names) - 8} more" if len(names) > 8 and many != "all" else ""
            verb = "waits" if len(names) == 1 else "wait"
            said.append(f"{many} {verb} longer with {where}")
    rejected = [name for name in paged.lives if name not in contiguous.lives]
    if rejected:
        said.append(f"{', '.join(rejected[:8])} cannot be served by a reservation at all")
    if not said:
        return "Nobody waits longer under either: this pool is large enough for both."
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}."


def charts(paged: Side, contiguous: Side, *, present: bool) -> list[dict[str, Any]]:
    """Memory over time as `series` draws it: use, internal and external fragmentation."""
    last = max(paged.summary.steps, contiguous.summary.steps) - 1

    def lines(of: Any) -> list[dict[str, Any]]:
        return [
            {
                "name": side.name,
                "style": style,
                "values": [*of(side.series), *[None] * (last + 1 - side.summary.steps)],
            }
            for side, style in ((paged, "a"), (contiguous, "b"))
        ]

    pictures = [
        ("Written, of the pool", "%", lambda s: [round(100 * v, 1) for v in s.utilisation]),
        ("Held and not written", "slots", lambda s: s.wasted),
        ("Free, and no use to who waits", "blocks", lambda s: s.unfit),
    ]
    label = label_of(paged.played.header)
    return [
        {
            "title": title,
            "unit": unit,
            "x": {"label": "step", "last": last},
            "lines": lines(of),
            "label": label,
            "small": True,
            "present": present,
        }
        for title, unit, of in pictures
    ]


def to_csv(paged: Side, contiguous: Side) -> str:
    """Each request under both allocators, for a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["request", "allocator", "arrived", "waited", "first_token", "ended"])
    for side in (paged, contiguous):
        for name, life in side.lives.items():
            writer.writerow(
                [_cell(name), side.name, life.arrived, life.waited, life.first_token, life.ended]
            )
    return out.getvalue()


def _cell(text: str) -> str:
    """A name that a spreadsheet must not take for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
