"""Batching: who gets a place in a step, who waits, and what both cost."""

import streamlit as st

from ui import lesson
from ui.batching import instrument, predict
from ui.kit import code, page, store, text, transfer

CODE = {
    "One step": "core.sched.scheduler:Scheduler.schedule",
    "Those that run": "core.sched.scheduler:Scheduler._grant_running",
    "Those that wait": "core.sched.scheduler:Scheduler._admit_waiting",
    "Who is sent away": "core.sched.scheduler:Scheduler._preempt",
    "May it come in?": "core.sched.admission:lacks_blocks",
}

words = lesson.load("batching")
present = page.is_present()
instrument.start()

if not present:
    page.title(words)
    predict.draw(words)
instrument.draw(words, present=present)

if not present:
    with st.container(key="kv-words"):
        left, right = st.columns(2, gap="large")
        with left:
            text.objectives(words)
            text.levelled(words, "words")
        with right:
            code.draw(words["code"], CODE)
            transfer.draw("batching/start", key="ba.transfer")
            transfer.to_gate("batching")

store.keep(redraw=False)
