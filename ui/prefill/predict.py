"""The prediction panel: commit two ratios, run the experiment, see them beside the measurement."""

from __future__ import annotations

import html

import streamlit as st

from ui.lesson import Lesson
from ui.prefill import bench
from ui.prefill.grading import Doubling, doubling, feedback

_TTFT, _GAP, _LOCKED = "pd.predict.ttft", "pd.predict.gap", "pd.predict.locked"
_DEFAULT = 1.0


def _lock() -> None:
    state = st.session_state
    if state.get(_TTFT) is not None and state.get(_GAP) is not None:
        state[_LOCKED] = (float(state[_TTFT]), float(state[_GAP]))
        state[bench.MEASURED] = None  # what was measured before the prediction does not answer it


def draw(words: Lesson) -> None:
    """Before the lock two fields; after it, what was said and, once measured, what is."""
    state = st.session_state
    with st.container(key="kv-pd-predict"):
        st.markdown(f"**Predict first.** {words['predict']}")
        if _LOCKED not in state:
            with st.container(horizontal=True):
                for key, name in ((_TTFT, "predict-ttft"), (_GAP, "predict-gap")):
                    st.number_input(
                        words[name],
                        min_value=0.1,
                        max_value=99.0,
                        value=None,
                        step=0.1,
                        format="%.1f",
                        placeholder="× 1.0",
                        key=key,
                    )
            st.button("Lock it in", type="primary", on_click=_lock, key="pd.predict.lock")
            return
        said = state[_LOCKED]
        found = doubling(state.get(bench.MEASURED))
        st.html(_bars(words, said, found))
        if found is None:
            st.markdown("Locked. Now press **Double the prompt** and see it measured.")
            return
        answers = " ".join(words[name] for name in feedback(found, *said))
        st.markdown(f"{answers}\n\n{words['fact'].format(**found.values())} ({found.label})")


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
