"""The prediction: bytes of a token from a config.json, then on each of sixteen GPUs."""

from __future__ import annotations

import json
from dataclasses import replace

from ui.kit.guesses import Guesses
from ui.lesson import Lesson
from ui.sizing import bench, grading
from ui.sizing.place import DEFAULT

ASKED = Guesses(
    key="ks.predict",
    fields=("bytes", "each"),
    suffix="16",
    most=10**12,
    feedback=grading.feedback,
    feedback_again=grading.feedback_again,
    values=grading.values,
    case=lambda: bench.go(replace(DEFAULT, model=grading.MODEL)),
)


def draw(words: Lesson) -> None:
    """One panel with the config, and what was said against what is so."""
    ASKED.draw(words, "You said {guess} B.", shown=_config())


def _config() -> str:
    """The fields of the config in one line, as code."""
    fields = grading.config().items()
    return " ".join(f"`{json.dumps(name)}: {json.dumps(value)}`" for name, value in fields)
