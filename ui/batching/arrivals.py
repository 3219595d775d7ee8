"""Requests that arrive over time, as scenarios: a rate, a mix, a pattern, and a draw's seed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from core import workload
from ui.batching.place import MIXES

CLASSES: dict[str, list[workload.RequestClass]] = {
    "chat": [{"weight": 1, "prompt": (6, 24), "output": (4, 32)}],
    "documents": [{"weight": 1, "prompt": (80, 200), "output": (4, 16)}],
    "mixed": [
        {"weight": 3, "prompt": (6, 24), "output": (4, 32)},
        {"weight": 1, "prompt": (80, 200), "output": (4, 16)},
    ],
}
"""Request classes by the name of their mix: tokens of the prompt and of the answer, inclusive."""

ENGINE: dict[str, Any] = {
    "num_blocks": 256,
    "block_size": 8,
    "max_num_batched_tokens": 128,
    "max_model_len": 256,
    "prefix_cache": "off",
}
"""Enough blocks for all, so that places and tokens are what is short."""


def title(place: Mapping[str, Any]) -> str:
    seats = place["seats"]
    places = "1 place" if seats == 1 else f"{seats} places"
    mix = MIXES[place["mix"]].lower() if place["mix"] != "mixed" else "short and long prompts"
    return f"{place['count']} requests, {mix}, {place['rate']} in 100 steps, {places}"


def scenario(place: Mapping[str, Any]) -> str:
    """The scenario of a place, under continuous batching, as JSON text."""
    names = ("rate", "count", "mix", "pattern", "seats", "seed")
    return _scenario(*(place[name] for name in names))


@lru_cache(maxsize=256)
def _scenario(rate: int, count: int, mix: str, pattern: str, seats: int, seed: int) -> str:
    steps = workload.arrivals(rate / 100, count, seed, pattern)
    requests = workload.mix(CLASSES[mix], count, seed)
    name = f"{count} requests, {rate} in 100 steps, draw {seed}"
    return json.dumps(workload.scenario(requests, steps, seed, name, **ENGINE, max_num_seqs=seats))
