"""What the scheduler and the block manager do with the numbers just drawn."""

from __future__ import annotations

from typing import Any

from core.scenario import Scenario
from core.simulate import simulate
from quiz.draw.common import scenario

Step = dict[str, Any]


def request(
    name: str, prompt: int, output: int, arrive: int = 0, *, first: int = 1, **more: Any
) -> dict[str, Any]:
    """A request by its lengths. first: its first token; prompts with another one share nothing."""
    tokens = list(range(first, first + prompt))
    base = {"id": name, "prompt_tokens": tokens, "max_tokens": output, "arrive_step": arrive}
    return {**base, **more}


def content(name: str, requests: list[dict[str, Any]], **engine: Any) -> dict[str, Any]:
    """A scenario in a pool that is large enough for all, unless it says otherwise."""
    settings = {
        "num_blocks": 128,
        "block_size": 4,
        "max_num_seqs": 32,
        "max_num_batched_tokens": 512,
        "max_model_len": 256,
        "prefix_cache": "off",
        **engine,
    }
    return scenario(name, settings, requests)


def steps(made: dict[str, Any]) -> list[Step]:
    """The steps of a run of the scenario."""
    return list(simulate(Scenario.from_dict(made)).steps)


def events(made: dict[str, Any], kind: str, name: str | None = None) -> list[Step]:
    """The events of one kind, in order; name: of one request alone."""
    return [
        event
        for step in steps(made)
        for event in step["events"]
        if event["type"] == kind and name in (None, event["request"])
    ]


def first_step(made: dict[str, Any], name: str) -> int:
    """The step in which a request first gets tokens to compute."""
    return next(int(step["step"]) for step in steps(made) if name in step["scheduled"])
