"""Capacity planner: from users and limits to GPUs."""

import streamlit as st

from ui import lesson
from ui.kit import code, page, store, text, transfer
from ui.planner import bench, example, files, predict, trial

CODE = {
    "Whole replicas for the users": "core.sizing.fleet:gpus_for_users",
    "The least of three bounds": "core.sizing.plan:_bounded",
    "A design under its load": "core.sizing.design:design",
    "Which plans another one beats": "core.sizing.design:dominated",
    "The plan made small": "core.fill:small",
    "The flags": "core.sizing.flags:command",
}

words = lesson.load("capacity_planner")
present = page.is_present()

if present:
    bench.draw(words, present=True)
    page.bar()
else:
    with st.container(key="kv-top", horizontal=True, vertical_alignment="bottom"):
        page.title(words)
        files.menu()
        page.bar()
    predict.draw(words)
    bench.draw(words, present=False)
    trial.draw(words, present=False)
    example.draw(words)
    with st.container(key="kv-words"):
        left, right = st.columns(2, gap="large")
        with left:
            text.objectives(words)
            text.levelled(words, "words")
        with right:
            transfer.draw("batching/bounds", key="cp.transfer")
            transfer.to_gate("capacity_planner")
            code.draw(words["code"], CODE)

store.keep(redraw=False)
