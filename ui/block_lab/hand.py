"""By hand: what is done after a step becomes an edit of the scenario, and the run goes on from it.

The past stays as it was (see `core.by_hand`), so the player stands at the next step of a new run.
"""

from __future__ import annotations

import random
import re
from dataclasses import asdict, dataclass
from typing import Any

import streamlit as st

from core import by_hand
from core.errors import KVScopeError
from core.scenario import Scenario
from ui import catalogue, choice, forms, runs
from ui.components.hand_bar import hand_bar

KEY = "bp.hand"
_PAST = "bp.hand.past"
_SAID = "bp.hand.said"
_MOST_UNDO = 50
_MOST_WORDS = 128
"""Tokens of the script that a new request gets: it is in the link. Longer answers have no words."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What can be done in a run: spans as the component takes them, and why nothing can."""

    spans: list[dict[str, Any]]
    refused: str | None


@st.cache_resource(ttl=3600, max_entries=64, show_spinner=False)
def _reach(run_id: str, _played: runs.Played) -> Reach:
    data = _played.data()
    try:
        by_hand.as_script(data)
    except KVScopeError as exc:
        return Reach([], str(exc))
    found = [asdict(span) for span in by_hand.spans(data)]
    return Reach([{"seq": one.pop("sequence"), **one} for one in found], None)


def draw(played: runs.Played, *, present: bool) -> None:
    """The row beside the player."""
    state = st.session_state
    reach = _reach(played.packed.id, played)
    engine = played.header["scenario"]["engine"]
    turn, said, chosen = state.get(_SAID, (0, None, None))
    hand_bar(
        {
            "id": played.packed.id,
            "at": choice.step_now(),
            "spans": reach.spans,
            "refused": reach.refused,
            "forks": engine["allocator"] == "paged" and engine["batching"] == "continuous",
            "text": not _base(),
            "undo": len(state.get(_PAST, ())),
            "said": said,
            "turn": turn,
            "chosen": chosen,
            "present": present,
        },
        key=KEY,
        on_act=_act,
    )


def _base() -> str | None:
    """The recorded run whose tokens the present choice is made of."""
    kind, _, name = st.session_state[choice.CHOICE].partition(":")
    if kind == "run":
        return name
    base: str | None = st.session_state[choice.BASE] if kind == "own" else None
    return base


def _act() -> None:
    """Carry out what the browser asks for. Whatever it sends, the answer is one sentence."""
    action = st.session_state[KEY].act
    try:
        said, chosen = _undo() if action["kind"] == "undo" else _do(action)
    except KVScopeError as exc:
        said, chosen = str(exc), None
    except (KeyError, TypeError, ValueError, AttributeError):
        said, chosen = "That was not understood, so nothing was done.", None
    turn = st.session_state.get(_SAID, (0, None, None))[0]
    st.session_state[_SAID] = (turn + 1, said, chosen)


def _do(action: dict[str, Any]) -> tuple[str, str | None]:
    state = st.session_state
    played = choice.current_run()
    if action["run"] != played.packed.id:
        return "The picture had changed before the click arrived, so nothing was done.", None
    data, step = played.data(), int(action["step"])
    if not 0 <= step < max(1, len(data["steps"])):
        raise ValueError(step)
    scenario, said, chosen = make(data, step, action)
    scenario = _named(scenario)
    base = _base()
    runs.simulate(forms.pretty(scenario), base=base or "")  # refused here, nothing has changed yet
    past = [*state.get(_PAST, ()), _place(step)]
    state[_PAST] = past[-_MOST_UNDO:]
    choice.set_own(scenario, base=base)
    choice.go(step + 1)
    return said, chosen


def make(data: runs.RunData, step: int, action: dict[str, Any]) -> tuple[Scenario, str, str]:
    """The scenario that an action makes of a run, what it did, and whom to look at now.

    Raises KVScopeError, and KeyError, TypeError or ValueError for what is no action.
    """
    kind, after = action["kind"], f"Step {step + 1}: "
    if kind == "add":
        scenario, how = _added(data, step, action)
        new = scenario.requests[-1].id
        return scenario, f"{after}{new} arrives{how}.", new
    sequence = str(action["seq"])
    if kind == "fork":
        words = answers(data["header"], 1, _MOST_WORDS)
        scenario = by_hand.fork(data, step, sequence, words[0] if words else ())
        new = scenario.requests[-1].id
        return scenario, f"{after}{new} goes on from {sequence}, with the same blocks.", new
    if kind == "cancel":
        scenario = by_hand.cancel(data, step, sequence)
        return scenario, f"{after}the request of {sequence} is cancelled.", sequence
    if kind == "finish":
        scenario = by_hand.finish(data, step, sequence)
        return scenario, f"{sequence} ends with the next token that it samples.", sequence
    raise ValueError(kind)


def _added(data: runs.RunData, step: int, action: dict[str, Any]) -> tuple[Scenario, str]:
    max_tokens, n = int(action["max_tokens"]), int(action["n"])
    spoken = answers(data["header"], n, max_tokens)
    asks: dict[str, Any] = {"max_tokens": max_tokens, "n": n, "answers": spoken}
    if "text" in action:
        return by_hand.add(data, step, prompt=str(action["text"]), **asks), ""
    own = own_tokens(data["header"], int(action["own"]))
    if "seq" not in action:
        return by_hand.add(data, step, prompt_tokens=own, **asks), ""
    sequence = str(action["seq"])
    shared = by_hand.prefix_of(data, step, sequence, int(action["shared"]))
    scenario = by_hand.add(data, step, prompt_tokens=[*shared, *own], **asks)
    return scenario, f" and begins like {sequence}: {len(shared)} tokens"


def own_tokens(header: runs.RunData, count: int) -> list[int]:
    """Tokens for a new prompt: other ones for each request."""
    known = _words(header)
    rng = random.Random(len(header["scenario"]["requests"]))
    return [rng.choice(known) for _ in range(min(count, runs.MAX_PROMPT_TOKENS))]


def answers(header: runs.RunData, n: int, max_tokens: int) -> list[list[int]] | None:
    """A script of words for each of a new request's answers; None where it would be too long."""
    if n < 1 or max_tokens < 1 or n * max_tokens > _MOST_WORDS:
        return None
    known = _words(header)
    rng = random.Random(f"answers {len(header['scenario']['requests'])}")
    return [[rng.choice(known) for _ in range(max_tokens)] for _ in range(n)]


def _words(header: runs.RunData) -> list[int]:
    """Tokens that have a word as text in this run, so that what is made of them can be read."""
    texts = header.get("token_text", {})
    known = sorted(int(t) for t, text in texts.items() if re.fullmatch(r"\W?\w{2,}", text))
    return known if len(known) >= 8 else sorted(map(int, catalogue.words()))


def _named(scenario: Scenario) -> Scenario:
    from dataclasses import replace

    name = scenario.name or "A run"
    return scenario if name.endswith(_MARK) else replace(scenario, name=f"{name[:180]}{_MARK}")


_MARK = ", by hand"


def _place(step: int) -> tuple[Any, ...]:
    state = st.session_state
    return (state[choice.CHOICE], state.get(choice.OWN), state[choice.BASE], step)


def _undo() -> tuple[str, str | None]:
    state = st.session_state
    if not state.get(_PAST):
        return "Nothing was done by hand yet.", None
    *state[_PAST], (chosen, own, base, step) = state[_PAST]
    state[choice.OWN], state[choice.BASE] = own, base
    choice.choose(chosen)
    choice.go(step)
    return "Taken back.", None
