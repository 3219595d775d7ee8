"""What a guess of the prediction shows: the least of the three bounds, or the one that was missed.

The case is chosen so that each slip gives another number; the numbers come from the library.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ui.planner import figures
from ui.planner.place import Place

CASE = Place(seqs=128)
"""Two H100 whose blocks would hold more than the scheduler lets run."""


@cache
def slips() -> dict[str, int]:
    """Section of the lesson → the number that leads to it."""
    plan = figures.planned(CASE).plan
    apart = figures.planned(replace(CASE, sys=0)).plan
    whole, shared = plan.blocks_per_sequence.value or 0, CASE.sys // CASE.bs
    return {
        "right": plan.batch,
        "wrong-blocks": plan.bounds["blocks"],
        "wrong-tokens": plan.bounds["max_num_batched_tokens"],
        "wrong-shared": apart.bounds["blocks"],
        "wrong-all-shared": int(plan.num_blocks.value or 0) // (int(whole) - shared),
        "wrong-users": CASE.users,
    }


@cache
def again() -> int:
    """The answer to the second question: the same with a limit that does not bind."""
    return figures.planned(replace(CASE, seqs=256)).plan.batch


def feedback(guess: int) -> str:
    """The section that answers a guess."""
    return next((name for name, value in slips().items() if value == guess), "wrong")


def feedback_again(guess: int) -> str:
    """The section that answers the second guess."""
    if guess == again():
        return "again-right"
    return "again-wrong-limit" if guess in (256, CASE.seqs) else "again-wrong"


@cache
def values() -> dict[str, str]:
    """What the lesson's sentences name."""
    plan = figures.planned(CASE).plan
    whole = int(plan.blocks_per_sequence.value or 0)
    out = {
        "pool": int(plan.num_blocks.value or 0),
        "bs": CASE.bs,
        "ctx": CASE.ctx,
        "sys": CASE.sys,
        "whole": whole,
        "shared": CASE.sys // CASE.bs,
        "own": whole - CASE.sys // CASE.bs,
        "seqs": CASE.seqs,
        "tokens": CASE.batch,
        "users": CASE.users,
        "blocks": plan.bounds["blocks"],
        "apart": slips()["wrong-shared"],
        "right": plan.batch,
        "again": again(),
    }
    return {name: f"{value:,}" for name, value in out.items()}
