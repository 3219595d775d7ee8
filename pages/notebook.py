"""Notebook: what the learner wrote and quoted, on all pages, kept in their browser."""

import streamlit as st

from ui import lesson
from ui.kit import notebook, page, progress_menu, states, store
from ui.notebook import desk, files

words = lesson.load("notebook")
present = page.is_present()

if not present:
    with st.container(key="kv-top", horizontal=True, vertical_alignment="center"):
        page.title(words)
        if store.progress() is not None:
            page.exports(
                [
                    page.Export(
                        "The notebook, as Markdown",
                        "kv-scope-notebook.md",
                        "text/markdown",
                        lambda: notebook.as_text(desk.known()),
                    ),
                    page.Export(
                        "The notebook, as JSON",
                        "kv-scope-notebook.json",
                        "application/json",
                        lambda: files.as_json(desk.known()),
                    ),
                ]
            )
        page.bar()

if store.progress() is None:
    states.skeleton("lines", "Your notes are being read from this browser.")
    store.keep(redraw=True)
else:
    if not present:
        with st.container(key="kv-notices"):  # what comes and goes in it moves nothing below
            progress_menu.notices()
    desk.draw(words, present=present)
    if present:
        page.bar()
    else:
        st.html(f'<p class="kv-small">{words["kept"]}</p>')
