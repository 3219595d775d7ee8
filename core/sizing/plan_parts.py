"""Numbers of a plan that no sizing function gives alone: overhead, sums, words about the layout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from core.sizing import pool, weight_shares, weights
from core.sizing.deployment import Deployment
from core.sizing.geometry import ModelSpec
from core.sizing.result import CONVENTION, Result, Step, symbols
from core.sizing.stored import Stored

FIXED_OVERHEAD = 2 * 2**30
"""Bytes for CUDA context, graphs and communication buffers where nothing was measured: a guess, of
the size that engines report; `overhead_bytes` replaces it."""


def beside(d: Deployment, model: ModelSpec) -> dict[str, Any]:
    """What the pool is told of all that is neither weights nor cache."""
    if d.overhead_bytes is not None:
        return {"overhead_bytes": d.overhead_bytes}
    if model.matmul_params is None or not model.hidden_size:
        return {"overhead_bytes": FIXED_OVERHEAD}
    limits = {"max_num_batched_tokens": d.max_num_batched_tokens, "max_num_seqs": d.max_num_seqs}
    return {"overhead_bytes": FIXED_OVERHEAD, **limits}


def overhead(d: Deployment, model: ModelSpec) -> Result:
    """Bytes of one GPU that are neither weights nor cache."""
    if d.overhead_bytes is not None:
        value = -int(-d.overhead_bytes // 1)
        return Result(value, "B", scope="gpu", notes=("as given, activations included",))
    given = symbols(("fixed", "context, graphs, buffers: a guess", FIXED_OVERHEAD, "B"))
    if model.matmul_params is None or not model.hidden_size:
        why = "activations are not in it: the matrices of this model are not known"
        return Result(FIXED_OVERHEAD, "B", given, (), "gpu", (why,), CONVENTION)
    most = pool.activation_bytes_bound(model, d.max_num_batched_tokens, d.max_num_seqs, tp=d.tp)
    assert isinstance(most.value, int)
    value = FIXED_OVERHEAD + most.value
    last = Step("fixed + activations", f"{FIXED_OVERHEAD} + {most.value}", value, "B")
    return Result(
        value,
        "B",
        (*given, *most.symbols),
        (*most.steps, last),
        "gpu",
        ("measure it, and give overhead_bytes", *most.notes),
        CONVENTION,
    )


def stage_pools(
    d: Deployment, model: ModelSpec, kept: Stored, count: str, fullest: Result
) -> tuple[int, ...]:
    """Bytes for the cache on a GPU of each stage: what the fullest has, and the weights more that
    it holds."""
    if d.pp == 1:
        return (int(fullest.value or 0),)
    total, _ = weights.counted(model, count, d.params)
    held = weight_shares.per_stage(model, kept, d.layout, total)
    left = int(fullest.steps[-1].value)  # below 0 where weights do not fit
    return tuple(max(0, left + max(held) - one) for one in held)


def with_state(sequence: Result, state: Result) -> Result:
    """A sequence's keys, values and fixed state together."""
    kept, fixed = sequence.value, state.value
    assert isinstance(kept, int) and isinstance(fixed, int)
    return Result(
        kept + fixed,
        "B",
        symbols(("K", "its keys and values", kept, "B"), ("F", "its fixed state", fixed, "B")),
        (Step("K + F", f"{kept} + {fixed}", kept + fixed, "B"),),
        scope="model",
    )


def reserves(d: Deployment) -> str:
    if d.max_model_len is not None:
        return f"each reserves {d.longest:,} tokens"
    known = d.model.max_position is not None and d.longest == d.model.max_position
    why = "the model's own limit" if known else "its context"
    return f"each reserves {d.longest:,} tokens, {why}, as no max_model_len is given"


_OF_ALL_STAGES = {
    "n": "GPUs of a stage",
    "W": "weights read, all stages one after the other",
    "K": "cache read, by one GPU of each stage, one after the other",
}


def through_stages(step: Result, pp: int) -> Result:
    """A step as it passes the stages, one after the other, each with its part of the model. Their
    times add up to what the whole would take on one stage's GPUs, so only the words change.
    """
    if pp == 1:
        return step
    said = tuple(
        replace(one, meaning=_OF_ALL_STAGES.get(one.symbol, one.meaning)) for one in step.symbols
    )
    note = f"work passes {pp} stages one after the other: the time of all, on the GPUs of each"
    return replace(
        step,
        symbols=(*said, *symbols(("pp", "pipeline stages", pp, "stages"))),
        notes=(*step.notes, note),
    )
