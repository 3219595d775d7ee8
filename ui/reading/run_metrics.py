"""What a lesson may say of a recorded run: each figure is a function of the run's own events, under
the name that it has in `core.trace`.

    steps, computed_tokens, waste …             of the whole run (`WHOLE`)
    in_us.ttft.p50, in_steps.worst_gap …        of `serving_metrics.summary`, by its path
    ttft_us:C, cached:C …                       of one request, by its id: a field of its row
    step_us:40, step_tokens:40                  of one step
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from core.trace import pool_metrics, prefix_metrics, serving_metrics
from ui import runs
from ui.reading.formats import Amount, ValueLineError

Json = dict[str, Any]


def _pool(field: str) -> Callable[[Json], Any]:
    return lambda run: getattr(pool_metrics.pool_summary(run), field)


def _prefix(field: str) -> Callable[[Json], Any]:
    return lambda run: getattr(prefix_metrics.totals(run), field)


def _summary(path: str) -> Callable[[Json], Any]:
    def metric(run: Json) -> Any:
        found: Any = serving_metrics.serving(run)["summary"]
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return found

    return metric


def _idle_share(run: Json) -> float:
    places = _summary("place_steps")(run)
    return float(places["idle"] / places["total"])


def _throughput(run: Json) -> float | None:
    tokens, us = _summary("output_tokens")(run), _summary("duration_us")(run)
    return float(tokens / us * 1e6) if us else None


def _median_step(run: Json) -> float | None:
    return serving_metrics.percentile([serving_metrics.step_us(one) for one in run["steps"]], 50)


def _prompt_tokens(run: Json) -> int:
    return sum(row["prompt_tokens"] for row in serving_metrics.serving(run)["rows"])


WHOLE: dict[str, tuple[Callable[[Json], Any], str]] = {
    "steps": (_pool("steps"), "steps"),
    "requests": (lambda run: len(run["header"]["prompts"]), "requests"),
    "prompt_tokens": (_prompt_tokens, "tokens of all prompts"),
    "output_tokens": (_summary("output_tokens"), "tokens of all answers"),
    "computed_tokens": (_pool("computed_tokens"), "tokens that all steps computed"),
    "recomputed_tokens": (_summary("recomputed_tokens"), "tokens computed once more"),
    "cached_tokens": (_prefix("cached"), "tokens found in the cache on admission"),
    "looked_up_tokens": (_prefix("looked_up"), "tokens looked up on admission"),
    "hit_rate": (_prefix("hit_rate"), "tokens found, of those looked up"),
    "evicted": (_prefix("evicted"), "cached blocks forgotten to make room"),
    "num_blocks": (_pool("num_blocks"), "blocks in the pool"),
    "block_size": (_pool("block_size"), "slots of a block"),
    "preemptions": (_pool("preemptions"), "times a sequence was preempted"),
    "rejected": (_pool("rejected"), "requests refused"),
    "copies": (_pool("copies"), "blocks copied on write"),
    "waste": (_pool("waste"), "slots held and not written, of slots held"),
    "peak_waste": (_pool("peak_waste"), "most slots held and not written, after one step"),
    "peak_held_blocks": (_pool("peak_held_blocks"), "most blocks held at once"),
    "longest_table": (_pool("longest_table"), "entries of the longest block table"),
    "places": (_summary("places"), "sequences that may run at once"),
    "idle_share": (_idle_share, "places times steps in which nothing was computed"),
    "most_waiting": (
        lambda run: max(serving_metrics.serving(run)["waiting"], default=0),
        "most sequences in the queue at once",
    ),
    "duration_us": (_summary("duration_us"), "time of all steps together"),
    "throughput": (_throughput, "tokens of all answers a second"),
    "step_us": (_median_step, "time of the median step"),
}
_PATHS = ("in_us.", "in_steps.", "place_steps.")
_SHARES = ("hit_rate", "waste", "idle_share")


_WORDS = {
    "ttft": "time to the first token",
    "gap": "time between two tokens of an answer",
    "worst_gap": "longest time between two tokens of an answer",
    "p50": "median",
    "in_steps": "in steps",
    "in_us": "",
}


def _path_words(path: str) -> str:
    """in_us.gap.p50 → "time between two tokens of an answer, median"."""
    first, *rest = path.split(".")
    words = [_WORDS.get(name, name.replace("_", " ")) for name in (*rest, first)]
    return ", ".join(word for word in words if word)


def _of_request(run: Json, field: str, request: str) -> Any:
    rows = serving_metrics.serving(run)["rows"]
    found = [row for row in rows if row["request"] == request]
    if not found:
        names = ", ".join(dict.fromkeys(row["request"] for row in rows))
        raise ValueLineError(f"the run has no request {request[:20]!r}; it has {names}")
    if not isinstance(found[0].get(field), int | float):
        fields = [name for name, given in found[0].items() if isinstance(given, int | float)]
        raise ValueLineError(f"a request has no figure {field[:40]!r}; it has {', '.join(fields)}")
    return found[0][field]


_OF_STEP: dict[str, tuple[Callable[[Json], Any], str]] = {
    "step_us": (serving_metrics.step_us, "time"),
    "step_tokens": (
        lambda step: sum(share["num_scheduled_tokens"] for share in step["scheduled"].values()),
        "tokens computed",
    ),
}


def _of_step(run: Json, field: str, number: str) -> Any:
    if not number.isdecimal() or int(number) >= len(run["steps"]):
        raise ValueLineError(f"the run has steps 0 to {len(run['steps']) - 1}")
    return _OF_STEP[field][0](run["steps"][int(number)])


def measure(name: str, metric: str) -> tuple[Amount, str]:
    """A figure of a recorded run in its base unit, and in words what it is.

    Raises RunError where there is no such run, ValueLineError where there is no such figure.
    """
    path = runs.recorded_path(name)
    if path is None:
        runs.recorded(name)  # says so
        raise ValueLineError(f"there is no run {name[:60]!r}")
    return _measured(path, path.stat().st_mtime_ns, name, metric)


@lru_cache(maxsize=512)
def _measured(path: Path, mtime_ns: int, name: str, metric: str) -> tuple[Amount, str]:
    run = runs.recorded(name).data()
    field, _, which = metric.partition(":")
    if which and field in _OF_STEP:
        number, said = _of_step(run, field, which), f"{_OF_STEP[field][1]} in step {which}"
    elif which:
        number, said = _of_request(run, field, which), f"{field} of request {which}"
    elif metric in WHOLE:
        take, said = WHOLE[metric]
        number = take(run)
    elif metric.startswith(_PATHS):
        number, said = _summary(metric)(run), _path_words(metric)
    else:
        names = ", ".join([*WHOLE, *(f"{path}…" for path in _PATHS), *(f"{f}:…" for f in _OF_STEP)])
        raise ValueLineError(f"there is no figure {metric[:40]!r} of a run; known: {names}")
    if not isinstance(number, int | float):
        raise ValueLineError(f"the run has no {metric}")
    if field.endswith("_us") or metric.startswith("in_us."):
        return Amount(number / 1e6, "s"), said
    return Amount(number, "fraction" if metric in _SHARES else ""), said


def label(name: str) -> str:
    """Where a recorded run comes from, as its label says. Raises RunError."""
    word, detail = runs.label(runs.recorded(name).header)
    return f"{word}: {detail}"
