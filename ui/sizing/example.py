"""The worked example, each step by the library: Llama 3 70B on eight H100."""

from __future__ import annotations

import html
from functools import lru_cache

import streamlit as st

from core.sizing import calls
from core.sizing.calls import Answer
from core.sizing.units import both
from ui.lesson import Lesson
from ui.sizing import bench, figures
from ui.sizing.place import WORKED
from ui.sizing.shown import legible

MODEL = "llama-3-70b"
GPUS, CONTEXT, STREAMS = 8, 4096, 64
NODE_GIB, OVERHEAD_GIB = 640, 28
"""Eight times 80 GiB, and eight times 3.5 GiB: the example's round numbers."""

_POOL = {
    "model": MODEL,
    "total_gib": NODE_GIB,
    "overhead_gib": OVERHEAD_GIB,
    "tp": GPUS,
}


@lru_cache(maxsize=1)
def steps() -> tuple[tuple[str, Answer], ...]:
    """What is worked out → the library's answer."""
    weights = calls.call("weight_bytes", {"model": MODEL, "dtype": "bf16", "count": "nominal"})
    gib = float(weights.value or 0) / 2**30
    pool = {**_POOL, "weights_gib": gib}
    return (
        ("Weights by the nominal 70 billion", weights),
        (
            "Weights by the config's exact count",
            calls.call("weight_bytes", {"model": MODEL, "dtype": "bf16"}),
        ),
        ("A token, BF16", calls.call("kv_bytes_per_token", {"model": MODEL})),
        ("A token, FP8", calls.call("kv_bytes_per_token", {"model": MODEL, "dtype": "fp8"})),
        (
            "A token if all 64 heads were kept",
            calls.call("kv_bytes_per_token", {"model": "hypothetical-70b-mha"}),
        ),
        (
            f"{STREAMS} sequences of {CONTEXT:,} tokens",
            calls.call("kv_bytes_sequence", {"model": MODEL, "tokens": STREAMS * CONTEXT}),
        ),
        (
            f"Sequences of {CONTEXT:,} tokens that fit",
            calls.call("max_streams", {**pool, "tokens": CONTEXT, "policy": "fractional"}),
        ),
        (
            "Sequences of 1,500 tokens that fit, to the token",
            calls.call("max_streams", {**pool, "tokens": 1500, "policy": "fractional"}),
        ),
        (
            "The same in blocks of 16",
            calls.call("max_streams", {**pool, "tokens": 1500, "policy": "paged"}),
        ),
        (
            f"Sequences of {CONTEXT:,} tokens that fit, FP8 cache",
            calls.call(
                "max_streams", {**pool, "tokens": CONTEXT, "policy": "fractional", "dtype": "fp8"}
            ),
        ),
    )


def values() -> dict[str, str]:
    """What the lesson's sentences name."""
    planned = figures.sized(WORKED).planned
    assert planned is not None  # its parameters are known
    return {"nominal": f"{steps()[6][1].value:,}", "planned": f"{planned.held_paged.value:,}"}


def table() -> str:
    """The steps as HTML."""
    rows = []
    for label, answer in steps():
        last = answer.result.steps[-1] if answer.result.steps else None
        shown = f"{last.formula} = {last.substituted}" if last else ""
        unit = "sequences" if answer.result.unit == "streams" else answer.result.unit
        value = f"{answer.value:,} {unit}"
        size = both(answer.value or 0) if answer.result.unit == "B" else ""
        cells = (label, value, size, legible(shown))
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    head = "".join(
        f'<th scope="col">{name}</th>'
        for name in ("step", "value", "in both units", "formula, values put in")
    )
    return (
        '<div class="kv-example" tabindex="0" role="region" aria-label="The worked example">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


@st.fragment
def draw(words: Lesson) -> None:
    """The example, folded up, with the button that sets the controls to it."""
    box = st.expander(
        "The worked example: 70B on eight H100",
        icon=":material/calculate:",
        key="ks.example",
        on_change="rerun",
    )
    if not box.open:
        return
    with box:
        st.markdown(words["example"])
        st.html(table())
        st.markdown(words["example-after"].format(**values()))
        if st.button(words["example-go"], key="ks.example.go"):
            bench.go(WORKED)
            st.rerun(scope="app")
