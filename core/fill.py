"""A plan made small enough to watch: N sequences fill a small pool, and N + 1 must wait.

The plan's proportions stay: blocks of a sequence, those that all share, the rest that no sequence
fits into, and which of the three bounds is the least. The prediction is the library's own, for the
small pool; the scheduler that runs the scenario knows nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.sizing import capacity, catalog, kv
from core.sizing.plan import Plan

BLOCK = 4
"""Tokens of a block of the small pool."""
MOST_BLOCKS = 8
"""Blocks of a sequence of the small pool."""
MOST_SEQUENCES = 6
MODEL = "smollm2-135m"
"""Any model with keys and values in every layer: only blocks are counted."""

REASONS = {
    "blocks": "no_free_blocks",
    "max_num_seqs": "max_num_seqs",
    "max_num_batched_tokens": "token_budget",
}
"""What binds a plan → why the scheduler lets one more wait."""


@dataclass(frozen=True, slots=True)
class Fill:
    """scenario: N + 1 requests. predicted: N, by `max_streams`. bounds: what each of the three
    would allow. binding: the least of them. blocks: of the pool, of a sequence, and of them
    shared."""

    scenario: dict[str, Any]
    predicted: int
    bounds: dict[str, int]
    binding: str
    blocks: tuple[int, int, int]

    @property
    def reason(self) -> str:
        """Why the last request waits."""
        return REASONS[self.binding]


def small(plan: Plan) -> Fill | None:
    """The scenario of a plan; None if it is not paged, or not one sequence fits."""
    d = plan.deployment
    if d.allocator != "paged" or not plan.batch:
        return None
    whole = -(-d.context // d.block_size)
    binding = plan.binding if plan.binding in REASONS else "blocks"
    # A token budget fills over several steps, and a sequence of one block is over before it has.
    least = 2 if binding == "max_num_batched_tokens" else 1
    each = max(least, min(whole, MOST_BLOCKS))
    common = min(d.prefix_tokens, d.context - 1) // d.block_size if d.prefix_cache else 0
    shared = min(each - 1, max(1 if common else 0, round(common * each / whole)))
    wanted = min(plan.batch, MOST_SEQUENCES)
    if binding == "max_num_batched_tokens":  # prompts are too short there to share a block
        shared = 0
    room = wanted if binding == "blocks" else wanted + 2
    rest = _rest(plan, each - shared)
    pool = shared + room * (each - shared) + rest
    engine = {
        "num_blocks": pool,
        "block_size": BLOCK,
        "max_num_seqs": wanted if binding == "max_num_seqs" else wanted + 2,
        "max_num_batched_tokens": wanted
        if binding == "max_num_batched_tokens"
        else each * BLOCK * (wanted + 1),
        "max_model_len": each * BLOCK + 1,
    }
    bounds = _bounds(engine, each * BLOCK, shared * BLOCK)
    predicted = min(bounds.values())
    binds = min(bounds, key=lambda name: bounds[name])
    scenario = {
        "schema": "scenario/1",
        "name": f"{predicted} fit, one more waits",
        "engine": engine,
        "requests": _requests(predicted + 1, each, shared, binding),
    }
    return Fill(scenario, predicted, bounds, binds, (pool, each, shared))


def _rest(plan: Plan, own: int) -> int:
    """Blocks left over when the sequences have theirs, in proportion: too few for one more."""
    held = plan.num_blocks.value
    of_one = plan.blocks_per_sequence.value
    if not held or not of_one:
        return 0
    return int(held) % int(of_one) * own // int(of_one)


def _bounds(engine: dict[str, int], tokens: int, prefix: int) -> dict[str, int]:
    model = catalog.get(MODEL)
    block = kv.kv_bytes_per_token(model).value
    pool = engine["num_blocks"] * engine["block_size"] * int(block or 0)
    found = capacity.max_streams(
        model,
        tokens,
        block_size=engine["block_size"],
        per_gpu_pool_bytes=pool,
        prefix_tokens=prefix,
    )
    return {
        "blocks": int(found.value or 0),
        "max_num_seqs": engine["max_num_seqs"],
        "max_num_batched_tokens": engine["max_num_batched_tokens"],
    }


def _requests(count: int, each: int, shared: int, binding: str) -> list[dict[str, Any]]:
    """The first alone, so that its prefix is in the cache when the others come. A prompt begins its
    last block and the answer fills it, so that from its first step on a sequence holds what it
    holds in the end."""
    common = list(range(1, shared * BLOCK + 1))
    prompt, answer = (each - 1) * BLOCK + 1, BLOCK
    if binding == "max_num_batched_tokens":
        # Short prompts, long answers: else the first ends before the last has come in.
        common, prompt, answer = [], 2, (each - 1) * BLOCK
    return [
        {
            "id": chr(ord("A") + index),
            "arrive_step": 1 if common and index else 0,
            "prompt_tokens": [
                *common,
                *(1000 * (index + 1) + place for place in range(prompt - len(common))),
            ],
            "max_tokens": answer,
        }
        for index in range(count)
    ]
