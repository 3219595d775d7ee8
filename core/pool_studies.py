"""One scenario under other conditions: block sizes, allocators, and pools of every size.

The requests stay; what differs is the memory that serves them, so that two runs can be compared.
"""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Literal

from core.errors import ScenarioError
from core.scenario import RequestSpec, Scenario
from core.workload import draw

BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
LARGE = 4_096
"""Pools above this are shown as a map of density; their workloads do without a prefix cache, whose
keys would be most of the run file."""
MAX_TOKENS = 78_000
"""Most prompt tokens of a `pool_scenario`, about: a browser is to hold its run."""


def with_block_size(scenario: Scenario, block_size: int) -> Scenario | None:
    """The same scenario with other blocks and as many bytes: slots · (bytes of a token) stays.

    Where the pool's slots are no multiple of the size, the rest is too small for a block. None if
    not even one block fits.
    """
    engine = scenario.engine
    num_blocks = engine.num_blocks * engine.block_size // block_size
    if num_blocks < 1:
        return None
    changed = dataclasses.replace(engine, num_blocks=num_blocks, block_size=block_size)
    return dataclasses.replace(scenario, engine=changed)


def both_allocators(
    scenario: Scenario, reserve: Literal["request", "max_model_len"]
) -> tuple[Scenario, Scenario]:
    """(paged, contiguous): same requests, same pool, no prefix cache and no watermark in either, so
    that they differ in nothing but the way memory is given out: a reservation has no watermark.

    Raises ScenarioError for what a contiguous reservation cannot hold (n > 1, forks, beams).
    """

    def under(allocator: Literal["paged", "contiguous"], name: str) -> Scenario:
        engine = dataclasses.replace(
            scenario.engine,
            allocator=allocator,
            prefix_cache="off",
            watermark=0.0,
            reserve=reserve,
        )
        changed = dataclasses.replace(scenario, name=name, engine=engine)
        return Scenario.from_dict(changed.to_dict())

    return under("paged", "Paged"), under("contiguous", "Contiguous")


def pool_scenario(num_blocks: int, seed: int = 0) -> Scenario:
    """A pool of `num_blocks` blocks that fills up, shares, waits and preempts; the same for a seed.

    Half of the requests begin with a common system prompt. Prompts and answers grow with the pool,
    so that its picture is never empty, up to what a run file can hold. Raises ScenarioError for
    fewer than 64 blocks.
    """
    if num_blocks < 64:
        raise ScenarioError("num_blocks", f"{num_blocks} is too small a pool for this workload")
    rng = Random(f"pool {num_blocks} {seed}")
    large = num_blocks > LARGE
    block_size = 2 if large else 16
    # A small pool is asked for more than it has; a large one for what a browser can hold of it.
    wanted = min(MAX_TOKENS, num_blocks * block_size * (8 if large else 13) // 10)
    count = max(10, min(48, num_blocks // 24))
    mean = wanted // count
    system = [1_000 + i for i in range(mean // 4)]
    requests = []
    for i in range(count):
        length = draw(rng, mean // 2, mean * 3 // 2)
        shared = system if i % 2 == 0 else []
        # Ids tell who wrote what: no two requests share more than the system prompt.
        own = [10_000 + 2_000 * i + j % 2_000 for j in range(max(8, length - len(shared)))]
        requests.append(
            RequestSpec(
                id=f"R{i}",
                arrive_step=i // 4 + draw(rng, 0, 2),
                prompt_tokens=(*shared, *own),
                max_tokens=draw(rng, 12, 60),
                n=2 if i % 8 == 0 else 1,
            )
        )
    longest = max(len(spec.prompt_tokens or ()) for spec in requests) + 64
    base = Scenario(name=f"A pool of {num_blocks:,} blocks")
    engine = dataclasses.replace(
        base.engine,
        num_blocks=num_blocks,
        block_size=block_size,
        max_num_seqs=48,
        max_num_batched_tokens=max(512, mean * 6),
        max_model_len=longest,
        prefix_cache="off" if large else "radix",
    )
    scenario = dataclasses.replace(base, engine=engine, requests=tuple(requests))
    return Scenario.from_dict(scenario.to_dict())
