"""Rules of thumb and of arithmetic, held against a plan.

Each rule is a function that looks at the plan and says PASS, NOTICE (worth a thought), PROBLEM or
UNKNOWN (the plan does not say what the rule needs), with the numbers it saw. The words, thresholds
and sources are in `data/advice.json`; basis tells a rule that follows from the numbers from one
that somebody made up because it usually works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.sizing import capacity, chunks, kv_format, kv_layers, prefix, scales, tiers
from core.sizing.plan import Plan
from core.sizing.result import Number
from core.sizing.rules import NOTICE, PASS, PROBLEM, UNKNOWN, Finding, rules
from core.sizing.units import both

Saw = dict[str, Any]
Verdict = tuple[str, Saw] | None
"""A status and what was seen; None where the rule does not apply to the plan."""


def advise(plan: Plan) -> list[Finding]:
    """What every rule that applies finds, in the order of the file."""
    out = []
    for name, rule in rules().items():
        verdict = _CHECKS[name](plan, rule.threshold)
        if verdict is not None:
            status, saw = verdict
            out.append(Finding(rule, status, rule.saw.format(**saw), saw))
    return out


def _worse(bad: bool, status: str = PROBLEM) -> str:
    return status if bad else PASS


def _weights_leave_room(plan: Plan, _: dict[str, float]) -> Verdict:
    d = plan.deployment
    budget = int(d.gpu.visible_bytes * d.gpu_memory_utilization)
    room = _int(plan.kv_pool_per_gpu.value)
    return _worse(room == 0), {
        "budget": both(budget),
        "weights": both(_int(plan.weights_per_gpu.value)),
        "overhead": both(_int(plan.overhead.value)),
        "pool": both(room) if room else "nothing",
    }


def _one_sequence_fits(plan: Plan, _: dict[str, float]) -> Verdict:
    held, pool = plan.held.value, _int(plan.kv_pool_per_gpu.value)
    if not pool or held is None:
        return None  # weights_leave_room speaks of an empty pool
    return _worse(held < 1), {
        "context": plan.deployment.context,
        "needed": both(_int(plan.sequence_in_pool.value)),
        "pool": both(pool),
    }


def _context_within_model(plan: Plan, _: dict[str, float]) -> Verdict:
    limit = plan.deployment.model.max_position
    if limit is None:
        return None
    context = plan.deployment.context
    return _worse(context > limit), {"context": context, "limit": limit}


def _contiguous_reservation(plan: Plan, at: dict[str, float]) -> Verdict:
    d = plan.deployment
    if d.allocator != "contiguous":
        return None
    rows = kv_layers.of_model(plan.model, d.kv_format)
    used, room = (kv_layers.per_sequence(rows, length) for length in (d.context, d.longest))
    if not room:
        return None
    waste = 1 - used / room
    windows = any(row.window is not None and row.window < d.longest for row in rows)
    saw = {
        "reserved": d.longest,
        "used": d.context,
        "waste": waste,
        "windows": " (a layer with a window reserves no more than that)" if windows else "",
    }
    return (PROBLEM if waste > at["waste"] else NOTICE), saw


def _block_size(plan: Plan, at: dict[str, float]) -> Verdict:
    d = plan.deployment
    if d.allocator != "paged":
        return None
    saw = {"block_size": d.block_size, "context": d.context}
    if d.block_size > at["too_large"]:
        return PROBLEM, saw
    coarse = d.block_size >= at["coarse"] and d.context <= at["long_context"]
    return _worse(coarse, NOTICE), saw


def _last_block_waste(plan: Plan, at: dict[str, float]) -> Verdict:
    d, empty, kept = plan.deployment, plan.last_block_waste.value, plan.kv_per_sequence.value
    if d.allocator != "paged" or empty is None or not kept:
        return None
    waste = empty / kept
    saw = {"tokens": (d.block_size - 1) / 2, "waste": waste, "context": d.context}
    return _worse(waste > at["waste"], NOTICE), saw


def _fifo_eviction(plan: Plan, _: dict[str, float]) -> Verdict:
    d = plan.deployment
    if not d.prefix_cache:
        return None
    return _worse(d.eviction == "fifo"), {"eviction": d.eviction}


def _bits(plan: Plan) -> float:
    """Bits of one element of K, scales of the format itself included."""
    return 8 * plan.deployment.kv_format.key.bytes_per_element


def _evaluated(plan: Plan) -> dict[str, Any]:
    done = plan.deployment.evaluated
    return {
        "bits": _bits(plan),
        "evaluated": "they were evaluated" if done else "nothing says that they were evaluated",
    }


def _int4_kv_evaluated(plan: Plan, at: dict[str, float]) -> Verdict:
    if _bits(plan) > at["bits"]:
        return None
    return _worse(not plan.deployment.evaluated), _evaluated(plan)


def _kv_8bit_evaluated(plan: Plan, at: dict[str, float]) -> Verdict:
    four = rules()["int4_kv_evaluated"].threshold["bits"]
    if not four < _bits(plan) <= at["bits"]:
        return None
    return _worse(not plan.deployment.evaluated, NOTICE), _evaluated(plan)


_SCALE_WORDS = {
    scales.NONE: "that the plan does not name",
    scales.PER_TENSOR: "per tensor",
    scales.PER_HEAD_STATIC: "per head",
    scales.PER_TOKEN: "per token",
    scales.PER_TOKEN_HEAD: "per token and head",
    scales.PER_GROUP: "per group",
}


def _per_tensor_scales(plan: Plan, _: dict[str, float]) -> Verdict:
    fmt = plan.deployment.kv_format
    if not fmt.key.quantised or fmt.key.own_scales:
        return None
    kind = fmt.scales.kind
    status = {scales.PER_TENSOR: PROBLEM, scales.NONE: UNKNOWN}.get(kind, PASS)
    return status, {"scale": _SCALE_WORDS[kind]}


def _prefix_cache_hit_rate(plan: Plan, at: dict[str, float]) -> Verdict:
    d = plan.deployment
    if not d.prefix_cache or d.hit_rate is None:
        return None
    shared = min(d.prefix_tokens, d.prompt_tokens)
    saved = prefix.prefill_reduction(shared, d.prompt_tokens - shared, d.hit_rate).value
    status = PROBLEM if d.hit_rate < at["off"] else _worse(d.hit_rate < at["target"], NOTICE)
    saw = {"shared": shared, "prompt": d.prompt_tokens, "hit_rate": d.hit_rate, "saved": saved}
    return status, saw


def _disaggregation_early(plan: Plan, at: dict[str, float]) -> Verdict:
    d = plan.deployment
    ttft = _ttft(plan)
    gpus = d.gpus if d.fleet_gpus is None else d.fleet_gpus
    apart = (
        gpus > at["apart_gpus"],
        d.prompt_tokens > at["apart_prompt"],
        ttft > at["apart_ttft_s"],
    )
    together = (
        gpus < at["together_gpus"],
        d.prompt_tokens < at["together_prompt"],
        ttft < at["together_ttft_s"],
    )
    where = "apart" if d.disaggregated else "together"
    saw = {"gpus": gpus, "prompt": d.prompt_tokens, "ttft_ms": 1000 * ttft, "where": where}
    if d.disaggregated:
        return (PROBLEM if any(together) else _worse(not all(apart), NOTICE)), saw
    return _worse(all(apart), NOTICE), saw


def _kv_headroom(plan: Plan, at: dict[str, float]) -> Verdict:
    d = plan.deployment
    held = plan.held
    if d.users is None or not held.value:
        return None
    usage = d.users / held.value
    saw = {"users": d.users, "usage": usage, "replicas": _count(d.dp, "replica")}
    saw["room"] = "reservations" if d.allocator == "contiguous" else "blocks"
    if usage > at["preempts"]:
        return PROBLEM, saw
    return _worse(not at["idle"] <= usage <= at["full"], NOTICE), saw


def _memory_utilization(plan: Plan, at: dict[str, float]) -> Verdict:
    used = plan.deployment.gpu_memory_utilization
    status = PROBLEM if used > at["high"] else _worse(used < at["low"], NOTICE)
    return status, {"utilization": used}


def _kv_replication(plan: Plan, at: dict[str, float]) -> Verdict:
    tp, copies = plan.deployment.tp, plan.kv_replication.value
    if tp == 1 or copies is None:
        return None
    return _worse(copies > at["copies"]), {"tp": tp, "copies": copies}


def _weights_without_math(plan: Plan, _: dict[str, float]) -> Verdict:
    d = plan.deployment
    kept = d.stored()
    wanted = kept.main.compute
    saw = {"weight_dtype": kept.name, "gpu": d.gpu.title, "peaks": ", ".join(d.gpu.peaks)}
    return _worse(wanted not in d.gpu.peaks, NOTICE), saw


def _kv_bytes_bind(plan: Plan, at: dict[str, float]) -> Verdict:
    d, bits = plan.deployment, _bits(plan)
    if bits <= at["bits"] or plan.binding not in ("blocks", "memory") or not plan.streams.value:
        return None
    rows = kv_layers.of_stages(plan.model, kv_format.of("fp8"), d.layout)
    unit = d.block_size if d.allocator == "paged" else 1
    length = d.context if d.allocator == "paged" else d.longest
    each = [
        capacity.demand(stage, length, unit, d.prefix_tokens).fits(pool)
        for stage, pool in zip(rows, plan.stage_pools, strict=True)
    ]
    halved = min((n for n in each if n is not None), default=0) * d.schedulers
    return NOTICE, {"streams": plan.streams.value, "bits": bits, "halved": halved}


def _sequence_limit(plan: Plan, at: dict[str, float]) -> Verdict:
    d, bounds = plan.deployment, plan.bounds
    if plan.binding != "max_num_seqs":
        return None
    memory = bounds.get("blocks", bounds.get("memory"))
    if memory is None:
        return None
    saw = {"limit": d.max_num_seqs, "held": memory, "context": d.context}
    return _worse(d.max_num_seqs < at["idle"] * memory, NOTICE), saw


def _ttft(plan: Plan) -> float:
    stated = plan.deployment.ttft_s
    return rules()["first_token"].threshold["default_ttft_s"] if stated is None else stated


def _itl(plan: Plan, at: dict[str, float]) -> float:
    stated = plan.deployment.itl_s
    return at["default_itl_s"] if stated is None else stated


def _first_token(plan: Plan, _: dict[str, float]) -> Verdict:
    time, limit = plan.prefill.value, _ttft(plan)
    if time is None:
        return None
    hit = "" if plan.prefill_hit is None else ", if it finds nothing cached"
    least = time
    if plan.prefill_hit is not None and plan.prefill_hit.value is not None:
        least = plan.prefill_hit.value
        hit += f", and {1000 * least:,.0f} ms with its prefix cached"
    saw = {
        "prompt": plan.deployment.prompt_tokens,
        "time_ms": 1000 * time,
        "mfu": plan.deployment.mfu,
        "hit": hit,
        "target_ms": 1000 * limit,
    }
    # Late only where nothing is cached: how often that is, the hit rate says.
    status = _strict(plan.deployment.ttft_s) if least > limit else NOTICE
    return _worse(time > limit, status), saw


def _chunk_size(plan: Plan, at: dict[str, float]) -> Verdict:
    d, limit = plan.deployment, _itl(plan, at)
    most = max(1, min(d.max_num_seqs, plan.batch // d.attention_dp))
    step = chunks.full_step_time(
        plan.model,
        d.max_num_batched_tokens,
        d.prompt_tokens,
        d.gpu,
        d.tp,
        d.stored(),
        d.mfu,
        d.mbu,
        prompts=most,
        attention_dp=d.attention_dp,
    )
    if step.value is None:
        return None
    taken = min(d.max_num_batched_tokens, most * d.prompt_tokens)
    saw = {
        "tokens": taken,
        "prompts": _count(-(-taken // d.prompt_tokens), "prompt")
        + (f" in each of {d.attention_dp} groups" if d.attention_dp > 1 else ""),
        "time_ms": 1000 * step.value,
        "target_ms": 1000 * limit,
    }
    return _worse(step.value > limit, _strict(d.itl_s)), saw


def _token_gap(plan: Plan, at: dict[str, float]) -> Verdict:
    d, time, limit = plan.deployment, plan.decode_full.value, _itl(plan, at)
    if time is None:
        return None
    saw = {
        "batch": plan.batch,
        "context": d.context,
        "time_ms": 1000 * time,
        "target_ms": 1000 * limit,
    }
    return _worse(time > limit, _strict(d.itl_s)), saw


def _offload_reload(plan: Plan, at: dict[str, float]) -> Verdict:
    d, again = plan.deployment, plan.prefill.value
    if d.offload is None or again is None:
        return None
    back = tiers.tier_reload_time(plan.model, d.context, d.kv_dtype, d.offload, d.tp * d.pp).value
    assert back is not None
    again = again * d.context / d.prompt_tokens
    saw = {
        "context": d.context,
        "tier": tiers.get(d.offload).title,
        "reload_ms": 1000 * back,
        "recompute_ms": 1000 * again,
    }
    waited = d.ttft_s is not None and d.ttft_s < at["nvme_wait_s"]
    slow = "nvme" in d.offload and (d.context <= at["nvme_context"] or waited)
    return (PROBLEM if back > again else _worse(slow, NOTICE)), saw


def _strict(stated: float | None) -> str:
    """Beyond a limit that was asked for is a problem, beyond a usual one worth a notice."""
    return NOTICE if stated is None else PROBLEM


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def _int(value: Number | None) -> int:
    assert isinstance(value, int)
    return value


_CHECKS: dict[str, Callable[[Plan, dict[str, float]], Verdict]] = {
    "weights_leave_room": _weights_leave_room,
    "one_sequence_fits": _one_sequence_fits,
    "context_within_model": _context_within_model,
    "contiguous_reservation": _contiguous_reservation,
    "block_size": _block_size,
    "last_block_waste": _last_block_waste,
    "fifo_eviction": _fifo_eviction,
    "int4_kv_evaluated": _int4_kv_evaluated,
    "kv_8bit_evaluated": _kv_8bit_evaluated,
    "per_tensor_scales": _per_tensor_scales,
    "prefix_cache_hit_rate": _prefix_cache_hit_rate,
    "disaggregation_early": _disaggregation_early,
    "kv_headroom": _kv_headroom,
    "memory_utilization": _memory_utilization,
    "kv_replication": _kv_replication,
    "weights_without_math": _weights_without_math,
    "kv_bytes_bind": _kv_bytes_bind,
    "sequence_limit": _sequence_limit,
    "first_token": _first_token,
    "chunk_size": _chunk_size,
    "token_gap": _token_gap,
    "offload_reload": _offload_reload,
}
