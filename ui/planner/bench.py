"""The instrument on its page: the address and the controls are kept in step here."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import streamlit as st

from core.sizing import catalog, gpus, tiers
from core.sizing.deployment import ALLOCATORS, EVICTIONS
from core.sizing.rules import rules
from ui.components.planner import planner
from ui.kit.address import Address
from ui.kit.controls import Controls
from ui.lesson import Lesson
from ui.planner import figures, others, place, steps
from ui.planner.figures import Planned
from ui.planner.place import EXAMPLES, LATENCIES, TPS, UNKNOWN, WEIGHTS, Place
from ui.sizing.place import KV_FORMATS
from ui.sizing.shown import Json

KEY = "capacity_planner"
_FULL = "cp.full"
"""The place whose other plans were last shown: some forty plans, which a control does not wait
for. They come when the browser, having drawn the answer, asks for the rest."""
ADDRESS = Address("cp", place.NAMES)
CONTROLS = Controls(KEY, ADDRESS, place.DEFAULT, place.read, place.taken, figures.planned)
PLACE, now, go = CONTROLS.place, CONTROLS.now, CONTROLS.go


def _rest() -> None:
    """The answer is drawn: now what else there is."""
    st.session_state[_FULL] = now()


def _complete() -> bool:
    """Whether the other plans are shown at once: where no replica has to be planned for them."""
    full: Place | None = st.session_state.get(_FULL)
    known = full is not None and figures.of_a_replica(full) == figures.of_a_replica(now())
    return known and full is not None and full.gpu2 == now().gpu2


def draw(lesson: Lesson, *, present: bool) -> None:
    """The instrument, standing where the link says."""
    CONTROLS.start()
    _rest()
    _instrument(lesson, present=present)


@st.fragment
def _instrument(lesson: Lesson, *, present: bool) -> None:
    """A fragment: a control draws nothing else of the page again."""
    planner(data(lesson, present=present), key=KEY, on_choice=CONTROLS.take, on_rest=_rest)
    ADDRESS.write(place.written(now()))


def data(lesson: Lesson, *, present: bool) -> Json:
    """For `planner`. The same place gives equal data, so that a rerun sends nothing."""
    return {
        **of(figures.planned(now()), rest=_complete()),
        "options": options(),
        "words": {"frontier": lesson["frontier"], "trial": lesson["trial-hint"]},
        **CONTROLS.data(present=present),
    }


def of(done: Planned, *, rest: bool = True) -> Json:
    """All figures of a place. rest: the other plans too; without it they are None."""
    here, made = done.place, done.design
    return {
        "place": {
            **vars(here),
            "price": f"{here.price:g}",
            "price2": f"{here.price2:g}",
            "hit": "" if here.hit == UNKNOWN else here.hit,
        },
        "model": {
            "title": figures.model_title(here),
            "gpu": figures.gpu_title(here.gpu),
            "warnings": list(done.plan.warnings),
        },
        "answer": {
            **others.of(made),
            "users": here.users,
            "binding": done.plan.binding,
            "bounds": done.plan.bounds,
            "needed": made.gpus.value,
            "gpus_figure": steps.scoped(made.gpus, "GPUs for all users"),
            "streams": steps.scoped(done.plan.streams, "sequences that a replica runs at once"),
            "load": made.load,
            "cached": figures.cached_tokens(done.plan),
            "meets": made.meets(*figures.limits(here)),
        },
        "steps": steps.steps(done),
        "others": others.table(here) if rest else None,
        "frontier": {"points": others.frontier(here), "y": here.y, "axis": LATENCIES[here.y]}
        if rest
        else None,
        "advice": advice(done),
    }


def advice(done: Planned) -> Json:
    """{found: the rules that apply, worst first; silent: titles of those that do not}."""
    order = {"problem": 0, "unknown": 2, "notice": 1, "pass": 3}
    found = sorted(done.findings, key=lambda one: order[one.status])
    seen = {one.rule.id for one in found}
    return {
        "found": [one.to_dict() for one in found],
        "silent": [rule.title for name, rule in rules().items() if name not in seen],
        "count": len(rules()),
    }


@lru_cache(maxsize=1)
def options() -> dict[str, Any]:
    """What the controls offer, by name: [[value, title]] each. Models whose weights are not known
    are left out."""
    listed = [
        [name, one.title]
        for name, one in catalog.entries().items()
        if catalog.get(name).params is not None or catalog.get(name).nominal_params is not None
    ]
    return {
        "models": listed,
        "gpus": [[name, gpus.get(name).title] for name in gpus.names()],
        "tps": [[str(count), str(count)] for count in TPS],
        "kv": [[name, title] for name, title in KV_FORMATS.items()],
        "w": [[name, title] for name, title in WEIGHTS.items()],
        "alloc": [[name, name] for name in ALLOCATORS],
        "evict": [[name, name.upper()] for name in EVICTIONS],
        "off": [["", "nowhere: computed again"]]
        + [[name, tiers.get(name).title] for name in tiers.names()],
        "y": [[name, title] for name, title in LATENCIES.items()],
        "examples": [[name, title] for name, (title, _) in EXAMPLES.items()],
    }
