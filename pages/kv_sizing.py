"""KV sizing: what one token costs, and how many fit."""

import streamlit as st

from ui import lesson
from ui.kit import code, page, store, text, transfer
from ui.sizing import bench, example, files, own, predict

CODE = {
    "Bytes of a token": "core.sizing.kv:kv_bytes_per_token",
    "What each layer keeps": "core.sizing.kv_layers:of_model",
    "What is left for the cache": "core.sizing.pool:kv_pool_bytes_per_gpu",
    "How many sequences fit": "core.sizing.capacity:max_streams",
}

words = lesson.load("kv_sizing")
present = page.is_present()

if present:
    bench.draw(words, present=True)
    page.bar()
else:
    with st.container(key="kv-top", horizontal=True, vertical_alignment="bottom"):
        page.title(words)
        own.draw(words)
        files.menu()
        page.bar()
    predict.draw(words)
    bench.draw(words, present=False)
    example.draw(words)
    with st.container(key="kv-words"):
        left, right = st.columns(2, gap="large")
        with left:
            text.objectives(words)
            text.levelled(words, "words")
        with right:
            transfer.draw("kv-size/per-token", key="ks.transfer")
            transfer.to_gate("kv_sizing")
            code.draw(words["code"], CODE)

store.keep(redraw=False)
