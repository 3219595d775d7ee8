"""The course as data: its places, in order, and what each builds on."""

from __future__ import annotations

import itertools

from ui import nav
from ui.reading import way


def test_no_place_comes_twice_or_before_what_it_needs() -> None:
    seen: set[str] = set()
    for place in nav.planned():
        assert place.name not in seen
        assert set(place.needs) <= seen, place
        seen.add(place.name)


def test_only_places_that_are_there_are_shown() -> None:
    assert [place for place in nav.planned() if place.exists] == list(nav.COURSE)
    assert not nav.Place("no_such_page", "x", "Memory").exists
    assert not nav.Place("no_such_lesson", "x", "Memory", reads=True).exists


def test_the_way_through_the_course_has_no_gap() -> None:
    stations = nav.STATIONS
    for place, after in itertools.pairwise(stations):
        assert way.beside(place.name)[1] == after
        assert way.beside(after.name)[0] == place
    assert way.beside(stations[0].name)[0] is None
    assert way.beside(stations[-1].name)[1] is None
