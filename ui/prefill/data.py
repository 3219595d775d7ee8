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
    """The recorded runs to offer: those with times and counts of work."""
    return [item for item in runs.list_recorded() if not item.detail.startswith("real scheduler")]


def bench_data(words: Lesson, place: dict[str, Any], *, present: bool) -> dict[str, Any]:
    """For `live_run`. The same call gives equal data, so that a rerun sends nothing."""
    runs_here = recorded()
    names = [item.name for item in runs_here]
    stand_ins = {
        key: [name for name in wanted if name in names] for key, wanted in STAND_INS.items()
    }
    first = FIRST if FIRST in names else next(iter(names), None)
    return {
        "recorded": [{"name": item.name, "title": item.title} for item in runs_here],
        "first": first,
        "experiments": {
            key: found if len(found) == len(STAND_INS[key]) else []
            for key, found in stand_ins.items()
        },
        "machines": modelled.machines(),
        "ceilings": ceilings.stored(),
        "examples": examples(words),
        "reading": READING_MS,
        "place": place,
        "present": present,
    }
