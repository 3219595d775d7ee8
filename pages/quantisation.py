"""Quantised caches: bytes, errors and texts of a format, and the lesson on quantisation."""

import streamlit as st

from ui import lesson
from ui.kit import code, page, store
from ui.quantise import bench, files, predict, studies
from ui.reading import page as reading

NAME, PARTS = "quantisation", "kq.parts"
CODE = {
    "Numbers into codes": "kernels.kv_blocks:encode",
    "Where a fixed scale comes from": "core.model.kv_scales:LayerScales._fix",
    "What a read will give back, against what was computed": "core.model.kv_error:KVError.add",
    "The error of each head over a run": "core.trace.kv_error:of_run",
    "Bytes of a token, scales included": "core.kv_spec:KVSpec.token_bytes",
    "Where two answers part": "core.trace.divergence:compare",
}

words, lab = lesson.load(NAME), lesson.load("kv_quantisation")
present = page.is_present()
# On a projector the instrument is shown, or by a link to a part of the text that part.
parts = present and (st.session_state.get(PARTS, False) or reading.ADDRESS.came_by_link)
st.session_state[PARTS] = parts

if parts:
    reading.draw(NAME)
elif present:
    reading.ADDRESS.write({})
    bench.draw(present=True)
    studies.draw(lab, present=True)
    page.bar()
else:
    with st.container(key="kv-top", horizontal=True, vertical_alignment="bottom"):
        page.title(words)
        files.menu()
        page.bar()
    predict.draw(lab)
    bench.draw(present=False, opening=predict.opening(lab))
    with st.container(key="kv-kq-below"):
        studies.draw(lab, present=False)
        reading.body(NAME)
        reading.practice(NAME)
        code.draw(lab["code"], CODE)
        reading.beside(NAME)

if not parts:
    store.keep(redraw=False)
