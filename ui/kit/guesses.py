"""A number to predict before one looks, and a second one that turns on the same thought: what was
said is answered by the slip that leads to it, and the instrument can be set to the case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import streamlit as st

from ui.kit import predict
from ui.kit.predict import Number, Prediction, Said
from ui.lesson import Lesson


@dataclass(frozen=True, slots=True)
class Guesses:
    """key: prefix of the widgets' keys. fields: names of the two numbers; suffix: what the second
    question is told apart by; most: of both. feedback, feedback_again: the lesson's section that
    answers a guess. values: what its sentences name. case: puts the instrument to the case.

    The lesson's sections: predict, predict-field, predict-again, again-field, fact, again-fact,
    locked-see."""

    key: str
    fields: tuple[str, str]
    suffix: str
    most: int
    feedback: Callable[[int], str]
    feedback_again: Callable[[int], str]
    values: Callable[[], Mapping[str, str]]
    case: Callable[[], None]

    def draw(self, words: Lesson, about: str, *, shown: str = "") -> None:
        """One panel, which can be skipped. about: what was said, with {guess}; shown: Markdown
        below the question."""
        values, moved = self.values(), f"{self.key}.moved"
        ask = words["predict"].format(**values)
        first = Prediction(
            f"{ask}  \n{shown}" if shown else ask,
            (Number(self.fields[0], words["predict-field"], self.most),),
            key=self.key,
        )
        second = Prediction(
            words["predict-again"].format(**values),
            (Number(self.fields[1], words["again-field"], self.most),),
            key=self.key,
            suffix=self.suffix,
        )

        def see() -> None:
            self.case()
            st.session_state[moved] = True

        def reveal(said: Said) -> None:
            guess = int(said[self.fields[0]])
            told = about.format(guess=f"{guess:,}")
            answer = words[self.feedback(guess)].format(**values)
            with st.container(width="stretch"):
                st.markdown(f"**{told}** {answer} {words['fact'].format(**values)}")
                predict.again(second, again)
            predict.ways_on(
                first, see=words["locked-see"], on_see=see, page=words.title, about=told
            )

        def again(said: Said) -> str:
            guess = int(said[self.fields[1]])
            answer = words[self.feedback_again(guess)].format(**values)
            return f"**You said {guess:,}.** {answer} {words['again-fact'].format(**values)}"

        @st.fragment
        def panel() -> None:
            if st.session_state.pop(moved, False):  # the instrument is no part of this fragment
                st.rerun(scope="app")
            predict.draw(first, reveal)

        panel()
