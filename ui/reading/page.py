"""A page that is read: everything on it comes from its lesson and from the course's data.

A page with an instrument beside such a lesson draws the lesson's parts with what is public here."""

from __future__ import annotations

import html
import re

import streamlit as st

from quiz import bank
from ui import lesson, nav
from ui.components.lesson_chart import lesson_chart
from ui.components.reader import reader
from ui.kit import page, states, store, text, transfer
from ui.kit.address import Address, sort
from ui.lesson import Lesson
from ui.reading import charts, document, run_card, values, way

_SOURCES = re.compile(r"\bsources?\b|\bof the texts\b")
PRESENT_KEY, READ_KEY = "kv-reading-present", "kv-reading"
ADDRESS = Address("reading", ("at",))
"""The part of the text that the address names."""


def draw(name: str) -> None:
    """The page of a lesson. name: of a place that is read."""
    words = lesson.load(name)
    present = page.is_present()
    if present:
        at, _ = _place(name, words)
        with st.container(key=PRESENT_KEY):
            _body(name, at, present=True)
        page.bar()
    else:
        with st.container(key="kv-top", horizontal=True, vertical_alignment="bottom"):
            page.title(words)
            page.bar()
        body(name)
        practice(name)
        beside(name)
    store.keep(redraw=False)


def body(name: str) -> None:
    """The lesson's text with its contents, at the part that the address asks for."""
    at, notice = _place(name, lesson.load(name))
    if notice:
        states.notice(notice)
    with st.container(key=READ_KEY):
        _body(name, at, present=False)


def _place(name: str, words: Lesson) -> tuple[str | None, str | None]:
    """The part that the address asks for, and a sentence where it asks in vain."""
    address, kept = ADDRESS, f"reading.{name}.at"
    asked = address.arrived()
    if asked is None:
        return st.session_state.get(kept), None
    names = document.part_names(words)
    found, notice = sort(asked, ("at",), lambda _, raw: raw if raw in names else None)
    st.session_state[kept] = found.get("at")
    address.write(found)
    return found.get("at"), notice


@st.fragment
def _body(name: str, at: str | None, *, present: bool) -> None:
    """Contents, level and text. A fragment: another level draws nothing else of the page again."""
    store.follow()
    words, level, key = lesson.load(name), text.level(), f"reader-{name}"
    headings = document.headings(words, level)
    names = {part for part, _ in headings}

    def arrived() -> None:
        part = st.session_state[key].at
        if isinstance(part, str) and part in names:
            st.session_state[f"reading.{name}.at"] = part
            ADDRESS.write({"at": part})

    with st.container(key="kv-sheet"):
        with st.container(key="kv-toc"):
            data = {
                "page": name,
                "parts": [{"name": part, "title": title} for part, title in headings],
                "at": st.session_state.get(f"reading.{name}.at", at),
                "pages": list(nav.PLACES),
                "present": present,
            }
            way.follow(reader(data, key=key, on_at=arrived, on_end=store.begin))
        with st.container(key="kv-text"):
            if not present:
                _before(name, words)
            for part, _ in headings:
                with st.container(key=f"kv-sec-{part}"):
                    _part(words, part, present=present)


def _before(name: str, words: Lesson) -> None:
    """What stands between the title and the text: how long, what it needs, objectives, level."""
    st.html(_about(name))
    text.objectives(words)
    with st.container(key="kv-level", horizontal=True, vertical_alignment="center"):
        text.choose_level()
        minutes = document.minutes(words, text.level())
        st.html(f'<p class="kv-small">About {minutes} minute{"s" if minutes > 1 else ""}.</p>')


def _about(name: str) -> str:
    """Where the place stands in the course and what it builds on, as HTML."""
    place, (this, of) = nav.PLACES[name], way.number(name)
    said = f"{html.escape(place.section)}, {this} of {of}."
    needs = [nav.PLACES[one] for one in place.needs if one in nav.PLACES]
    if needs:
        links = [
            f'<a href="{one.name}" target="_self">{html.escape(one.title)}</a>' for one in needs
        ]
        said += f" Builds on {' and '.join(links)}."
    if any(_SOURCES.search(words) for words in lesson.load(name).sections.values()):
        said += ' The sources are <a href="references?at=credited" target="_self">two texts</a>.'
    return f'<p class="kv-small">{said}</p>'


def _part(words: Lesson, part: str, *, present: bool) -> None:
    for index, block in enumerate(document.blocks(text.pick(words, part, text.level()))):
        if isinstance(block, document.Prose):
            text.draw(values.shown(document.under_title(block.markdown), words))
        elif isinstance(block, document.Chart):
            _chart(block.name, key=f"chart-{part}-{index}", present=present)
        else:
            run_card.draw(block, key=f"kv-run-{part}-{index}")


def _chart(name: str, *, key: str, present: bool) -> None:
    """A chart; where its file is damaged, a sentence in its place."""
    try:
        data = charts.data(name)
    except charts.ChartError as exc:
        states.empty("This chart cannot be drawn.", str(exc))
        return
    lesson_chart({**data, "present": present}, key=key)


def practice(name: str) -> None:
    """A question with fresh numbers on what was read, and the way to the lesson's own quiz."""
    topics = bank.of_lesson(name)
    if not topics:
        return
    drawn = [one for topic in topics for one in topic.templates if bank.varies(one)]
    with st.container(key="kv-practice"):
        if drawn:
            transfer.draw(drawn[0], key=f"reading.{name}.transfer")
        transfer.to_gate(name)


def beside(name: str) -> None:
    """The places before and after."""
    before, after = way.beside(name)
    with st.container(key="kv-beside"):
        for column, place, word in zip(
            st.columns(2), (before, after), ("Before", "Next"), strict=True
        ):
            if place is not None:
                with column:
                    st.html(f"<span>{word}</span>")
                    st.page_link(nav.page(place.name), width="stretch")
