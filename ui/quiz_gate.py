"""Which gate the quiz page asks: the four questions, or a lesson's own. Kept in the session,
mirrored in the address as ``?lesson=batching``."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from quiz import bank, gate
from quiz.progress import Progress
from ui import nav
from ui.course import data
from ui.kit import store
from ui.kit.address import Address, sort
from ui.lesson import Lesson

LESSON, NOTICE = "quiz.lesson", "quiz.link"
_SELECT = "quiz.select"
ADDRESS = Address("quiz.address", ("lesson",))


def start() -> bool:
    """Take over what the address asks for. Whether that is another gate than before."""
    state = st.session_state
    before = state.setdefault(LESSON, gate.LESSON)
    asked = ADDRESS.arrived()
    if asked is not None:
        found, state[NOTICE] = sort(
            asked, ADDRESS.names, lambda _, raw: raw if raw in gate.lessons() else None
        )
        state[LESSON] = found.get("lesson", gate.LESSON)
    return bool(state[LESSON] != before)


def here() -> str:
    lesson: str = st.session_state[LESSON]
    return lesson


def write() -> None:
    """Put the gate into the address."""
    ADDRESS.write({} if here() == gate.LESSON else {"lesson": here()})


def title(lesson: str, words: Lesson) -> str:
    """What a gate is called: by the lesson's page, or by its topic where it has none."""
    if lesson == gate.LESSON:
        return words.title
    pages = {place.name: place.title for place in nav.COURSE}
    return pages.get(lesson) or bank.of_lesson(lesson)[0].title


def mark(lesson: str, known: Progress | None) -> str:
    """How the learner stands at a gate, in words; nothing where they have not begun."""
    if known is None:
        return ""
    if lesson in known.completed:
        return "complete"
    attempt = gate.current(known, lesson)
    if attempt is None or not gate.place(attempt):
        return ""
    if attempt.done:
        return f"{attempt.right} of {len(attempt.asked)} right"
    return f"{gate.place(attempt)} of {len(attempt.asked)} answered"


def select(words: Lesson, on_change: Callable[[], None]) -> None:
    """The list of the gates, in the order of the course, with the learner's marks."""
    state = st.session_state
    order = [place.name for place in nav.COURSE]
    listed = {}
    for lesson in (gate.LESSON, *sorted(gate.lessons()[1:], key=lambda one: _rank(one, order))):
        said = mark(lesson, store.progress())
        listed[lesson] = title(lesson, words) + (f" · {said}" if said else "")

    def choose() -> None:
        state[LESSON], state[NOTICE] = state[_SELECT], None
        on_change()

    state[_SELECT] = here()
    st.selectbox(
        words["choose"],
        list(listed),
        format_func=listed.__getitem__,
        key=_SELECT,
        on_change=choose,
        label_visibility="collapsed",
        width=400,
    )


def onward(words: Lesson) -> None:
    """Where a result leads: on in the course, or back to the lesson."""
    known = store.progress() or Progress()
    done = here() in known.completed
    to = data.next_place(known) if done else nav.PLACES.get(here())
    if to is not None and to.name != "quiz":
        label = words["onward" if done else "back"].format(title=to.title)
        st.page_link(nav.page(to.name), label=label, icon=None)


def _rank(lesson: str, order: list[str]) -> tuple[int, str]:
    return (order.index(lesson) if lesson in order else len(order), lesson)
