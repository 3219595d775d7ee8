"""How many sequences a replica runs: the least of three bounds, and what people take for it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from core import fill
from core.sizing import catalog, gpus
from core.sizing.deployment import Deployment
from core.sizing.plan import Plan, plan
from quiz.items import Answer, Drawn, Proof

MODEL, GPU, BLOCK = "llama-3.1-70b", "h100-sxm5", 16


def _draw(rng: Random) -> tuple[Plan, int]:
    """A plan, and what its blocks would hold if nothing were shared."""
    context = 1024 * rng.choice((2, 3, 4, 6, 8))
    shared = Deployment(
        catalog.get(MODEL),
        gpus.get(GPU),
        tp=2,
        context=context,
        prefix_tokens=context // rng.choice((2, 4, 8)),
        weight_dtype="fp8",
        kv_dtype="fp8",
        block_size=BLOCK,
        max_num_seqs=rng.choice((24, 32, 48, 64, 96, 128, 160, 192, 256)),
        max_num_batched_tokens=rng.choice((2048, 4096, 8192)),
    )
    return plan(shared), plan(replace(shared, prefix_tokens=0)).bounds["blocks"]


def three_bounds(rng: Random) -> Drawn:
    """Sequences that one scheduler runs at once, with the pool counted in blocks."""
    made, apart = _draw(rng)
    while apart in made.bounds.values():  # a slip that leads to a right number
        made, apart = _draw(rng)
    d, right, blocks = made.deployment, made.batch, made.bounds["blocks"]
    context, prefix, limit, budget = (
        d.context,
        d.prefix_tokens,
        d.max_num_seqs,
        d.max_num_batched_tokens,
    )
    wrong = {
        "blocks_only": blocks,
        "limit_only": limit,
        "budget_only": budget,
        "unshared": apart,
    }
    pool = int(made.num_blocks.value or 0)
    whole, shared = context // BLOCK, prefix // BLOCK
    small = fill.small(made)
    assert small is not None  # the pool holds several
    return Drawn(
        values={
            "pool": f"{pool:,}",
            "context": f"{context:,}",
            "prefix": f"{prefix:,}",
            "shared": f"{shared:,}",
            "own": f"{whole - shared:,}",
            "whole": f"{whole:,}",
            "limit": f"{limit:,}",
            "budget": f"{budget:,}",
            "blocks": f"{blocks:,}",
            "right": f"{right:,}",
            "reason": small.reason,
            "small": f"{small.predicted}",
        },
        answers={
            "right": Answer(f"{right:,} sequences"),
            **{
                name: Answer(f"{value:,} sequences")
                for name, value in wrong.items()
                if value != right
            },
        },
        sign=f"{context} {prefix} {limit} {budget}",
        drawn=f"{pool:,} blocks",
        given=(
            f"pool {pool:,} blocks of {BLOCK}",
            f"max_num_seqs {limit}",
            f"max_num_batched_tokens {budget:,}",
        ),
        proof=Proof({"own": small.scenario, "step": 1 if small.blocks[2] else 0}),
    )
