"""Times of the deck as a learner reads them, by their own clock."""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from quiz.progress import moment

_DAY = 86_400


def minutes_ahead() -> int:
    """How far the learner's clock is ahead of UTC, as their browser says."""
    return -(st.context.timezone_offset or 0)


def local(at: str, minutes: int) -> str:
    """ "2026-12-01T14:00:00Z" → Tue 1 Dec, 15:00."""
    when = moment(at) + timedelta(minutes=minutes)
    return f"{when:%a} {when.day} {when:%b}, {when:%H:%M}"


def span(since: str, until: str) -> str:
    """How long from one time to another, in one unit: 10 min, 4 days, 2.5 months."""
    seconds = (moment(until) - moment(since)).total_seconds()
    for least, unit, size in ((365 * _DAY, "year", 365 * _DAY), (60 * _DAY, "month", 30.4 * _DAY)):
        if seconds >= least:
            return _counted(round(seconds / size, 1), unit)
    if seconds >= _DAY - 60:
        return _counted(round(seconds / _DAY), "day")
    if seconds >= 3600:
        return f"{round(seconds / 3600)} h"
    return f"{max(1, round(seconds / 60))} min"


def _counted(number: float, unit: str) -> str:
    return f"{number:g} {unit}{'' if number == 1 else 's'}"
