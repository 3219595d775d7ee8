"""Prefill and decode: one step after another, with its tokens, bytes, FLOPs and milliseconds."""

import streamlit as st

from ui import lesson
from ui.kit import code, page, store, text, transfer
from ui.prefill import bench, heads, predict

CODE = {
    "One step": "core.engine:Engine._step",
    "How many tokens each request gets": "core.sched.scheduler:Scheduler.schedule",
    "What a step must compute and move": "core.model.work:WorkCounter.count",
}

words = lesson.load("prefill_decode")
present = page.is_present()

if present:
    bench.draw(words, present=True)
else:
    page.title(words)
    with st.container(key="kv-pd"):
        left, right = st.columns([7, 3], gap="medium")
        with left:
            bench.draw(words, present=False)
        with right:
            predict.draw(words)
            with st.container(key="kv-pd-words"):
                text.levelled(words, "words")
                text.objectives(words)
    if drawn := heads.drawn(words["heads"]):
        st.html(drawn)
    left, right = st.columns(2, gap="medium")
    with left:
        transfer.draw("phases/passes", key="pd.transfer")
        transfer.to_gate("prefill_decode")
    with right:
        code.draw(words["code"], CODE)

store.keep(redraw=False)
