"""Below the instrument: what every format cost on a text, and one head made an outlier."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from core.errors import KVScopeError
from ui.components.kv_quantisation import kv_quality
from ui.components.lesson_chart import lesson_chart
from ui.components.series import series
from ui.kit import states, text
from ui.lesson import Lesson
from ui.quantise import bench, quality
from ui.reading.document import under_title


@st.fragment
def draw(words: Lesson, *, present: bool) -> None:
    """The table and the charts. A fragment: a row that is pressed draws the whole page, as the
    instrument is no part of it."""
    try:
        found = quality.recorded()
    except KVScopeError:
        states.empty("What it costs on a text", words["quality-none"])
        return
    shown = kv_quality(quality.data(found, words, bench.now(), present=present), key="kq.quality")
    row = shown.get("show")
    if isinstance(row, int) and 0 <= row < len(found.rows):
        to = quality.place_of(found.rows[row].kv_dtype)
        if to is not None:
            bench.go(replace(to, prompt=bench.now().prompt))
            st.rerun(scope="app")
    if not present:
        with st.container(key="kv-kq-facts"):
            text.draw(f"{quality.facts(found, words)}\n\n{words['quality-link']}")
    layers = quality.by_layer(found, words, present=present)
    if layers is not None:
        series(layers, key="kq.layers")
    if found.outlier_at is not None:
        _outlier(words, found, present=present)


def _outlier(words: Lesson, found: quality.Quality, *, present: bool) -> None:
    layer, head = found.outlier_at or (0, 0)
    if not present:
        with st.container(key="kv-kq-outlier"):
            text.draw(under_title(words["outlier"].format(layer=layer, head=head)))
    for column, (index, chart) in zip(
        st.columns(2, gap="medium"),
        enumerate(quality.charts(found, words, present=present)),
        strict=True,
    ):
        with column:
            lesson_chart(chart, key=f"kq.outlier.{index}")
