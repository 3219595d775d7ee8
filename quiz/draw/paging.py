"""Paging: whole blocks on demand, what a reservation wastes, what a fork copies."""

from __future__ import annotations

from random import Random

from quiz.draw.common import calc, counted, percent, scenario
from quiz.items import Answer, Drawn, Proof


def _blocks(blocks: int, empty: int) -> Answer:
    return Answer(counted(blocks, "block"), counted(empty, "empty slot"))


def blocks_and_slots(rng: Random) -> Drawn:
    """Blocks that a sequence takes, and slots that stay empty."""
    block_size = rng.choice((4, 8, 16))
    tokens = block_size * rng.randrange(3, 9) + rng.randrange(1, block_size)
    longest = 16 * block_size
    blocks = int(calc("blocks_for_tokens", tokens=tokens, block_size=block_size))
    reserved = int(calc("blocks_for_tokens", tokens=longest, block_size=block_size))
    engine = {
        "num_blocks": 32,
        "block_size": block_size,
        "max_model_len": longest,
        "max_num_batched_tokens": 256,
        "prefix_cache": "off",
    }
    request = {"id": "A", "prompt_tokens": list(range(1, tokens + 1)), "max_tokens": 1}
    own = scenario(f"{tokens} tokens in blocks of {block_size}", engine, [request])
    return Drawn(
        values={
            "tokens": tokens,
            "block_size": block_size,
            "longest": longest,
            "blocks": blocks,
            "full": blocks - 1,
            "left": tokens - (blocks - 1) * block_size,
            "empty": blocks * block_size - tokens,
        },
        answers={
            "right": _blocks(blocks, blocks * block_size - tokens),
            "rounded_down": _blocks(blocks - 1, 0),
            "block_each": _blocks(tokens, tokens * (block_size - 1)),
            "reserved": _blocks(reserved, reserved * block_size - tokens),
            "one_run": Answer(counted(1, "block"), f"of {tokens} slots, none empty"),
        },
        sign=f"{tokens} {block_size}",
        given=(f"tokens {tokens}", f"block_size {block_size}", f"max_model_len {longest}"),
        proof=Proof({"own": own}),
    )


def reserved_waste(rng: Random) -> Drawn:
    """The empty share of a reservation for the longest sequence there may be."""
    reserved = rng.choice((2048, 4096, 8192))
    used = rng.randrange(2, 13) * reserved // 64 + rng.randrange(1, 16)
    block_size = 16
    paged = int(calc("blocks_for_tokens", tokens=used, block_size=block_size)) * block_size
    waste = calc("contiguous_waste_fraction", used=used, reserved=reserved)
    return Drawn(
        values={
            "reserved": f"{reserved:,}",
            "used": used,
            "waste": percent(waste),
            "slots": f"{reserved - used:,}",
            "paged": paged - used,
        },
        answers={
            "right": Answer(percent(waste), "empty"),
            "used_share": Answer(percent(used / reserved), "empty"),
            "last_block": Answer(
                percent(calc("contiguous_waste_fraction", used=used, reserved=paged)), "empty"
            ),
            "grows": Answer(percent(0), "empty"),
        },
        sign=f"{used} {reserved}",
        given=(f"max_model_len {reserved:,}", f"tokens {used}"),
        proof=Proof({"scenario": "contiguous"}),
    )


def fork_copies(rng: Random) -> Drawn:
    """Blocks that are copied when n answers to one prompt begin to write."""
    block_size = rng.choice((4, 8))
    tokens = block_size * rng.randrange(2, 6) + rng.randrange(1, block_size)
    n = rng.randrange(3, 6)
    blocks = int(calc("blocks_for_tokens", tokens=tokens, block_size=block_size))
    copied = int(
        calc("cow_copied_bytes", prefix=tokens, n=n, bytes_per_token=1, block_size=block_size)
    )
    engine = {"num_blocks": 64, "block_size": block_size, "max_num_batched_tokens": 128}
    engine["max_model_len"] = 128
    prompt = list(range(1, tokens + 1))
    request = {"id": "A", "prompt_tokens": prompt, "max_tokens": 3, "n": n}
    own = scenario(f"One prompt of {tokens} tokens, {n} answers", engine, [request])
    return Drawn(
        values={
            "tokens": tokens,
            "block_size": block_size,
            "n": n,
            "blocks": blocks,
            "full": blocks - 1,
            "copies": n - 1,
        },
        answers={
            "right": Answer(counted(copied // block_size, "block")),
            "all_write": Answer(counted(n, "block")),
            "whole_prompt": Answer(counted((n - 1) * blocks, "block")),
            "each_its_own": Answer(counted(n * blocks, "block")),
            "never": Answer("0 blocks"),
        },
        sign=f"{tokens} {block_size} {n}",
        given=(f"prompt {tokens} tokens", f"block_size {block_size}", f"n {n}"),
        proof=Proof({"own": own, "step": 1}),
    )
