"""What the instrument gets from the page: everything but the steps, which the browser fetches."""

from __future__ import annotations

from typing import Any

from ui import runs
from ui.lesson import Lesson
from ui.prefill import ceilings, modelled

FIRST = "one_question"
STAND_INS = {
    "double": ("prompt_doubled",),
    "batch": ("batch_1_to_32",),
    "cache": ("kv_cache_on", "kv_cache_off"),
}
"""Experiment → the recorded runs that show it where no engine runs it."""

WORDS_PER_MINUTE = 238
"""Silent reading of English prose by adults, a mean over 190 studies (Brysbaert 2019)."""
TOKENS_PER_WORD = 1.3
"""English text in common BPE vocabularies; a rule of thumb."""

READING_MS = 60_000 / (WORDS_PER_MINUTE * TOKENS_PER_WORD)
"""Milliseconds a token at reading speed: a gap below it is faster than anyone reads."""


def examples(words: Lesson) -> list[dict[str, str]]:
    """The example prompts of the lesson: a line of title, then the prompt; blank lines between."""
    out = []
    for part in words["examples"].split("\n\n"):
        title, _, text = part.strip().partition("\n")
        out.append({"title": title, "text": text.replace("\n", " ")})
    return out


def recorded() -> list[runs.Recorded]:
    """The recorded runs to offer: those of a real model, which have times."""
    return [one for one in runs.list_recorded() if one.label != "SIMULATED"]


def bench_data(words: Lesson, place: dict[str, Any], *, present: bool) -> dict[str, Any]:
    """For `live_run`. The same call gives equal data, so that a rerun sends nothing."""
    found = recorded()
    names = {one.name for one in found}
    return {
        "recorded": [{"name": one.name, "title": one.title} for one in found],
        "first": FIRST if FIRST in names else next((one.name for one in found), None),
        "experiments": {
            key: list(wanted) if names.issuperset(wanted) else []
            for key, wanted in STAND_INS.items()
        },
        "machines": modelled.machines(),
        "ceilings": ceilings.stored(),
        "examples": examples(words),
        "reading": READING_MS,
        "place": place,
        "present": present,
    }
