"""The prediction: how many users a replica serves at once, with three bounds in sight."""

from __future__ import annotations

from ui.kit.guesses import Guesses
from ui.lesson import Lesson
from ui.planner import bench, grading

ASKED = Guesses(
    key="cp.predict",
    fields=("users", "users2"),
    suffix="256",
    most=10**6,
    feedback=grading.feedback,
    feedback_again=grading.feedback_again,
    values=grading.values,
    case=lambda: bench.go(grading.CASE),
)


def draw(words: Lesson) -> None:
    """One panel with the case, and what was said against what is so."""
    ASKED.draw(words, "You said {guess} users.")
