"""Ways through the course: what comes before and after a place, and where a link leads."""

from __future__ import annotations

from urllib.parse import parse_qsl

import streamlit as st

from ui import nav


def beside(name: str) -> tuple[nav.Place | None, nav.Place | None]:
    """The place before and the one after, in the order of the course."""
    at = next(i for i, place in enumerate(nav.STATIONS) if place.name == name)
    before = nav.STATIONS[at - 1] if at else None
    after = nav.STATIONS[at + 1] if at + 1 < len(nav.STATIONS) else None
    return before, after


def number(name: str) -> tuple[int, int]:
    """Which place of its section it is, and of how many."""
    section = nav.PLACES[name].section
    names = [place.name for place in nav.COURSE if place.section == section]
    return names.index(name) + 1, len(names)


def follow(address: str | None) -> None:
    """Go where a link within the course leads, "name?query". Any other is left alone."""
    if address is None:
        return
    name, _, query = address.partition("?")
    if name in nav.PLACES:
        st.switch_page(nav.page(name), query_params=dict(parse_qsl(query)))
