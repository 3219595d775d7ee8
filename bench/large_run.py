"""A run on a large pool for the player: many sequences, prefixes shared, blocks evicted."""

from __future__ import annotations

import random
from typing import Any

from core.scenario import Scenario
from core.simulate import simulate
from core.trace.run import Run

BLOCKS = 4096
HUGE = 65_536
BLOCK_SIZE = 16
RUNNING = 16
REQUESTS = 48


def large_run(blocks: int = BLOCKS, requests: int | None = None) -> Run:
    """The same every time. With the defaults about 350 steps and 1.8 MB of JSON.

    A larger pool has more sequences, not longer ones; then a prompt says one phrase of 64 tokens
    again and again, so that the file stays a file that one would send.
    """
    generator = random.Random(0)
    times = max(1, blocks // BLOCKS)
    running = RUNNING * times
    count = requests or (REQUESTS if times == 1 else running + running // 8)
    room = blocks * BLOCK_SIZE // running  # tokens a running sequence may hold if all are alike

    def request(index: int) -> dict[str, Any]:
        length = generator.randrange(room // 2, room * 3 // 4)
        own = [generator.randrange(100, 9000) for _ in range(length if times == 1 else 64)]
        prompt = own * (length // len(own))
        return {
            "id": f"R{index}",
            "arrive_step": 4 * index // times,
            "prompt_tokens": [7] * (64 * (index % 4)) + prompt,
            "max_tokens": generator.randrange(60, 120),
            "ignore_eos": True,
        }

    scenario = {
        "schema": "scenario/1",
        "name": f"{count} requests on {blocks:,} blocks",
        "engine": {
            "num_blocks": blocks,
            "block_size": BLOCK_SIZE,
            "max_num_seqs": running,
            "max_num_batched_tokens": 2048 * min(8, times),
            "max_model_len": 8192,
            "prefix_cache": "radix",
        },
        "requests": [request(index) for index in range(count)],
    }
    return simulate(Scenario.from_dict(scenario))
