"""What stands under a study's picture: how a run went over its steps, and what chunks cost."""

from __future__ import annotations

import html
import json
from typing import Any

import streamlit as st

from core.errors import KVScopeError
from ui import runs
from ui.batching import grading, studies
from ui.components.gantt import Lane
from ui.components.series import series
from ui.lesson import Lesson

Json = dict[str, Any]
_STYLES = "abcd"


def draw(words: Lesson, study: str, shown: studies.Shown) -> None:
    if study == "landing":
        st.html(chunks_table(words["chunks"]))
        return
    data = [lane.packed.run() for lane in shown.lanes]
    if study == "pressure":
        series(blocks_chart(shown.lanes, data), key="ba.blocks")
    else:
        series(queue_chart(shown.lanes, data), key="ba.queue")


def _chart(title: str, unit: str, lanes: list[Lane], data: list[Json]) -> Json:
    return {
        "title": title,
        "unit": unit,
        "x": {"label": "step", "last": max(len(run["steps"]) for run in data) - 1},
        "label": data[0]["header"],
        "small": True,
        "lines": [],
        "marks": [],
    }


def queue_chart(lanes: list[Lane], data: list[Json]) -> Json:
    """How many wait after each step's admission, a line a run."""
    out = _chart("Waiting for a place", "requests", lanes, data)
    for style, lane in zip(_STYLES, lanes, strict=False):
        waiting = json.loads(lane.serving)["waiting"]
        out["lines"].append({"name": lane.name, "values": waiting, "style": style})
    return out


def blocks_chart(lanes: list[Lane], data: list[Json]) -> Json:
    """Blocks that nobody holds after each step, a line a run; preemptions are marked."""
    out = _chart("Free blocks", "blocks", lanes, data)
    for style, lane, run in zip(_STYLES, lanes, data, strict=False):
        usage = [step["usage"] for step in run["steps"]]
        values = [use["free"] + use["cached"] for use in usage]
        out["lines"].append({"name": lane.name, "values": values, "style": style})
        for row in json.loads(lane.serving)["rows"]:
            for step in row["preempted"]:
                out["marks"].append({"x": step, "label": f"{row['sequence']} sent away"})
    out["marks"].sort(key=lambda mark: mark["x"])
    return out


def chunks() -> list[Json]:
    """Every run of the long prompt, whole first: {name, steps (those that compute the prompt), all
    (those of the run), long_ttft_us, gap_us (the longest of the others), ratio (of it to their
    usual gap)}. Raises KVScopeError.

    The prompt begins in the step of its arrival, so its first token comes after just these steps.
    """
    names = {"Whole": studies.WHOLE}
    names |= {f"{chunk} tokens a step": name for chunk, name in studies.CHUNKED.items()}
    out = []
    for name, run in names.items():
        found = studies.figures(run)
        long = max(found["rows"], key=lambda row: row["prompt_tokens"])
        gaps = grading.spike(found)
        out.append(
            {
                "name": name,
                "steps": long["ttft_steps"],
                "all": found["summary"]["steps"],
                "gap_us": gaps.gap_us,
                "ratio": gaps.ratio,
                "long_ttft_us": long["ttft_us"],
            }
        )
    return out


def chunks_values(rows: list[Json]) -> Json:
    """What the sentence above the table may name: of the whole prompt, then of each chunk."""
    whole, *cut = rows
    return {
        "all": whole["all"],
        "steps": " or ".join(str(row["steps"]) for row in cut),
        "whole": f"{whole['ratio']:.0f}",
        "cut": " and ".join(f"{row['ratio']:.0f}" for row in cut),
    }


def chunks_table(words: str) -> str:
    """The price of chunks as HTML: the others' gaps, and the long prompt's own first token."""
    try:
        rows = chunks()
        kind, detail = runs.label(runs.recorded(studies.WHOLE).header)
    except KVScopeError:
        return ""
    first = rows[0]
    cells = []
    for row in rows:
        values = f"<td><b>{row['steps']}</b></td>" + "".join(
            f"<td><b>{row[key] / 1000:,.0f}</b> × {row[key] / first[key]:.2f}</td>"
            for key in ("gap_us", "long_ttft_us")
        )
        cells.append(f'<tr><th scope="row">{html.escape(row["name"])}</th>{values}</tr>')
    return (
        '<section class="kv-chunks"><header><h2>What chunks buy, and what they cost</h2>'
        f'<span class="kv-prov recorded"><b>{kind}</b><span>{html.escape(detail)}</span></span>'
        f"</header><p>{words.format(**chunks_values(rows))}</p><table><thead><tr>"
        "<th scope='col'>The prompt is computed</th><th scope='col'>Steps with it</th>"
        "<th scope='col'>Longest gap of the others, ms</th>"
        "<th scope='col'>These steps together: its first token, ms</th></tr></thead>"
        f"<tbody>{''.join(cells)}</tbody></table></section>"
    )
