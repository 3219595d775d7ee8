"""Generators: each draws fresh numbers and computes every answer, the wrong ones too.

A wrong answer is not a number near the right one. It is what someone gets who holds a particular
misconception, computed by the same functions from the misread inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from quiz.draw import (
    attention,
    batching,
    capacity,
    kv,
    kv_pool,
    metrics,
    paging,
    phases,
    prefix,
    roofline,
    serving,
    steps,
)
from quiz.items import Drawn

GENERATORS: dict[str, Callable[[Random], Drawn]] = {
    "phase_facts": phases.phase_facts,
    "passes": phases.passes,
    "decode_floor": phases.decode_floor,
    "compute_bound_batch": phases.compute_bound_batch,
    "intensity": phases.intensity,
    "held_tokens": serving.held_tokens,
    "in_flight": serving.in_flight,
    "held_steps": serving.held_steps,
    "balance": serving.balance,
    "ttft": metrics.ttft,
    "tpot": metrics.tpot,
    "latency": metrics.latency,
    "goodput": metrics.goodput,
    "percentile": metrics.percentile,
    "output_rate": metrics.output_rate,
    "recompute": attention.recompute,
    "groups": attention.groups,
    "one_head": attention.one_head,
    "window": attention.window,
    "bytes_per_token": kv.bytes_per_token,
    "bytes_sequence": kv.bytes_sequence,
    "streams": kv.streams,
    "block": kv_pool.block,
    "longest": kv_pool.longest,
    "scales": kv_pool.scales,
    "kv_share": kv_pool.share,
    "prefill_flops": steps.prefill_flops,
    "runs_to_first": steps.runs_to_first,
    "mixed_step": steps.mixed_step,
    "ridge": roofline.ridge,
    "attainable": roofline.attainable,
    "peak_share": roofline.share,
    "kv_read": roofline.kv_read,
    "step_time": roofline.step_time,
    "measured_share": roofline.measured_share,
    "crossing": roofline.crossing,
    "blocks_and_slots": paging.blocks_and_slots,
    "reserved_waste": paging.reserved_waste,
    "fork_copies": paging.fork_copies,
    "prefix_hits": prefix.prefix_hits,
    "static_start": batching.static_start,
    "static_idle": batching.static_idle,
    "three_bounds": capacity.three_bounds,
}
