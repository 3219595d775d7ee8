"""When the turns of conversations come: each once the one before it has been answered.

When that is depends on who else is there and on what the pool holds, so the engine says it: the
conversations are held on it, without a model. Where two engines are to be compared, each turn comes
in the same step on both: it waits for the slower answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from core.config import EngineConfig
from core.engine import Engine
from core.request import Request
from core.runner import ScriptedRunner
from core.scenario import RequestSpec, Scenario

Turn = tuple[list[int], list[int]]
"""Tokens of a prompt and of its answer."""

APART = 2
"""Steps between the first turns of two users."""
PAUSE = 3
"""Steps from the one that samples an answer's last token to the one in which the next turn comes:
two go by in between."""


@dataclass(slots=True)
class _User:
    """due: the step of the next turn; None while one is being answered, and after the last."""

    turns: Sequence[Turn]
    due: int | None
    steps: list[int] = field(default_factory=list)
    asked: list[Request] = field(default_factory=list)


def arrivals(
    conversations: Iterable[Sequence[Turn]], engines: Iterable[EngineConfig]
) -> list[list[int]]:
    """The step in which each turn of each user comes.

    As a scenario, ordered by step and then by user, these turns run on each of the engines as they
    did here. Raises RequestError for a turn that an engine would reject.
    """
    users = [_User(turns, APART * i if turns else None) for i, turns in enumerate(conversations)]
    held = [Engine(Scenario(engine=one), ScriptedRunner(), trace=False) for one in engines]
    step = 0
    while any(user.due is not None or user.asked for user in users):
        for i, user in enumerate(users):
            if user.due == step:
                prompt, answer = user.turns[len(user.steps)]
                spec = RequestSpec(
                    id=f"{i}.{len(user.steps)}",
                    arrive_step=step,
                    prompt_tokens=tuple(prompt),
                    max_tokens=len(answer),
                    output_tokens=(tuple(answer),),
                )
                user.asked = [request for engine in held for request in engine.add([spec])]
                user.steps.append(step)
                user.due = None
        for engine in held:
            engine.step()
        for user in users:
            if user.asked and all(request.ended for request in user.asked):
                user.asked = []
                if len(user.steps) < len(user.turns):
                    user.due = step + PAUSE
        step += 1
    return [user.steps for user in users]
