"""Numbers to know: the quick reference, computed; every number opens its derivation."""

import streamlit as st

from ui import lesson, nav
from ui.kit import code, page, store, text, transfer
from ui.numbers import desk, sheet

CODE = {
    "Bytes of a token": "core.sizing.kv:kv_bytes_per_token",
    "The ridge": "core.sizing.roofline:ridge_point",
    "One number of the sheet": "core.sizing.quick_reference:_entry",
}

words = lesson.load("numbers")
present = page.is_present()
desk.start()

if not present:
    with st.container(key="kv-top", horizontal=True, vertical_alignment="center"):
        page.title(words)
        page.exports(
            [
                page.Export("As CSV", "kv-scope-numbers.csv", "text/csv", sheet.as_csv),
                page.Export(
                    "As Markdown", "kv-scope-numbers.md", "text/markdown", sheet.as_markdown
                ),
            ]
        )
        page.bar()

if st.session_state[desk.NOTICE]:
    st.warning(st.session_state[desk.NOTICE], icon=":material/link_off:")
with st.container(key="kv-numbers"):
    desk.draw(present=present)

if present:
    page.bar()
else:
    with st.container(key="kv-words"):
        left, right = st.columns(2, gap="large")
        with left:
            text.objectives(words)
            text.levelled(words, "words")
        with right:
            st.page_link(nav.page("review"), label=words["learn"], icon=":material/style:")
            code.draw(words["code"], CODE)
            transfer.draw("kv-size/per-token", key="numbers.transfer")
            transfer.to_gate("numbers")

store.keep(redraw=False)
