"""A config.json of one's own: pasted or uploaded, read in memory, forgotten with the session."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from core.sizing import config_json
from core.sizing.errors import SizingError
from ui.lesson import Lesson
from ui.sizing import bench, figures
from ui.sizing.place import Place, own_config

_TEXT, _FILE, _ERROR = "ks.own.text", "ks.own.file", "ks.own.error"


def checked(text: str, at: Place) -> Place:
    """The place with this config.json in it. Raises SizingError with the field's path."""
    text = text.removeprefix("\ufeff")  # what an editor may put before the first character
    own_config(text)  # an empty text is no config, though an empty `own` is none of one's own
    wanted = replace(at, own=text)
    try:
        figures.sized(wanted)
    except SizingError as exc:
        if exc.path.startswith(("config", "model")):
            raise
        wanted = replace(wanted, gpus=1, adp=1)  # it cannot be split over so many
        figures.sized(wanted)
    return wanted


def draw(lesson: Lesson) -> None:
    """The button, and behind it a field and a file."""
    state = st.session_state

    def take(text: str) -> None:
        try:
            bench.go(checked(text, bench.now()))
        except SizingError as exc:
            state[_ERROR] = str(exc)
        else:
            state[_ERROR] = ""

    def take_text() -> None:
        take(state.get(_TEXT) or "")

    def take_file() -> None:
        file = state.get(_FILE)
        if file is None:
            return
        if file.size > config_json.MAX_BYTES:
            state[_ERROR] = f"config: is larger than {config_json.MAX_BYTES:,} bytes"
            return
        try:
            take(file.getvalue().decode("utf-8-sig"))
        except UnicodeDecodeError:
            state[_ERROR] = "config: is not UTF-8 text"

    label = "Your config.json"
    with st.popover(label, icon=":material/data_object:", type="tertiary", key="ks.own"):
        st.markdown(lesson["own"])
        st.text_area("Paste it", key=_TEXT, height=180, placeholder='{"num_hidden_layers": …')
        st.button("Size this model", type="primary", on_click=take_text, key="ks.own.go")
        st.file_uploader(
            "Or choose the file", ["json"], key=_FILE, on_change=take_file, max_upload_size=1
        )
        if state.get(_ERROR):
            # It may quote what was typed: shown as text, never as markup.
            st.error(lesson["own-refused"], icon=":material/error:")
            st.code(state[_ERROR], language=None, wrap_lines=True)
        elif bench.now().own:
            st.success(lesson["own-taken"], icon=":material/check:")
