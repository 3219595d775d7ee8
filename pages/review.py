"""Review: cards that are due, asked with fresh numbers, and planned again by how they went."""

import streamlit as st

from ui import lesson
from ui.kit import page, progress_menu, states, store, text
from ui.review import desk

words = lesson.load("review")
present = page.is_present()

if not present:
    page.title(words)

if store.progress() is None:
    states.skeleton("card", "Your cards are being read from this browser.")
    store.keep(redraw=True)
else:
    desk.draw(words, present=present)
    if present:
        page.bar()
    else:
        desk.lists(words)
        with st.container(key="kv-words"):
            left, right = st.columns([7, 3], gap="medium")
            with left:
                text.levelled(words, "words")
            with right:
                text.objectives(words)
        progress_menu.draw(words)
