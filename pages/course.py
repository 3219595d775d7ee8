"""Map and search: every page with what it builds on, every term, and where any word stands."""

import streamlit as st

from ui import lesson
from ui.course import desk
from ui.kit import page, states, store

words = lesson.load("course")
present = page.is_present()
desk.start()

if not present:
    with st.container(key="kv-top", horizontal=True, vertical_alignment="bottom"):
        page.title(words)
        page.bar()
if st.session_state[desk.NOTICE]:
    states.notice(st.session_state[desk.NOTICE])
desk.draw(words, present=present)
if present:
    page.bar()
store.keep(redraw=True)
