"""The foot of a page that keeps something: where it is kept, the notebook, export and import, and
the page's own link."""

from __future__ import annotations

import streamlit as st

from quiz.errors import QuizError
from quiz.progress import MAX_BYTES, Progress, now, read, take_in
from ui.components.browser_store import Copy
from ui.kit import notebook, page, states, store
from ui.lesson import Lesson, load

FILE = "kv-scope-progress.json"
_UPLOAD, _SAID = "progress.upload", "progress.said"
_REFUSED = "progress.refused"


def _take() -> None:
    state = st.session_state
    file = state.get(_UPLOAD)
    state[_SAID] = None
    if file is None:
        return
    try:
        if file.size > MAX_BYTES:
            raise QuizError(f"this is larger than the {MAX_BYTES // 1024:,} KiB that it may take")
        changed = take_in(store.progress() or Progress(), read(file.getvalue().decode("utf-8")))
    except UnicodeDecodeError:
        state[_SAID] = ("error", "This file was not taken in: it is not text.")
    except QuizError as exc:
        state[_SAID] = ("error", f"This file was not taken in: {exc}.")
    else:
        store.save(changed)
        state[_SAID] = ("success", load("quiz")["imported"])


def _forget() -> None:
    store.save(Progress(since=now()))
    for copy in store.state().copies:
        store.let_go(copy)


def notices() -> None:
    """What the learner should know of how their browser keeps things: that it does not, or that it
    had something which could not be read."""
    state, said = store.state(), load("quiz")
    if state.volatile:
        states.notice(said["stuck" if state.stuck else "volatile"])
    for copy in filter(None, (state.stuck, *state.copies)):
        _aside(copy)


def _aside(copy: Copy) -> None:
    said = load("quiz")
    try:
        found = read(copy.text)
    except QuizError as exc:
        found = None
        states.notice(said["aside"].format(when=copy.at[:16].replace("T", " "), why=exc))
    else:  # a later version can read what an earlier one could not
        states.notice(said["aside-readable"].format(when=copy.at[:10]))

    def bring_back() -> None:
        if found is None:
            return
        try:
            store.save(take_in(store.progress() or Progress(), found))
        except QuizError as exc:
            st.session_state[_REFUSED] = f"It was not taken in: {exc}."
        else:
            store.let_go(copy)

    if refused := st.session_state.pop(_REFUSED, None):
        states.notice(refused)
    with st.container(horizontal=True):
        name = f"kv-scope-progress-{copy.at.replace(':', '')}.json"
        st.download_button(
            "Download it", copy.text, name, on_click="ignore", key=f"aside.get.{copy.key}"
        )
        if found is not None:
            st.button("Take it in", on_click=bring_back, key=f"aside.in.{copy.key}")
        with st.popover("Delete it", type="tertiary", key=f"aside.sure.{copy.key}"):
            st.text(said["aside-delete"])
            st.button(
                "Delete it for good",
                on_click=store.let_go,
                args=(copy,),
                key=f"aside.drop.{copy.key}",
            )


def draw(words: Lesson) -> None:
    """words: the lesson whose section "kept" says where things are kept."""
    known = store.progress()
    if known is None:
        return
    notices()
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
        max_upload_size=MAX_BYTES // 2**20,
    )
    said = st.session_state.get(_SAID)
    if said:
        (st.error if said[0] == "error" else st.success)(said[1])
