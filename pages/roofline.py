"""Roofline: how fast a step can be, and whether memory or arithmetic says so."""

import streamlit as st

from ui import lesson
from ui.kit import code, page, store, text, transfer
from ui.roofline import bench, files, predict

CODE = {
    "The ridge": "core.sizing.roofline:ridge_point",
    "Where the matrices stand": "core.sizing.intensity:arithmetic_intensity_matrices",
    "Where decode's attention stands": "core.sizing.traffic:arithmetic_intensity_attention_decode",
    "A run's steps as points": "core.trace.roofline_metrics:steps",
}

words = lesson.load("roofline")
present = page.is_present()

if present:
    bench.draw(present=True)
    page.bar()
else:
    with st.container(key="kv-top", horizontal=True, vertical_alignment="bottom"):
        page.title(words)
        files.menu()
        page.bar()
    predict.draw(words)
    bench.draw(present=False)
    with st.container(key="kv-words"):
        left, right = st.columns(2, gap="large")
        with left:
            text.objectives(words)
            text.levelled(words, "words")
        with right:
            transfer.draw("phases/intensity", key="rl.transfer")
            transfer.to_gate("roofline")
            code.draw(words["code"], CODE)

store.keep(redraw=False)
