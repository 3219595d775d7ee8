"""The foot of a page that keeps something: where it is kept, the notebook, export and import, and
the page's own link."""

from __future__ import annotations

import streamlit as st

from quiz.errors import QuizError
from quiz.progress import MAX_BYTES, Progress, merge, now, read
from ui.kit import notebook, page, states, store
from ui.lesson import Lesson, load

FILE = "kv-scope-progress.json"
_UPLOAD, _SAID = "progress.upload", "progress.said"


def _take() -> None:
    state = st.session_state
    file = state.get(_UPLOAD)
    state[_SAID] = None
    if file is None:
        return
    try:
        if file.size > MAX_BYTES:
            raise QuizError(f"this is larger than the {MAX_BYTES // 1024} KiB that it may take")
        found = read(file.getvalue().decode("utf-8"))
    except UnicodeDecodeError:
        state[_SAID] = ("error", "This file was not taken in: it is not text.")
    except QuizError as exc:
        state[_SAID] = ("error", f"This file was not taken in: {exc}.")
    else:
        store.save(merge(store.progress() or Progress(), found))
        state[_SAID] = ("success", load("quiz")["imported"])


def _forget() -> None:
    store.save(Progress(since=now()))


def draw(words: Lesson) -> None:
    """words: the lesson whose section "kept" says where things are kept."""
    known, state = store.progress(), store.state()
    if known is None:
        return
    if state.volatile:
        states.notice(load("quiz")["volatile"])
    if state.unreadable is not None:
        why, text = state.unreadable
        states.notice(load("quiz")["unreadable"].format(why=why))
        with st.container(horizontal=True):
            st.download_button("Save what is there", text, FILE, on_click="ignore")
            st.button("Start afresh and save over it", on_click=store.overwrite)
    with st.container(key="kv-kept", horizontal=True, vertical_alignment="center"):
        st.html(f'<p class="kv-small">{words["kept"]}</p>', width="content")
        notes = f"Notebook ({len(known.notes)})"
        with st.popover(notes, icon=":material/edit_note:", type="tertiary", key="kept.notes"):
            notebook.listing(known)
        page.exports(
            [
                page.Export("All of it, as JSON", FILE, "application/json", known.to_json),
                page.Export(
                    "The notebook, as text",
                    "kv-scope-notebook.md",
                    "text/markdown",
                    lambda: notebook.as_text(known),
                ),
            ]
        )
        with st.popover("Import", icon=":material/upload:", type="tertiary", key="kept.import"):
            _import()
        with st.popover("Forget", icon=":material/delete:", type="tertiary", key="kept.forget"):
            st.text(load("quiz")["forget"])
            st.button("Forget all of it", on_click=_forget, key="progress.forget")
        page.bar()


def _import() -> None:
    st.file_uploader(
        "Open exported progress",
        type=["json"],
        key=_UPLOAD,
        on_change=_take,
        help="It is put together with what is here; nothing is lost.",
        max_upload_size=1,
    )
    said = st.session_state.get(_SAID)
    if said:
        (st.error if said[0] == "error" else st.success)(said[1])
