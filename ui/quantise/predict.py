"""The prediction: what eight bits with scales take, and whether the greedy answer changes."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui import status
from ui.kit import predict
from ui.kit.predict import Choice, Number, Prediction, Said
from ui.lesson import Lesson
from ui.quantise import bench, measured, memory
from ui.quantise.place import DEFAULT, EXAMPLES, Place

KEY = "kq.predict"
_SEE = f"{KEY}.go"
INT4 = Place(fmt="int4")
_OPENING = EXAMPLES["fp8-tensor"][1]


def values() -> dict[str, Any]:
    """What the sentences name: bytes by the library, the answer's end by the recorded run."""
    eight, four = memory.of_place(DEFAULT), memory.of_place(INT4)
    shape = memory.spec().layers[0].cache
    dim = shape.key_dim
    found = measured.recorded(DEFAULT)
    return {
        "model": status.MODEL_NAME,
        "layers": memory.spec().num_layers,
        "heads": shape.num_kv_heads,
        "dim": dim,
        "packed": dim // 2,
        "double": 2 * dim,
        "dtype": "BF16",
        "own": f"{eight.own.value:,}",
        "quant": f"{eight.token.value:,}",
        "percent": round(100 * eight.ratio),
        "percent4": round(100 * four.ratio),
        "answer": found["texts"]["lengths"][0] if found else measured.ANSWER,
        "at": (found["texts"]["first"] or 0) + 1 if found else None,
        "gap": _gap(found["texts"]["gap"] if found else None),
        "parts": None if found is None else found["texts"]["first"] is not None,
    }


def _gap(nats: float | None) -> str:
    """How close the choice was where two answers part, as the end of a sentence."""
    return "" if nats is None else f", where BF16 preferred its own token by {nats:.2f} nats"


def feedback(guess: int, percent: int) -> str:
    """The section that answers a guess of the percentage: the slip that leads to it, if any."""
    if guess == percent:
        return "right"
    if guess == 50:
        return "wrong-half"
    if guess in (25, 27, 28):
        return "wrong-quarter"
    if guess in (51, 52):
        return "wrong-narrow"
    return "wrong-more" if percent < guess < 100 else "wrong"


def feedback_again(guess: int, percent: int) -> str:
    """As `feedback`, of four bits."""
    if guess == percent:
        return "again-right"
    return "again-wrong-quarter" if guess == 25 else "again-wrong"


def _first(words: Lesson, found: dict[str, Any]) -> Prediction:
    ask = words["predict"].format(**found)
    fields: tuple[Number | Choice, ...] = (Number("percent", "Percent", 400),)
    if found["parts"] is not None:
        ask = f"{ask} {words['predict-text'].format(**found)}"
        fields += (Choice("text", "The answer", (words["stays"], words["changes"])),)
    return Prediction(ask, fields, key=KEY)


def opening(words: Lesson) -> Place | None:
    """Where the instrument first stands while the prediction is open: at another format, for its
    own would answer it on the same screen. None: where it likes."""
    return None if _first(words, values()).said is not None else _OPENING


@st.fragment
def draw(words: Lesson) -> None:
    """One panel. A fragment: what reaches further draws the whole page."""
    if st.session_state.pop(_SEE, False):
        st.rerun(scope="app")
    found = values()
    asks = found["parts"] is not None
    first = _first(words, found)
    again = Prediction(words["predict-again"], (Number("four", "Percent", 400),), KEY, "4")

    def reveal(said: Said) -> None:
        guess = int(said["percent"])
        about = f"You said {guess} %."
        lines = [f"**{about}** {words[feedback(guess, found['percent'])]} {words['fact']}"]
        if asks:
            lines.append(words["text-part" if found["parts"] else "text-same"])
        with st.container(width="stretch"):
            st.markdown("\n\n".join(lines).format(**found, said=said.get("text", "")))
            predict.again(again, lambda said: _again(words, found, int(said["four"])))
        predict.ways_on(first, see=words["see"], on_see=_see, page=words.title, about=about)

    predict.draw(first, reveal)


def _again(words: Lesson, found: dict[str, Any], guess: int) -> str:
    answer = words[feedback_again(guess, found["percent4"])]
    return f"**You said {guess} %.** {answer} {words['again-fact']}".format(**found)


def _see() -> None:
    bench.go(DEFAULT)
    st.session_state[_SEE] = True
