"""Static and continuous batching. Every answer is counted in a run of the scheduler itself; a
misconception is the same requests under the settings that it takes for granted."""

from __future__ import annotations

from random import Random
from typing import Any

from core.scenario import Scenario
from core.simulate import simulate
from quiz.draw.common import calc, counted, percent, scenario
from quiz.items import Answer, Drawn, Proof

LATE = "D"


def _scenario(lengths: list[int], **engine: Any) -> dict[str, Any]:
    settings = {
        "num_blocks": 64,
        "block_size": 4,
        "max_num_seqs": 3,
        "max_num_batched_tokens": 64,
        "max_model_len": 64,
        "prefix_cache": "off",
        "batching": "static",
        **engine,
    }
    requests = [
        {"id": name, "prompt_tokens": [1 + i, 2, 3], "max_tokens": length, "arrive_step": 0}
        for i, (name, length) in enumerate(zip("ABC", lengths, strict=True))
    ]
    late = {"id": LATE, "prompt_tokens": [9, 2, 3], "max_tokens": 3, "arrive_step": 1}
    name = f"Answers of {lengths[0]}, {lengths[1]} and {lengths[2]} tokens, {settings['batching']}"
    return scenario(name, settings, [*requests, late])


def first_step(content: dict[str, Any], request: str = LATE) -> int:
    """The step in which the scheduler first gives a request tokens to compute."""
    for step in simulate(Scenario.from_dict(content)).steps:
        if request in step["scheduled"]:
            return int(step["step"])
    raise AssertionError(f"{request} never ran")


def _lengths(rng: Random) -> list[int]:
    """Three answers of different lengths, the longest far from the shortest, in any order."""
    short = rng.randrange(2, 6)
    middle = short + rng.randrange(2, 5)
    lengths = [short, middle, middle + rng.randrange(3, 9)]
    rng.shuffle(lengths)
    return lengths


def static_start(rng: Random) -> Drawn:
    """The step in which a request that came too late for a static batch first runs."""
    lengths = _lengths(rng)
    content = _scenario(lengths)
    answers = {
        "right": first_step(content),
        "slot_free": first_step(_scenario(lengths, batching="continuous")),
        "one_by_one": first_step(_scenario(lengths, max_num_seqs=1)),
        "at_once": first_step(_scenario(lengths, max_num_seqs=4, batching="continuous")),
    }
    return Drawn(
        values={
            "a": lengths[0],
            "b": lengths[1],
            "c": lengths[2],
            "shortest": min(lengths),
            "longest": max(lengths),
            "right": answers["right"],
            "slot_free": answers["slot_free"],
        },
        answers={key: Answer(f"step {value}") for key, value in answers.items()},
        sign=" ".join(map(str, lengths)),
        given=("max_num_seqs 3", f"answers {', '.join(map(str, lengths))} tokens", "D at step 1"),
        proof=Proof({"own": content, "step": answers["slot_free"]}),
    )


def static_idle(rng: Random) -> Drawn:
    """The idle share of the slots of a static batch."""
    lengths = _lengths(rng)
    longest, total = max(lengths), sum(lengths)
    idle = calc("contiguous_waste_fraction", used=total / 3, reserved=longest)
    return Drawn(
        values={
            "a": lengths[0],
            "b": lengths[1],
            "c": lengths[2],
            "longest": longest,
            "all": 3 * longest,
            "total": total,
            "idle": counted(3 * longest - total, "slot-step"),
        },
        answers={
            "right": Answer(percent(idle), "idle"),
            "busy": Answer(percent(total / 3 / longest), "idle"),
            "shortest_only": Answer(
                percent(calc("contiguous_waste_fraction", used=min(lengths), reserved=longest)),
                "idle",
            ),
            "over_busy": Answer(percent((3 * longest - total) / total), "idle"),
            "refilled": Answer(percent(0), "idle"),
        },
        sign=f"idle {' '.join(map(str, lengths))}",
        given=("max_num_seqs 3", f"answers {', '.join(map(str, lengths))} tokens"),
        proof=Proof({"own": _scenario(lengths), "step": min(lengths)}),
    )
