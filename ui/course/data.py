"""The course's page as data for the browser: its places with the learner's marks, and its terms."""

from __future__ import annotations

from functools import cache
from typing import Any

from quiz.progress import Progress
from ui import lesson, nav
from ui.kit import glossary
from ui.reading import document

Json = dict[str, Any]
WORDS = {nav.TODO: "todo", nav.BEGUN: "begun", nav.DONE: "done"}


@cache
def minutes(place: nav.Place) -> int:
    """About how long a place takes: an estimate of ours, or reading time at the middle level."""
    if place.minutes:
        return place.minutes
    return document.minutes(lesson.load(place.name), "plain") if place.reads else 0


def next_place(known: Progress | None) -> nav.Place | None:
    """Where to go on: the first place that is begun and not done, else the first one that is not
    begun and whose prerequisites are. None at the end."""
    marked = {place.name: nav.mark(place, known) for place in nav.STATIONS}
    lessons = [place for place in nav.STATIONS if place.mastery]
    ready = {
        place.name for place in lessons if all(marked.get(name) != nav.TODO for name in place.needs)
    }
    for place in lessons:
        # Every lesson's gate is answered on the quiz's page: begun there is not begun with its own.
        own = place.mastery == place.name
        if marked[place.name] == nav.BEGUN and (own or place.name in ready):
            return place
    for place in lessons:
        if marked[place.name] == nav.TODO and place.name in ready:
            return place
    return next((place for place in lessons if marked[place.name] == nav.TODO), None)


def sections(known: Progress | None) -> list[Json]:
    """The sections with their places, in order."""
    out: dict[str, list[Json]] = {}
    for place in nav.STATIONS:
        out.setdefault(place.section, []).append(
            {
                "name": place.name,
                "title": place.title,
                "objective": lesson.load(place.name).objective,
                "minutes": minutes(place),
                "mark": WORDS[nav.mark(place, known)],
                "reads": place.reads,
                "needs": [name for name in place.needs if name in nav.PLACES],
            }
        )
    return [{"title": title, "places": places} for title, places in out.items()]


@cache
def terms() -> list[Json]:
    """Every term with its meaning and the page that teaches it."""
    return [
        {
            "slug": term.slug,
            "name": term.name,
            "also": list(term.also),
            "is": term.meaning,
            "see": term.see if term.see in nav.PLACES else "",
            "taught": nav.PLACES[term.see].title if term.see in nav.PLACES else "",
        }
        for term in glossary.entries()
    ]
