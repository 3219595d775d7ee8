"""One capacity plan: what a deployment holds, what binds it, and how long its steps take.

Every number is a `Result` of the function that `calc` calls, so each can be opened by itself. Bytes
are exact; times are floors at the stated MFU and MBU.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from core.sizing import (
    balance,
    blocks,
    capacity,
    cost,
    kv,
    parallel,
    pool,
    roofline,
    saturation,
    step_time,
    traffic,
    weight_shares,
    weights,
)
from core.sizing.deployment import Deployment
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec
from core.sizing.kv_format import KVDtype
from core.sizing.plan_parts import (
    beside,
    overhead,
    reserves,
    stage_pools,
    through_stages,
    with_state,
)
from core.sizing.result import Result, Step, symbols
from core.sizing.text import num


@dataclass(frozen=True, slots=True)
class Plan:
    """Results by what they say; each knows whether it is of a layer, a GPU, a replica or the model.

    binding: "blocks" (or "memory", contiguous), "max_num_seqs" or "max_num_batched_tokens": what
    stops one scheduler first; "" if a sequence keeps nothing. prefill_hit: None if the prompts have
    no prefix in common that is kept. stage_pools: bytes for the cache on a GPU of each pipeline
    stage. bounds: sequences that each would
    allow. model: the deployment's, with its nominal size as given where the config knows none.
    fits: whether weights leave room for at least one sequence.
    """

    deployment: Deployment
    model: ModelSpec
    params: Result
    active_params: Result
    weights: Result
    weights_nominal: Result | None
    weights_per_gpu: Result
    overhead: Result
    kv_pool_per_gpu: Result
    kv_per_token_per_layer: Result
    kv_per_token: Result
    kv_per_token_per_gpu: Result
    kv_replication: Result
    fixed_state: Result
    kv_per_sequence: Result
    sequence_total: Result
    sequence_in_pool: Result
    block: Result
    num_blocks: Result
    blocks_per_sequence: Result
    last_block_waste: Result
    held_paged: Result
    held_fractional: Result
    held_contiguous: Result
    streams: Result
    balance_batch: Result
    ridge: Result
    saturating_batch: Result
    attention_intensity: Result
    prefill: Result
    prefill_hit: Result | None
    decode_alone: Result
    decode_full: Result
    output_rate: Result
    cost: Result | None
    binding: str
    bounds: dict[str, int]
    stage_pools: tuple[int, ...]

    @property
    def fits(self) -> bool:
        return self.streams.value is None or self.streams.value > 0

    @property
    def held(self) -> Result:
        """The sequences that memory holds under the planned allocator."""
        contiguous = self.deployment.allocator == "contiguous"
        return self.held_contiguous if contiguous else self.held_paged

    @property
    def batch(self) -> int:
        """Sequences that one replica runs at once."""
        return 0 if self.streams.value is None else int(self.streams.value) // self.deployment.dp

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.deployment.model.warnings

    @property
    def notes(self) -> tuple[str, ...]:
        return self.deployment.model.notes

    def results(self) -> dict[str, Result]:
        """name → result, in order."""
        named = ((one.name, getattr(self, one.name)) for one in fields(self))
        return {name: value for name, value in named if isinstance(value, Result)}

    def to_dict(self) -> dict[str, Any]:
        """As JSON, all derivations with it."""
        return {
            "schema": "plan/1",
            "inputs": inputs_of(self.deployment),
            "fits": self.fits,
            "binding": self.binding,
            "bounds": self.bounds,
            "results": {
                name: {"value": one.value, "unit": one.unit, "derivation": one.derivation()}
                for name, one in self.results().items()
            },
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }


def inputs_of(deployment: Deployment) -> dict[str, Any]:
    """A deployment's inputs as JSON; model and GPU by their names."""
    out: dict[str, Any] = {}
    for one in fields(deployment):
        value = getattr(deployment, one.name)
        out[one.name] = value.name if one.name in ("model", "gpu") else value
    return out


def plan(deployment: Deployment) -> Plan:
    """The plan of a deployment. Raises SizingError where an input is missing or impossible."""
    d, where = deployment, deployment.layout
    model, count = _counted(d)
    kept = d.stored()
    compute, _ = roofline.compute_dtype(d.gpu, kept.main.compute, "weight_dtype")
    split: dict[str, Any] = {
        "tp": d.tp,
        "pp": d.pp,
        "attention_dp": d.attention_dp,
        "stages": d.stages,
    }
    held: dict[str, Any] = {"count": count, "params": d.params}
    room = pool.kv_pool_bytes_per_gpu(
        d.gpu,
        model,
        kept,
        gpu_memory_utilization=d.gpu_memory_utilization,
        **beside(d, model),
        **held,
        **split,
    )
    # What it says of activations is said by `overhead`.
    room = replace(room, notes=tuple(n for n in room.notes if "activations" not in n))
    per_gpu = parallel.kv_bytes_per_token_per_gpu(model, d.kv_dtype, **split)
    pools = stage_pools(d, model, kept, count, room)
    fits: dict[str, Any] = {**split, "dp": d.dp, "per_gpu_pool_bytes": pools}
    paged = capacity.max_streams(
        model, d.context, d.kv_dtype, "paged", d.block_size, prefix_tokens=d.prefix_tokens, **fits
    )
    fractional = capacity.max_streams(
        model, d.context, d.kv_dtype, "fractional", prefix_tokens=d.prefix_tokens, **fits
    )
    reserved = capacity.max_streams(
        model, d.context, d.kv_dtype, "contiguous", max_model_len=d.longest, **fits
    )
    reserved = replace(reserved, notes=(reserves(d), *reserved.notes))
    memory = reserved if d.allocator == "contiguous" else paged
    streams, binding, bounds = _bounded(d, memory)
    batch = 0 if streams.value is None else int(streams.value) // d.dp
    hit = _hit(d)
    together = -(-batch // d.pp)  # a pipeline's stages each work at a part of the batch

    def decode(size: int) -> Result:
        step = step_time.decode_step_time(
            model,
            d.gpu,
            d.tp,
            size,
            d.context,
            kept,
            d.kv_dtype,
            d.mbu,
            d.mfu,
            attention_dp=d.attention_dp,
        )
        return through_stages(step, d.pp)

    def prefill(cached: int) -> Result:
        step = step_time.prefill_time(
            model,
            d.prompt_tokens - cached,
            d.gpu,
            d.tp,
            kept,
            d.mfu,
            computed=cached,
            weights=kept,
            mbu=d.mbu,
            attention_dp=d.attention_dp,
        )
        return through_stages(step, d.pp)

    alone = decode(1)
    full = decode(together) if batch else _none("s", "not one sequence fits")
    rate = _rate(batch, d.dp, full)
    sequence = kv.kv_bytes_sequence(model, d.context, d.kv_dtype)
    state = kv.fixed_state_bytes(model, d.kv_dtype)
    return Plan(
        deployment=d,
        model=model,
        params=_params(model, d.params),
        active_params=_active(model, d.params),
        weights=weights.weight_bytes(model, kept, **held),
        weights_nominal=weights.weight_bytes(model, kept, **{**held, "count": "nominal"})
        if d.params is None and model.nominal_params is not None and count == "exact"
        else None,
        weights_per_gpu=weight_shares.weight_bytes_per_gpu(model, kept, **held, **split),
        overhead=overhead(d, model),
        kv_pool_per_gpu=room,
        kv_per_token_per_layer=_per_layer(model, d.kv_dtype),
        kv_per_token=kv.kv_bytes_per_token(model, d.kv_dtype),
        kv_per_token_per_gpu=per_gpu,
        kv_replication=parallel.kv_replication_factor(model, d.tp, d.attention_dp),
        fixed_state=state,
        kv_per_sequence=sequence,
        sequence_total=with_state(sequence, state),
        sequence_in_pool=capacity.sequence_bytes_in_pool(
            model,
            d.context,
            d.kv_dtype,
            d.allocator,
            d.block_size,
            d.longest if d.allocator == "contiguous" else None,
            **split,
        ),
        block=blocks.block_bytes(model, d.kv_dtype, d.block_size, "gpu", **split),
        num_blocks=blocks.num_blocks(pools, model, d.kv_dtype, d.block_size, **split)
        if per_gpu.value
        else _none("blocks", "no layer caches anything per token"),
        blocks_per_sequence=blocks.blocks_for_tokens(d.context, d.block_size, model),
        last_block_waste=blocks.expected_last_block_waste(
            model, d.kv_dtype, d.block_size, d.context
        ),
        held_paged=paged,
        held_fractional=fractional,
        held_contiguous=reserved,
        streams=streams,
        balance_batch=balance.kv_weights_balance(
            model, d.kv_dtype, kept, d.context, count=count, params=d.params
        ),
        ridge=roofline.ridge_point(d.gpu, compute),
        saturating_batch=saturation.batch_to_saturate(model, d.gpu, kept, mfu=d.mfu, mbu=d.mbu),
        attention_intensity=traffic.arithmetic_intensity_attention_decode(
            model, d.kv_dtype, d.context, tp=where.head_split
        ),
        prefill=prefill(0),
        prefill_hit=prefill(hit) if hit else None,
        decode_alone=alone,
        decode_full=full,
        output_rate=rate,
        cost=_cost(d, rate),
        binding=binding,
        bounds=bounds,
        stage_pools=pools,
    )


def _counted(d: Deployment) -> tuple[ModelSpec, str]:
    """The model, and which of its parameter counts weights are sized by."""
    if d.params is not None and d.model.active_params is None:
        return replace(d.model, nominal_params=d.params), "exact"
    if d.params is not None or d.model.params is not None:
        return d.model, "exact"
    if d.model.nominal_params is None:
        why = f": {d.model.params_note}" if d.model.params_note else ""
        raise SizingError("params", f"is missing: {d.model.name} has no known number{why}")
    return d.model, "nominal"


def _hit(d: Deployment) -> int:
    """Tokens that a prompt finds in the prefix cache: whole blocks, and never its last token, for
    that one's output is wanted."""
    shared = min(d.prefix_tokens, d.prompt_tokens - 1) if d.prefix_cache else 0
    return shared // d.block_size * d.block_size


def _bounded(d: Deployment, memory: Result) -> tuple[Result, str, dict[str, int]]:
    """All sequences that run at once: what memory holds, cut by each scheduler's two limits."""
    groups = d.schedulers
    name = "memory" if d.allocator == "contiguous" else "blocks"
    bounds = {"max_num_seqs": d.max_num_seqs, "max_num_batched_tokens": d.max_num_batched_tokens}
    if memory.value is not None:
        bounds = {name: int(memory.value) // groups, **bounds}
    binding = min(bounds, key=lambda one: bounds[one])
    least = bounds[binding]
    steps = (
        Step(
            f"min({', '.join(bounds)})",
            f"min({', '.join(f'{n}' for n in bounds.values())})",
            least,
            "streams",
        ),
        Step("schedulers · min", f"{groups} · {least}", groups * least, "streams"),
    )
    result = replace(
        memory,
        value=groups * least,
        steps=(*memory.steps, *steps),
        notes=(f"bound by {binding}", *(n for n in memory.notes if "bound by" not in n)),
    )
    return result, binding, bounds


def _params(model: ModelSpec, given: float | None) -> Result:
    if given is not None:
        return Result(int(given), "params", scope="model", notes=("as given",))
    if model.params is None:
        value = None if model.nominal_params is None else int(model.nominal_params)
        return Result(value, "params", scope="model", notes=("nominal, of the model's card",))
    return weights.param_count(model)


def _active(model: ModelSpec, given: float | None) -> Result:
    if model.active_params is None:
        return _params(model, given)
    return weights.param_count(model, "active")


def _per_layer(model: ModelSpec, dtype: KVDtype) -> Result:
    try:
        return kv.kv_bytes_per_token(model, dtype, "layer")
    except SizingError as error:  # the layers differ: there is no one number
        return Result(None, "B", scope="layer", notes=(error.message.removeprefix("is missing: "),))


def _rate(batch: int, replicas: int, step: Result) -> Result:
    """Output tokens per second of all replicas, if nothing but decoding is done."""
    if step.value is None:
        return _none("tok/s", *step.notes)
    value = replicas * batch / step.value
    return Result(
        value,
        "tok/s",
        symbols(
            ("dp", "replicas", replicas),
            ("B", "sequences of each", batch),
            ("t", "a decode step of all of them", step.value, "s"),
        ),
        (Step("dp · B / t", f"{replicas} · {batch} / {num(step.value)}", value, "tok/s"),),
        scope="fleet" if replicas > 1 else "replica",
        notes=("decoding alone: prefills of other requests take their share",),
    )


def _cost(d: Deployment, rate: Result) -> Result | None:
    if d.price_per_gpu_hour is None or not rate.value:
        return None
    return cost.cost_per_million_tokens(d.price_per_gpu_hour, rate.value, d.gpus)


def _whole(result: Result) -> int:
    assert isinstance(result.value, int)
    return result.value


def _none(unit: str, *notes: str) -> Result:
    return Result(None, unit, notes=notes)
