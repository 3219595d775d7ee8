"""Landing page: what the course is, a run playing, and the ways in."""

import streamlit as st

from ui import landing, lesson, links
from ui.kit import page, store

words = lesson.load("home")
present = links.is_present(st.query_params)

data = landing.preview_data()
watch = data["link"] if data else {"scenario": landing.PREVIEW}

with st.container(key="kv-hero"):
    left, right = st.columns([5, 9], gap="large", vertical_alignment="center")
    with left:
        landing.hero(words, watch)
    with right:
        landing.preview(data, present=present)

landing.course(words)
landing.runs_map(words)
landing.cards(words)
if present:
    page.bar()
store.keep(redraw=True)
