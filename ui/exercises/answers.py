"""What was answered in this session: kept apart from the widgets, which forget it with the page."""

from __future__ import annotations

import streamlit as st

from quiz.exercises.diagnose import Diagnosis, diagnose
from quiz.exercises.exercise import Part
from ui.exercises.place import Place

_SAID, _SHOWN = "exercises.said", "exercises.shown"
MAX_WORDS = 4000


def key(place: Place, part: Part) -> str:
    """Of a part's widgets, and of what is kept of it."""
    return f"ex.{place.id}.{place.draw}.{part.id}"


def said(place: Place, part: Part) -> str:
    """What was answered, "" before that."""
    return str(st.session_state.get(_SAID, {}).get(key(place, part), ""))


def say(place: Place, part: Part, text: str) -> None:
    st.session_state.setdefault(_SAID, {})[key(place, part)] = text[:MAX_WORDS]


def is_shown(place: Place, part: Part) -> bool:
    """Whether somebody asked to see the answer."""
    return key(place, part) in st.session_state.get(_SHOWN, set())


def show(place: Place, part: Part) -> None:
    st.session_state.setdefault(_SHOWN, set()).add(key(place, part))


def judged(place: Place, part: Part) -> Diagnosis | None:
    """The diagnosis of what was answered; None before that, and where words are asked."""
    text = said(place, part)
    return diagnose(text, part.target) if text and part.target is not None else None


def solved(place: Place) -> tuple[int, int]:
    """Numbers answered right, and how many are asked."""
    numbers = [part for part in place.exercise.parts if part.target is not None]
    found = (judged(place, part) for part in numbers)
    return sum(one is not None and one.verdict == "right" for one in found), len(numbers)
