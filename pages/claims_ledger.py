"""Claims ledger: what two texts say about serving, recomputed; a vote before each verdict."""

import streamlit as st

from core.sizing import ledger
from ui import lesson
from ui.claims import desk, files, predict
from ui.kit import code, page, store, text, transfer

CODE = {
    "Compare a printed number": "core.sizing.claims:_compare",
    "What a printed number may mean": "core.sizing.printed:Printed.agrees",
    "The verdict of a claim": "core.sizing.claims:_judgement",
}

words = lesson.load("claims_ledger")
present = page.is_present()
desk.start()

if not present:
    with st.container(key="kv-top", horizontal=True, vertical_alignment="center"):
        page.title(words)
        page.exports(
            [
                page.Export(
                    "All claims with verdicts, as CSV",
                    "kv-scope-claims.csv",
                    "text/csv",
                    lambda: files.as_csv(desk.ballot()),
                ),
                page.Export(
                    "The same with derivations, as JSON",
                    "kv-scope-claims.json",
                    "application/json",
                    lambda: files.as_json(desk.ballot()),
                ),
            ]
        )
        page.bar()
    predict.draw(words)

if st.session_state[desk.NOTICE]:
    st.warning(st.session_state[desk.NOTICE], icon=":material/link_off:")
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
            text.draw(words["credit"])
            for source in ledger.sources().values():
                st.text(source.credit)
            code.draw(words["code"], CODE)
            transfer.draw("kv-size/per-token", key="claims.transfer")

store.keep(redraw=False)
