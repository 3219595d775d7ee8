"""The visitor's own scenario, as a form and as JSON side by side.

What was typed stays typed: an error is shown beside the fields and changes none of them. A
successful run fills both sides from the scenario that ran.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.errors import KVScopeError, ScenarioError
from core.scenario import Scenario
from ui import choice, forms, runs

JSON = "own.json"
_BASE = "own.rows"
_VERSION = "own.version"
_EDITED = "own.edited"
_ERROR = "own.error"
_SOURCE = "own.source"
_NAME = "own.name"
_MODEL = "own.model"
_ONLY_JSON = "own.only_json"
_SHOWN = "own.shown"


def _field(name: str) -> str:
    return f"own.engine.{name}"


def fill(text: str) -> None:
    """Put a scenario into both sides. Text that is no scenario goes into the JSON side alone."""
    state = st.session_state
    state[JSON] = text
    state[_ERROR] = None
    try:
        scenario = Scenario.from_json(text)
    except ScenarioError:
        scenario = Scenario()
    engine, rows = forms.to_form(scenario)
    for name, value in engine.items():
        state[_field(name)] = value
    state[_NAME] = scenario.name or "My scenario"
    state[_MODEL] = scenario.model
    state[_ONLY_JSON] = not forms.fits_form(scenario)
    state[_BASE] = rows[: forms.MAX_ROWS]
    state[_EDITED] = state[_BASE]
    state[_VERSION] = state.get(_VERSION, 0) + 1


def sync(text: str | None) -> None:
    """Follow the picture: fill both sides when it shows another scenario than the last one."""
    if text is not None and st.session_state.get(_SOURCE) != text:
        st.session_state[_SOURCE] = text
        fill(text)


def park() -> None:
    """The editor is closed: keep the table's cells, which Streamlit would forget with it."""
    state = st.session_state
    if state.pop(_SHOWN, False):
        state[_BASE] = state[_EDITED]
        state[_VERSION] += 1


def _run(text: str, where: str) -> None:
    """Check, and play it. On an error nothing changes but the message."""
    state = st.session_state
    try:
        scenario = Scenario.from_json(text)
        runs.simulate(text)
    except ScenarioError as exc:
        state[_ERROR] = (where, exc.path, exc.message)
        return
    except KVScopeError as exc:
        state[_ERROR] = (where, "", str(exc))
        return
    edited = state[choice.CHOICE] == "own"
    choice.set_own(scenario, base=state[choice.BASE] if edited else None)
    state[_SOURCE] = state[choice.OWN]
    fill(state[choice.OWN])


def _run_form() -> None:
    import json

    state = st.session_state
    engine = {f.name: state[_field(f.name)] for f in forms.ENGINE_FIELDS}
    try:
        data = forms.to_scenario(engine, state[_EDITED], name=state[_NAME], model=state[_MODEL])
    except ScenarioError as exc:
        state[_ERROR] = ("form", exc.path, exc.message)
        return
    _run(json.dumps(data), "form")


def _show_error(where: str) -> None:
    found = st.session_state.get(_ERROR)
    if found and found[0] == where:
        _, path, message = found
        # Both come from what was typed: shown as text, never as markup.
        if path:
            st.error(
                "This field was refused. Nothing you typed was changed.", icon=":material/error:"
            )
            st.code(f"{path}\n{message}", language=None, wrap_lines=True)
        else:
            st.error("This was refused. Nothing you typed was changed.", icon=":material/error:")
            st.code(message, language=None, wrap_lines=True)


def draw(text: str | None) -> None:
    """The editor. text: the scenario of the picture, which both sides start from."""
    sync(text)
    if JSON not in st.session_state:
        fill(forms.pretty(Scenario()))
    st.session_state[_SHOWN] = True
    form_tab, json_tab = st.tabs(["As a form", "As JSON"])
    with form_tab:
        _draw_form()
    with json_tab:
        st.text_area("Scenario", key=JSON, height=340, persist_state="session")
        _show_error("json")
        st.button(
            "Run this scenario",
            key="own.run.json",
            type="primary",
            on_click=lambda: _run(st.session_state[JSON], "json"),
        )


def _draw_form() -> None:
    state = st.session_state
    if state[_ONLY_JSON]:
        st.info(
            "This scenario says more than the form can show. Run from here, the rest is dropped."
        )
    st.text_input("Name", key=_NAME, persist_state="session", max_chars=200)
    columns = st.columns(4)
    for i, field in enumerate(forms.ENGINE_FIELDS):
        with columns[i % 4]:
            _engine_widget(field)
    state[_EDITED] = _rows_editor(state[_BASE])
    _show_error("form")
    st.button("Run this scenario", key="own.run.form", type="primary", on_click=_run_form)


def _engine_widget(field: forms.EngineField) -> None:
    key = _field(field.name)
    value = st.session_state.get(key)
    common: dict[str, Any] = {"key": key, "help": field.help or None, "persist_state": "session"}
    if field.options is not None:
        st.selectbox(field.label, field.options, **common)
    elif isinstance(value, bool):
        st.toggle(field.label, **common)
    elif isinstance(value, float):
        st.number_input(field.label, step=0.05, format="%.2f", **common)
    else:
        # No bounds here: an absurd value is refused by the reader, with its path and the reason.
        st.number_input(field.label, step=1, **common)


def _rows_editor(base: list[dict[str, Any]]) -> list[dict[str, Any]]:
    import pandas as pd

    frame = pd.DataFrame(base, columns=list(forms.COLUMNS))
    for column in forms.TEXT_COLUMNS:
        frame[column] = frame[column].astype("object")
    for column in forms.NUMBER_COLUMNS:
        frame[column] = frame[column].astype("float64")
    number = st.column_config.NumberColumn
    text = st.column_config.TextColumn
    edited = st.data_editor(
        frame,
        key=f"own.rows.{st.session_state[_VERSION]}",
        num_rows="dynamic",
        hide_index=True,
        alt="The requests of your scenario, one a row",
        column_config={
            "id": text("id", help="A letter or a name, without #", width=64),
            "arrive_step": number("arrive_step", format="%d", width=112),
            "prompt": text("prompt", help="Text; one token per byte", width=100),
            "prompt_tokens": text("prompt_tokens", help="Or token ids: 1, 2, 3", width=196),
            "max_tokens": number("max_tokens", format="%d", width=114),
            "n": number("n", format="%d", help="Answers to this prompt", width=56),
            "priority": number("priority", format="%d", width=88),
            "cache_salt": text("cache_salt", width=104),
            "cancel_step": number("cancel_step", format="%d", width=114),
            "output_tokens": text("output_tokens", help="The script of what is sampled", width=150),
            "fork_of": text("fork_of", help="A running sequence to start from", width=84),
        },
    )
    rows: list[dict[str, Any]] = edited.to_dict("records")
    return rows
