"""The head of a page: title, objective, copy-link, present, and what can be taken away."""

from __future__ import annotations

import html
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import streamlit as st
from streamlit.runtime.scriptrunner import add_script_run_ctx, get_script_run_ctx

from ui import links
from ui.components.page_bar import page_bar
from ui.lesson import Lesson

_BAR = "kv-page-bar"


@dataclass(frozen=True, slots=True)
class Export:
    """A file to take away. make: called when it is asked for."""

    label: str
    name: str
    mime: str
    make: Callable[[], str | bytes]


def title(words: Lesson) -> None:
    """Title and objective."""
    st.html(
        f'<div class="kv-head"><h1>{html.escape(words.title)}</h1>'
        f"<p>{html.escape(words.objective)}</p></div>"
    )


def is_present() -> bool:
    """Whether the page is on a projector."""
    return links.is_present(st.query_params)


def set_present(on: bool) -> None:
    """Go to the projector's view, or leave it: the address says which."""
    if on:
        st.query_params["present"] = "1"
    elif "present" in st.query_params:
        del st.query_params["present"]


def follow_present(wish: bool | None, present: bool) -> None:
    """What a component's own button for the projector asks for, from within its fragment: the whole
    page is drawn again if that is another view than the present one."""
    if wish is not None and wish != present:
        set_present(wish)
        st.rerun(scope="app")


def bar(*, link: str | None = None) -> None:
    """Copy link and Present. link: a query with every control in it, None where all of them are
    in the address already (`bind="query-params"`)."""

    def follow() -> None:
        wish = st.session_state[_BAR].present
        if isinstance(wish, bool):
            set_present(wish)

    page_bar(present=is_present(), link=link, key=_BAR, on_present=follow)


def _with_session(make: Callable[[], str | bytes]) -> Callable[[], str | bytes]:
    """A file is made when it is asked for, outside of any script: without this it would find an
    empty session, and be of the page as it began."""
    context = get_script_run_ctx()

    def made() -> str | bytes:
        with ThreadPoolExecutor(1, initializer=lambda: add_script_run_ctx(ctx=context)) as pool:
            return pool.submit(make).result()

    return made


def exports(files: list[Export]) -> None:
    """The menu of files to take away, each of the page as it stands when it is asked for."""
    with st.popover("Export", icon=":material/download:", type="tertiary", key="kv-export"):
        for one in files:
            st.download_button(
                one.label,
                _with_session(one.make),
                one.name,
                one.mime,
                on_click="ignore",
                key=f"export.{one.name}",
            )
