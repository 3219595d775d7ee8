"""Files in and out: a scenario or a run from the visitor's disk, and a scenario back to it.

The player saves the run that it plays.
"""

from __future__ import annotations

import streamlit as st

from core.errors import KVScopeError
from core.scenario import Scenario
from ui import choice, runs

_UPLOAD = "bp.upload"
_PROBLEM = "bp.upload.problem"


def _take_upload() -> None:
    state = st.session_state
    state[_PROBLEM] = None
    file = state.get(_UPLOAD)
    if file is None:
        return
    try:
        data = file.getvalue()
        if len(data) > runs.MAX_UPLOAD_BYTES:
            raise KVScopeError(
                f"{len(data):,} bytes; the limit is {runs.MAX_UPLOAD_BYTES:,}. Nothing was opened."
            )
        kind, content = runs.open_file(data)
    except KVScopeError as exc:
        state[_PROBLEM] = (file.name, str(exc))
        return
    if kind == "run":
        state[choice.FILE] = (file.name, content)
        choice.choose("file")
    else:
        choice.set_own(Scenario.from_json(content))


def files() -> None:
    """The menu of files."""
    with st.popover("Files", icon=":material/folder_open:"):
        st.file_uploader(
            "Open a scenario or a run",
            type=["json", "gz"],
            key=_UPLOAD,
            on_change=_take_upload,
            help="A scenario is JSON, a run is .run.json.gz; at most 8 MB.",
        )
        problem = st.session_state.get(_PROBLEM)
        if problem:
            st.error("This file was not opened. The picture stays as it was.")
            st.code(f"{problem[0]}\n{problem[1]}", language=None, wrap_lines=True)
        text = choice.scenario_text()
        if text is not None:
            st.download_button(
                "Save this scenario", text, "scenario.json", "application/json", on_click="ignore"
            )
