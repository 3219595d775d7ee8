"""The prediction panel: commit two ratios, run the experiment, see them beside the measurement."""

from __future__ import annotations

import html

import streamlit as st

from ui.kit import predict, store
from ui.kit.predict import Choice, Prediction, Said
from ui.lesson import Lesson
from ui.prefill import bench
from ui.prefill.grading import OPTIONS, Doubling, doubling, feedback

KEY = "pd.predict"
_WISHED = f"{KEY}.wished"


@st.fragment
def draw(words: Lesson) -> None:
    """Before the lock two questions; after it, what was said and, once measured, what is so.

    A fragment: a choice draws nothing else again. What reaches further draws the whole page."""
    if st.session_state.pop(_WISHED, False):
        st.rerun(scope="app")
    store.follow()
    fields = tuple(Choice(key, words[f"predict-{key}"], tuple(OPTIONS)) for key in ("ttft", "gap"))
    asked = Prediction(words["predict"], fields, key=KEY)
    if st.session_state.get(f"{KEY}.closed"):
        return
    with st.container(key="kv-pd-predict"):
        if asked.said is None:
            _ask(asked)
        else:
            _reveal(words, asked, asked.said)


def _ask(asked: Prediction) -> None:
    def lock() -> None:
        asked.lock()
        # What was measured before the prediction does not answer it.
        st.session_state[bench.MEASURED] = None

    st.markdown(f"**Predict first.** {asked.ask}")
    asked.ask_fields("visible")
    with st.container(horizontal=True):
        st.button("Lock it in", type="primary", on_click=lock, key=f"{KEY}.lock")
        st.button("Skip", type="tertiary", on_click=predict.close, args=(KEY,), key=f"{KEY}.skip")


def _run() -> None:
    bench.run_experiment("double")
    st.session_state[_WISHED] = True


def _reveal(words: Lesson, asked: Prediction, said: Said) -> None:
    ttft, gap = OPTIONS[str(said["ttft"])], OPTIONS[str(said["gap"])]
    found = doubling(st.session_state.get(bench.MEASURED))
    st.html(_bars(words, (ttft, gap), found))
    if found is None:
        st.markdown(words["locked"])
        st.button(words["run-it"], type="primary", on_click=_run, key="pd.run")
        return
    answers = " ".join(words[name] for name in feedback(found, ttft, gap))
    st.markdown(f"{answers}\n\n{words['fact'].format(**found.values())} ({found.label})")
    with st.container(horizontal=True):
        predict.ways_on(
            asked,
            see=words["run-again"],
            on_see=_run,
            page=words.title,
            about=f"You said first token {said['ttft']}, gap {said['gap']}.",
        )


def _bars(words: Lesson, said: tuple[float, float], found: Doubling | None) -> str:
    measured = (found.ttft_ratio, found.gap_ratio) if found else (None, None)
    most = max(1.0, *said, *(value for value in measured if value is not None))
    rows = []
    for name, guess, true in zip(("predict-ttft", "predict-gap"), said, measured, strict=True):
        rows.append(f'<span class="g">{html.escape(words[name])}</span>')
        for label, value, cls in (
            ("Before", 1.0, ""),
            ("You said", guess, "you"),
            ("Measured", true, "" if true is not None else "none"),
        ):
            wide = 0 if value is None else 100 * value / most
            number = "" if value is None else f"× {value:.2f}"
            rows.append(
                f'<span>{label}</span><span class="bar {cls}"><i style="width:{wide:.1f}%"></i>'
                f'</span><span class="num">{number}</span>'
            )
    return f'<div class="kv-est">{"".join(rows)}</div>'
