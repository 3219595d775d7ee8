"""Generators: each draws fresh numbers and computes every answer, the wrong ones too.

A wrong answer is not a number near the right one. It is what someone gets who holds a particular
misconception, computed by the same functions from the misread inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from quiz.draw import batching, capacity, kv, paging, phases, prefix
from quiz.items import Drawn

GENERATORS: dict[str, Callable[[Random], Drawn]] = {
    "phase_facts": phases.phase_facts,
    "passes": phases.passes,
    "decode_floor": phases.decode_floor,
    "compute_bound_batch": phases.compute_bound_batch,
    "intensity": phases.intensity,
    "bytes_per_token": kv.bytes_per_token,
    "bytes_sequence": kv.bytes_sequence,
    "streams": kv.streams,
    "blocks_and_slots": paging.blocks_and_slots,
    "reserved_waste": paging.reserved_waste,
    "fork_copies": paging.fork_copies,
    "prefix_hits": prefix.prefix_hits,
    "static_start": batching.static_start,
    "static_idle": batching.static_idle,
    "three_bounds": capacity.three_bounds,
}
