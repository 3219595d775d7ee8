"""A prediction that locks, then reveals: commit first, then see what the engine does.

A reader who only browses can skip it. What is locked stays locked, and their browser remembers it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import streamlit as st

from quiz.progress import MAX_ABOUT_CHARS, Predicted, Progress, now
from ui import nav
from ui.kit import notebook, store

Said = dict[str, int | str]


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number from 0 to `most`."""

    key: str
    label: str
    most: int = 999

    def takes(self, value: object) -> bool:
        return type(value) is int and 0 <= value <= self.most


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few."""

    key: str
    label: str
    options: tuple[str, ...]

    def takes(self, value: object) -> bool:
        return value in self.options


@dataclass(frozen=True, slots=True)
class Prediction:
    """ask: the question, Markdown. key: prefix of its widgets' keys, one for all predictions that
    are closed together. suffix: tells the second and later ones of a key apart."""

    ask: str
    fields: tuple[Number | Choice, ...]
    key: str = "predict"
    suffix: str = ""

    @property
    def _state(self) -> str:
        return f"{self.key}.locked{self.suffix}"

    @property
    def name(self) -> str:
        """Under which the browser remembers it."""
        return f"{st.session_state.get(nav.HERE, '')}/{self.key}{self.suffix}"

    @property
    def said(self) -> Said | None:
        """What was locked, in this session or before; None until then."""
        found: Said | None = st.session_state.get(self._state)
        return found or self.remembered

    @property
    def remembered(self) -> Said | None:
        """What was locked in an earlier session, if this is still what is asked."""
        known = store.progress()
        before = None if known is None else known.predictions.get(self.name)
        if before is None or before.ask != self._asked or self._state in st.session_state:
            return None
        fields = {field.key: field for field in self.fields}
        fits = fields.keys() == before.said.keys() and all(
            fields[key].takes(value) for key, value in before.said.items()
        )
        return before.said if fits and not st.session_state.get(f"{self.key}.anew") else None

    @property
    def _asked(self) -> str:
        return self.ask[:MAX_ABOUT_CHARS]

    def lock(self) -> None:
        """Lock what stands in the fields. With a field empty nothing happens."""
        values = {f.key: st.session_state.get(f"{self.key}.{f.key}") for f in self.fields}
        if all(value is not None for value in values.values()) and self.said is None:
            st.session_state[self._state] = values
            said = Predicted(now(), values, self._asked)
            store.save((store.progress() or Progress()).with_prediction(self.name, said))
            store.begin()

    def ask_fields(self, labels: Literal["visible", "collapsed"] = "collapsed") -> None:
        """The fields, one after the other."""
        for field in self.fields:
            key = f"{self.key}.{field.key}"
            if isinstance(field, Number):
                st.number_input(
                    field.label,
                    placeholder=field.label.lower(),
                    label_visibility=labels,
                    min_value=0,
                    max_value=field.most,
                    value=None,
                    step=1,
                    key=key,
                    width=128,
                )
            else:
                st.segmented_control(field.label, field.options, key=key, label_visibility=labels)

    def widgets(self, *, primary: bool) -> None:
        """The fields and the button that locks them, in the present row."""
        self.ask_fields()
        st.button(
            "Lock it in",
            type="primary" if primary else "secondary",
            on_click=self.lock,
            key=f"{self.key}.lock{self.suffix}",
        )


def row() -> st.delta_generator.DeltaGenerator:
    return st.container(horizontal=True, vertical_alignment="center")


def close(key: str = "predict") -> None:
    """Put the panel away for this session."""
    st.session_state[f"{key}.closed"] = True


def draw(prediction: Prediction, reveal: Callable[[Said], None], *, name: str = "predict") -> None:
    """One slim panel: the question, and once it is locked what `reveal` draws. name: of the
    container, another one for each panel of a page."""
    if st.session_state.get(f"{prediction.key}.closed"):
        return
    with st.container(key=f"kv-{name}"), row():
        if prediction.said is not None:
            reveal(prediction.said)
        else:
            st.markdown(f"**Predict first.** {prediction.ask}", width="stretch")
            prediction.widgets(primary=True)
            _close_button("Skip", prediction.key)


def again(prediction: Prediction, reveal: Callable[[Said], str]) -> None:
    """A second question inside a reveal. reveal: what is said once it is locked, as Markdown."""
    if prediction.said is None:
        with row():
            st.markdown(prediction.ask, width="content")
            prediction.widgets(primary=False)
    else:
        st.markdown(f"{prediction.ask} {reveal(prediction.said)}")


def ways_on(
    prediction: Prediction,
    *,
    see: str,
    on_see: Callable[[], None],
    page: str,
    about: str,
    label: str = "What changed your mind?",
) -> None:
    """The buttons behind a reveal: to the engine, into the notebook, and away."""
    store.follow()
    st.button(see, icon=":material/play_arrow:", on_click=on_see, key=f"{prediction.key}.see")
    with st.popover(label, icon=":material/edit_note:", key=f"{prediction.key}.mind"):
        notebook.ask(page, about, key=f"{prediction.key}.note", label=label)
    if prediction.remembered is not None:
        anew = f"{prediction.key}.anew"
        st.button(
            "Predict again",
            type="tertiary",
            on_click=lambda: st.session_state.update({anew: True}),
            key=f"{prediction.key}.afresh",
        )
    _close_button("Close", prediction.key)


def _close_button(label: str, key: str) -> None:
    name = f"{key}.{label.lower()}"
    st.button(label, type="tertiary", on_click=lambda: close(key), key=name)
