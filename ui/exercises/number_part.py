"""A part that asks for a number: entered with its unit, diagnosed, derived."""

from __future__ import annotations

import html

import streamlit as st

from core.sizing.expressions import Value
from quiz.exercises.diagnose import Diagnosis
from quiz.exercises.exercise import Part
from quiz.exercises.quantity import MAX_CHARS
from ui import derivation
from ui.components import derivation as steps
from ui.exercises import answers
from ui.exercises.place import Place
from ui.kit import store, text
from ui.reading.formats import readable

HEADS = {
    "right": "Right",
    "unit": "The unit",
    "misconception": "A known slip",
    "rounding": "Rounding",
    "magnitude": "Order of magnitude",
    "off": "Not yet",
    "unread": "Cannot be read",
}
"""A verdict in words: its colour only repeats it."""


def draw(place: Place, part: Part, *, present: bool) -> None:
    """The question, the field, what is to be said about the answer, and the derivation."""
    key = answers.key(place, part)
    field = f"{key}.text"
    if field not in st.session_state:
        st.session_state[field] = answers.said(place, part)

    def check() -> None:
        answers.say(place, part, (st.session_state.get(field) or "").strip())
        store.begin()

    def show() -> None:
        answers.show(place, part)
        store.begin()

    with st.container(key=f"kv-ex-part-{part.id}"):
        text.draw(f"**{part.id}** {part.ask}")
        found, shown = answers.judged(place, part), answers.is_shown(place, part)
        right = found is not None and found.verdict == "right"
        with st.container(horizontal=True, vertical_alignment="bottom", key=f"kv-ex-row-{part.id}"):
            with (
                st.form(f"{key}.form", border=False, width="content"),
                st.container(horizontal=True, vertical_alignment="bottom"),
            ):
                st.text_input(
                    f"Answer to {part.id}, with its unit",
                    placeholder=f"like {part.like}",
                    max_chars=MAX_CHARS,
                    key=field,
                    label_visibility="collapsed",
                    width=160,
                )
                st.form_submit_button("Check", on_click=check, key=f"{key}.check")
            if not (right or shown):
                st.button("Show me", type="tertiary", on_click=show, key=f"{key}.show")
        st.html(f'<div role="status">{_feedback(found)}</div>')
        if right or shown:
            _answer(key, part, present=present)


def _feedback(found: Diagnosis | None) -> str:
    if found is None:
        return ""
    read_as = (
        f'<span class="kv-ex-read">read as {html.escape(found.read_as)}</span>'
        if found.read_as
        else ""
    )
    tone = {"right": "ok", "off": "bad", "unread": "bad"}.get(found.verdict, "warn")
    says = "" if found.verdict == "right" else f" {html.escape(found.says)}"
    head = html.escape(HEADS[found.verdict])
    return f'<p class="kv-ex-fb {tone}"><b>{head}.</b>{says} {read_as}</p>'


def _answer(key: str, part: Part, *, present: bool) -> None:
    """The value, the formula with values put in, and behind a fold every step."""
    assert part.derived is not None and part.target is not None
    unit = part.target.base
    rows = [("Formula", part.formula)] if part.formula else []
    rows += [("" if i else "With values", s) for i, s in enumerate(lines(part.derived, unit))]
    body = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(line)}</dd>" for name, line in rows
    )
    st.html(
        f'<div class="kv-ex-answer"><p><b>{html.escape(part.answer)}</b></p><dl>{body}</dl></div>'
    )
    if part.fact:
        text.draw(part.fact)
    with st.container(horizontal=True, vertical_alignment="top", key=f"kv-ex-more-{part.id}"):
        if part.claims:
            links = ", ".join(f"[{id}](claims_ledger?claim={id})" for id in part.claims)
            text.draw(f"What is said of it: {links}")
    fold = st.expander("Every step, from the sizing library", key=f"{key}.steps", on_change="rerun")
    if fold.open:
        with fold:
            steps.show(derivation.of_value(part.derived), present=present, key=f"{key}.dv")


def lines(value: Value, unit: str = "") -> list[str]:
    """A value with its numbers put in, the last lines of its derivation. unit: of arithmetic.

    One call: its own steps. Arithmetic over calls: each call by its number.
    """
    last = value.calls[-1] if value.calls else None
    if last is not None and value.text == last.text:
        return [
            f"{readable(one.substituted)} = {_number(one.value, one.unit)}"
            for one in last.result.steps
        ]
    said = value.text
    for call in value.calls:
        said = said.replace(call.text, derivation.number(call.result.value))
    return [f"{said} = {_number(value.number, unit)}"]


def _number(value: object, unit: str) -> str:
    return derivation.number(value, "" if unit == "fraction" else unit)
