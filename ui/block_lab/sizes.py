"""Block size 1 to 128: the same requests and as many bytes, and what becomes of them."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from core import by_hand
from core.errors import KVScopeError
from core.pool_studies import BLOCK_SIZES, with_block_size
from core.simulate import simulate
from core.trace.pool_metrics import PoolSummary, pool_summary
from ui import choice, forms, player, runs
from ui.block_lab import studies
from ui.kit import page
from ui.lesson import Lesson

MAX_TOKENS = 10_000
"""Most tokens of a scenario that is run eight times for a visitor, prompts and answers."""
MAX_SLOTS = 16_384
_WIDGET = "bp.size.widget"


@dataclass(frozen=True, slots=True)
class Measure:
    """One of the small pictures. about: what is counted. text: a value as it is written."""

    key: str
    title: str
    about: str
    of: Callable[[PoolSummary], float]
    text: Callable[[float], str]


def _whole(value: float) -> str:
    return f"{value:,.0f}"


MEASURES = (
    Measure("waste", "Empty slots", "of the slots held, all steps", lambda s: 100 * s.waste,
            lambda v: f"{v:.1f} %"),
    Measure("cached", "Tokens shared", "found in the cache", lambda s: s.cached_tokens, _whole),
    Measure("table", "Longest table", "entries to look up", lambda s: s.longest_table, _whole),
    Measure("copied", "Slots copied", "by copy-on-write", lambda s: s.copied_slots, _whole),
    Measure("steps", "Steps", "until all have ended", lambda s: s.steps, _whole),
    Measure("time", "Scheduler’s time", "median step, measured", lambda s: s.schedule_us,
            lambda v: f"× {v:.2g}"),
)  # fmt: skip


@st.cache_resource(ttl=3600, max_entries=16, show_spinner=False)
def summaries(run_id: str, _played: runs.Played) -> dict[int, PoolSummary | None]:
    """The run at each block size; None where not one block of that size fits the pool.

    Raises ActionError for what only a model can decide, ScenarioError for what is too large.
    """
    scenario = by_hand.as_script(_played.data())
    studies.check(scenario, MAX_TOKENS, MAX_SLOTS)
    out: dict[int, PoolSummary | None] = {}
    for size in BLOCK_SIZES:
        sized = with_block_size(scenario, size)
        out[size] = None if sized is None else pool_summary(simulate(sized).to_dict())
    return out


@st.cache_resource(ttl=3600, max_entries=32, show_spinner=False)
def _run_at(run_id: str, size: int, base: str, _played: runs.Played) -> runs.Played:
    sized = with_block_size(by_hand.as_script(_played.data()), size)
    assert sized is not None, "only sizes that fit can be chosen"
    return runs.simulate(forms.pretty(sized), base=base)


@st.fragment
def draw(words: Lesson, played: runs.Played, *, present: bool) -> None:
    """The control, the small pictures, and the pool at the size that is chosen."""
    try:
        found = summaries(played.packed.id, played)
    except KVScopeError as exc:
        studies.instead(
            exc,
            "block-sizes",
            "Play one made for this",
            key="sizes",
            played=played,
            present=present,
        )
        return
    own = played.header["scenario"]["engine"]["block_size"]
    fits = [size for size, summary in found.items() if summary is not None]
    size = _chosen(fits, own)
    with st.container(key="kv-sizes", horizontal=True, vertical_alignment="center"):
        st.html('<b class="kv-label">Slots a block</b>', width="content")
        _control(fits, size)
        if not present:
            page.exports([page.Export("The table, CSV", "block-sizes.csv", "text/csv",
                                      lambda: to_csv(found))])  # fmt: skip
    study = picture(found, size, own, words["size-note"])
    if not present:
        st.html(study)
    base = studies.base_of(st.session_state[choice.CHOICE], st.session_state[choice.BASE])
    at_size = _run_at(played.packed.id, size, base, played)
    choice.write_address()
    player.draw(at_size, present=present)
    if present:
        st.html(study)  # on a projector the pool comes first


def _chosen(fits: list[int], own: int) -> int:
    state = st.session_state
    wanted = state[choice.SIZE] or own
    size = max(s for s in fits if s <= max(wanted, fits[0]))
    state[choice.SIZE] = size
    return size


def _control(fits: list[int], size: int) -> None:
    state = st.session_state
    state[_WIDGET] = size

    def change() -> None:
        state[choice.SIZE] = state[_WIDGET]
        choice.go(choice.step_now())

    st.segmented_control(
        "Slots a block",
        fits,
        required=True,
        key=_WIDGET,
        on_change=change,
        label_visibility="collapsed",
        width="content",
    )


def picture(found: dict[int, PoolSummary | None], chosen: int, own: int, note: str) -> str:
    """One small picture for each measure, a bar for each size, and the same as a table; as HTML."""
    panels = [_panel(measure, found, chosen, own) for measure in MEASURES]
    head = "".join(f"<th scope=col>{html.escape(m.title)}</th>" for m in MEASURES)
    rows = []
    for size, summary in found.items():
        if summary is None:
            cells = f"<td colspan={len(MEASURES) + 2}>not one block of {size} slots fits</td>"
        else:
            cells = f"<td>{summary.num_blocks:,}</td>"
            cells += "".join(f"<td>{m.text(_value(m, summary, found, own))}</td>" for m in MEASURES)
            cells += f"<td>{summary.preemptions}</td>"
        rows.append(f"<tr><th scope=row>{size}</th>{cells}</tr>")
    table = (
        "<details class=kv-table><summary>All sizes as a table</summary><div><table><thead><tr>"
        f"<th scope=col>Slots a block</th><th scope=col>Blocks</th>{head}"
        f"<th scope=col>Preemptions</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        "</details>"
    )
    return (
        '<section class="kv-study"><header><p>' + html.escape(note) + "</p>" + studies.SIMULATED
        + f'</header><div class="kv-multiples">{"".join(panels)}</div>{table}</section>'
    )  # fmt: skip


def _value(
    measure: Measure, summary: PoolSummary, found: dict[int, PoolSummary | None], own: int
) -> float:
    """What is drawn: the time as a ratio, since only ratios of one machine and one hour compare."""
    value = measure.of(summary)
    if measure.key != "time":
        return value
    base = found.get(own) or summary
    return value / measure.of(base) if measure.of(base) else 1.0


def _panel(measure: Measure, found: dict[int, PoolSummary | None], chosen: int, own: int) -> str:
    values = {
        size: _value(measure, summary, found, own)
        for size, summary in found.items()
        if summary is not None
    }
    top = max(values.values()) or 1.0
    bars = []
    for size in found:
        if size not in values:
            bars.append(f'<span class="none"><i></i>{size}</span>')
            continue
        height = max(100 * values[size] / top, 0)
        mark = ' class="on"' if size == chosen else ""
        said = f"{size} slots a block: {measure.text(values[size])}"
        bars.append(f'<span{mark} title="{said}"><i style="--v:{height:.1f}%"></i>{size}</span>')
    said = ", ".join(f"{size}: {measure.text(value)}" for size, value in values.items())
    about = measure.about
    if measure.key == "time":
        about = f"measured; {own} slots = 1"
    return (
        f'<div class="kv-multiple"><h2>{html.escape(measure.title)}'
        f"<b>{measure.text(values[chosen])}</b></h2><p>{html.escape(about)}</p>"
        f'<div class="bars" role="img" aria-label="{html.escape(measure.title)} by block size. '
        f'{html.escape(said)}">{"".join(bars)}</div></div>'
    )


def to_csv(found: dict[int, PoolSummary | None]) -> str:
    """All sizes, a line each, for a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    fields = list(PoolSummary.__dataclass_fields__)
    writer.writerow(fields)
    for summary in found.values():
        if summary is not None:
            writer.writerow([getattr(summary, name) for name in fields])
    return out.getvalue()
