"""The prefix cache: whole blocks from the first token."""

from __future__ import annotations

from random import Random

from core.sizing.prefix import reusable_tokens
from quiz.draw.common import counted, scenario
from quiz.items import Answer, Drawn, Proof


def prefix_hits(rng: Random) -> Drawn:
    """Tokens that a prompt need not compute when it leaves a cached one at some token."""
    block_size = rng.choice((4, 8, 16))
    blocks = rng.randrange(6, 11)
    tokens = block_size * blocks + rng.randrange(1, block_size)
    alike = block_size * rng.randrange(2, blocks - 2) + rng.randrange(1, block_size)
    found = reusable_tokens(alike, tokens - alike, block_size)
    engine = {"num_blocks": 64, "block_size": block_size, "max_num_batched_tokens": 256}
    engine["max_model_len"] = 256
    first = list(range(1, tokens + 1))
    second = [*first[:alike], 999, *first[alike + 1 :]]
    own = scenario(
        f"{alike} of {tokens} tokens alike, blocks of {block_size}",
        engine,
        [
            {"id": "A", "prompt_tokens": first, "max_tokens": 2},
            {"id": "B", "arrive_step": 3, "prompt_tokens": second, "max_tokens": 2},
        ],
    )
    return Drawn(
        values={
            "tokens": tokens,
            "block_size": block_size,
            "alike": alike,
            "differs": alike + 1,
            "found": found,
            "blocks": found // block_size,
            "left": alike - found,
        },
        answers={
            "right": Answer(counted(found, "token")),
            "tokens": Answer(counted(alike, "token")),
            "hole": Answer(counted((blocks - 1) * block_size, "token")),
            "rounded_up": Answer(counted(found + block_size, "token")),
            "nothing": Answer("0 tokens"),
        },
        sign=f"{tokens} {alike} {block_size}",
        given=(f"prompt {tokens} tokens", f"alike {alike}", f"block_size {block_size}"),
        proof=Proof({"own": own, "step": 3}),
    )
