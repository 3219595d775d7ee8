"""The instrument on its page: the address, the controls and what was measured are kept in step."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from typing import Any

import streamlit as st

from ui import lesson
from ui.components.kv_quantisation import kv_quantisation
from ui.kit.address import Address
from ui.kit.controls import Controls
from ui.quantise import formats, live, measured, memory, place
from ui.quantise.place import EXAMPLES, MAX_CHARS, Place

Json = dict[str, Any]
KEY = "kv_quantisation"
ADDRESS = Address("kq", place.NAMES)


def _taken(here: Place, sent: object) -> Place:
    """Where a control leads. The page's own prompt is nobody's in particular."""
    to = place.taken(here, sent)
    return replace(to, prompt="") if to.prompt == measured.prompt() else to


CONTROLS = Controls(KEY, ADDRESS, place.DEFAULT, place.read, _taken, memory.of_place)
PLACE, now, go = CONTROLS.place, CONTROLS.now, CONTROLS.go


def draw(*, present: bool, opening: Place | None = None) -> None:
    """The instrument, standing where the link says. opening: where it stands for someone who comes
    by none; None: at the default."""
    bare = ADDRESS.is_first_and_bare
    CONTROLS.start()
    if bare and opening is not None:
        go(opening)
    _instrument(present=present)


@st.fragment
def _instrument(*, present: bool) -> None:
    """A fragment: a control draws nothing else of the page again."""
    shown = kv_quantisation(data(present=present), key=KEY, on_choice=CONTROLS.take)
    wish = shown.get("run")
    if isinstance(wish, dict):
        go(_taken(now(), {"prompt": wish.get("prompt")}))
        live.run(now())
        st.rerun(scope="fragment")
    ADDRESS.write(place.written(now()))


def data(*, present: bool) -> Json:
    """For `kv_quantisation`. The same place gives equal data, so that a rerun sends nothing."""
    here = now()
    found = live.part(here) or measured.recorded(here)
    own = found["dtype"] if found else "bfloat16"
    return {
        "place": {**asdict(here), "prompt": live.asked(here), "mine": bool(here.prompt)},
        "memory": memory.part(here, own),
        "measured": found,
        "live": live.controls(here),
        "words": says(),
        "options": options(),
        **CONTROLS.data(present=present),
    }


@cache
def says() -> Json:
    """The instrument's sentences, by name: the lesson's sections that begin with "say-"."""
    sections = lesson.load(measured.WORDS).sections
    return {name[4:]: text for name, text in sections.items() if name.startswith("say-")}


@cache
def options() -> Json:
    """What the controls offer: [value, title] each."""
    return {
        "fmt": list(map(list, formats.FORMATS.items())),
        "scale": list(map(list, formats.SCALES.items())),
        "cal": list(map(list, formats.CALIBRATIONS.items())),
        "to": list(map(list, formats.APART.items())),
        "examples": [[name, title] for name, (title, _) in EXAMPLES.items()],
        "layers": place.LAYERS,
        "most": MAX_CHARS,
        "answer": measured.ANSWER,
    }
