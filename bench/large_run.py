"""A run on a large pool for the player: many sequences, prefixes shared, blocks evicted."""

from __future__ import annotations

import random
from typing import Any

from core.scenario import Scenario
from core.simulate import simulate
from core.trace.run import Run

BLOCKS = 4096
BLOCK_SIZE = 16
RUNNING = 16
REQUESTS = 48


def large_run(blocks: int = BLOCKS, requests: int = REQUESTS) -> Run:
    """The same every time. With the defaults about 350 steps and 1.8 MB of JSON."""
    generator = random.Random(0)
    room = blocks * BLOCK_SIZE // RUNNING  # tokens a running sequence may hold if all are alike

    def request(index: int) -> dict[str, Any]:
        length = generator.randrange(room // 2, room * 3 // 4)
        own = [generator.randrange(100, 9000) for _ in range(length)]
        return {
            "id": f"R{index}",
            "arrive_step": 4 * index,
            "prompt_tokens": [7] * (64 * (index % 4)) + own,
            "max_tokens": generator.randrange(60, 120),
            "ignore_eos": True,
        }

    scenario = {
        "schema": "scenario/1",
        "name": f"{requests} requests on {blocks:,} blocks",
        "engine": {
            "num_blocks": blocks,
            "block_size": BLOCK_SIZE,
            "max_num_seqs": RUNNING,
            "max_num_batched_tokens": 2048,
            "max_model_len": 8192,
            "prefix_cache": "radix",
        },
        "requests": [request(index) for index in range(requests)],
    }
    return simulate(Scenario.from_dict(scenario))
