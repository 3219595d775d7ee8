"""The instrument on its page: the address and the controls are kept in step here."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui.components.roofline import roofline
from ui.kit.address import Address
from ui.kit.controls import Controls
from ui.roofline import figures, live, measured, place
from ui.roofline.options import options
from ui.sizing.shown import Json

KEY = "roofline"
ADDRESS = Address("rl", place.NAMES)
CONTROLS = Controls(KEY, ADDRESS, place.DEFAULT, place.read, place.taken, figures.modelled)
PLACE, now, go = CONTROLS.place, CONTROLS.now, CONTROLS.go


def draw(*, present: bool) -> None:
    """The instrument, standing where the link says."""
    CONTROLS.start()
    _instrument(present=present)


@st.fragment
def _instrument(*, present: bool) -> None:
    """A fragment: a control draws nothing else of the page again."""
    shown = roofline(data(present=present), key=KEY, on_choice=CONTROLS.take)
    if live.asked(shown.get("live"), now().run):
        st.rerun(scope="fragment")
    ADDRESS.write(place.written(now()))


def data(*, present: bool) -> Json:
    """For `roofline`. The same place gives equal data, so that a rerun sends nothing."""
    here = now()
    controls: dict[str, Any] = {**vars(here), "roofs": list(here.roofs)}
    return {
        "place": controls,
        "modelled": figures.modelled(here),
        "measured": live.part(here.run) or measured.part(here.run),
        "live": live.controls(here.run),
        "options": options(),
        **CONTROLS.data(present=present),
    }
