"""Every sizing function by its name, called with JSON: the one door of `calc` and of the pages.

Names and inputs are a contract: files of cases (`{"id", "function", "inputs"}`) rely on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from typing import Any

from core.sizing import (
    balance,
    blocks,
    capacity,
    chunks,
    compare,
    compute,
    cost,
    fleet,
    inputs,
    intensity,
    kv,
    lru,
    parallel,
    pool,
    prefix,
    recompute,
    roofline,
    saturation,
    sharing,
    speculation,
    step_time,
    tiers,
    traffic,
    transfer,
    units,
    utilization,
    weight_shares,
    weights,
)
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec
from core.sizing.result import WARNING, Number, Result

BEYOND = "lead beyond what can be computed: some number is far too large or too small"
_LARGEST = 10**40


@dataclass(frozen=True, slots=True)
class Function:
    """A sizing function under the name by which it is called. unit: of its value, unless an input
    (`out`, `to`) chooses another."""

    name: str
    call: Callable[..., Result]
    unit: str

    @property
    def summary(self) -> str:
        """The first sentence of what the function says of itself."""
        return " ".join((self.call.__doc__ or "").strip().split("\n\n")[0].split())

    @property
    def signature(self) -> str:
        shown = ", ".join(str(parameter) for parameter in inputs.parameters(self.call))
        return f"{self.name}({shown})"

    def to_dict(self) -> dict[str, Any]:
        """As JSON, for `calc --list --json`."""
        listed = [
            {
                "name": "model | config" if parameter.is_model else parameter.name,
                "type": parameter.type_name,
                **({"unit": parameter.unit} if parameter.unit else {}),
                "required": parameter.required,
                **({} if parameter.required else {"default": parameter.default}),
            }
            for parameter in inputs.parameters(self.call)
        ]
        return {
            "function": self.name,
            "unit": self.unit,
            "inputs": listed,
            "summary": self.summary,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call gave, with what was asked."""

    function: str
    inputs: Mapping[str, Any]
    result: Result

    @property
    def value(self) -> Number | None:
        return self.result.value

    def to_dict(self) -> dict[str, Any]:
        """As JSON: {function, inputs, value, unit, derivation}."""
        return {
            "function": self.function,
            "inputs": dict(self.inputs),
            "value": self.result.value,
            "unit": self.result.unit,
            "derivation": self.result.derivation(),
        }


_TABLE: tuple[tuple[str, tuple[Callable[..., Result], ...]], ...] = (
    (
        "B",
        (
            kv.kv_bytes_per_token,
            kv.kv_bytes_per_token_quantized,
            parallel.kv_bytes_per_token_per_gpu,
            kv.kv_growth_bytes_per_token,
            kv.kv_static_scale_bytes,
            kv.fixed_state_bytes,
            kv.kv_bytes_sequence,
            weights.weight_bytes,
            weight_shares.weight_bytes_per_gpu,
            pool.activation_bytes_bound,
            pool.kv_pool_bytes_per_gpu,
            blocks.block_bytes,
            blocks.expected_last_block_waste,
            capacity.sequence_bytes_in_pool,
            sharing.cow_bytes,
            sharing.cow_copied_bytes,
            prefix.prefix_cache_bytes,
            traffic.decode_weight_bytes,
            traffic.decode_kv_bytes,
            compare.token_capacity_tie_bytes,
        ),
    ),
    ("params", (weights.param_count,)),
    ("blocks", (blocks.num_blocks, blocks.blocks_for_tokens)),
    ("streams", (capacity.max_streams,)),
    (
        "fraction",
        (
            blocks.contiguous_waste_fraction,
            sharing.cow_saving,
            sharing.beam_saving,
            prefix.prefill_reduction,
            prefix.prefill_flop_reduction,
            prefix.break_even_hit_rate,
            lru.lru_hit_rate,
            compute.attention_flop_share,
            roofline.roofline_utilization,
            utilization.achieved_mfu,
            utilization.achieved_mbu,
            transfer.transfer_share_of_prefill,
        ),
    ),
    (
        "x",
        (
            parallel.kv_replication_factor,
            prefix.prefill_token_ratio,
            recompute.swap_over_recompute,
            tiers.reload_over_recompute,
            compare.kv_ratio,
            compare.kv_read_ratio,
            compare.attention_flops_ratio,
            speculation.speculative_speedup,
        ),
    ),
    ("FLOP", (compute.prefill_flops, compute.decode_flops, compare.mla_expansion_flops)),
    ("FLOP/s", (roofline.attainable_flops,)),
    (
        "FLOP/B",
        (
            roofline.ridge_point,
            roofline.arithmetic_intensity_weights,
            roofline.arithmetic_intensity_linear,
            intensity.arithmetic_intensity_matrices,
            traffic.arithmetic_intensity_attention_decode,
            intensity.arithmetic_intensity_attention_prefill,
        ),
    ),
    (
        "tokens",
        (
            compute.attention_equals_linear_tokens,
            roofline.min_compute_bound_batch,
            saturation.batch_to_saturate,
            recompute.swap_recompute_crossover_tokens,
        ),
    ),
    ("sequences or tokens", (balance.kv_weights_balance,)),
    (
        "s",
        (
            step_time.prefill_time,
            chunks.full_step_time,
            step_time.decode_step_time,
            transfer.kv_transfer_time,
            transfer.disagg_observable_latency,
            transfer.pipelined_transfer_time,
            tiers.tier_reload_time,
            tiers.break_even_interval,
        ),
    ),
    ("tokens/pass", (speculation.expected_tokens_per_verify,)),
    ("steps", (tiers.prefetch_steps,)),
    ("tok/s", (step_time.decode_tokens_per_s,)),
    ("B/s", (transfer.pcie_bandwidth, transfer.disagg_bandwidth)),
    ("RPS", (transfer.disagg_rps_per_link,)),
    ("links", (transfer.disagg_links,)),
    ("documents", (lru.documents_for_hit_rate,)),
    ("heads", (compare.mla_equivalent_gqa_heads,)),
    ("prefixes", (prefix.prefix_cache_capacity,)),
    ("GPUs", (cost.gpus_for_load, fleet.gpus_for_users)),
    ("$/Mtok", (cost.cost_per_million_tokens,)),
    ("$", (cost.cost_per_request, tiers.tier_price)),
    ("$/h", (cost.cost_per_user, fleet.cost_per_hour)),
    ("$/day", (cost.cost_per_day, cost.prefix_cache_saving_per_day)),
    ("unit asked for", (units.convert,)),
)
"""Unit → the functions whose values have it."""


@cache
def functions() -> dict[str, Function]:
    """name → function, in the order of the table."""
    return {
        one.__name__: Function(one.__name__, one, unit) for unit, group in _TABLE for one in group
    }


def function(name: object, path: str = "function") -> Function:
    """The function of that name. Raises SizingError with near matches."""
    known = functions()
    if not isinstance(name, str):
        raise SizingError(path, "must be a function's name")
    if name not in known:
        close = get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else "`calc --list` shows all"
        raise SizingError(path, f"{name[:60]!r} is no sizing function; {hint}")
    return known[name]


def call(name: object, values: object, path: str = "") -> Answer:
    """Call a function with a JSON object. path: where the call lies, for errors (`cases[3]`)."""
    wanted = function(name, inputs.joined(path, "function"))
    where = inputs.joined(path, "inputs")
    made = inputs.arguments(wanted.call, values, where)
    try:
        with inputs.errors_below(where, ""):
            result = wanted.call(**made)
    except ArithmeticError:
        raise SizingError(where, BEYOND) from None
    shown = (result.value, *(step.value for step in result.steps))
    if not all(map(_is_sound, shown)):
        raise SizingError(where, BEYOND)
    assert isinstance(values, dict)
    return Answer(wanted.name, values, _warned(result, made))


def _warned(result: Result, made: Mapping[str, Any]) -> Result:
    """The result with what is to be said of the model that it was asked of."""
    models = [value for value in made.values() if isinstance(value, ModelSpec)]
    models += [
        compare.side(value, name).model
        for name, value in made.items()
        if isinstance(value, Mapping) and "config" in value
    ]
    said = [f"{WARNING}{text}" for model in models for text in model.warnings]
    return replace(result, notes=(*said, *result.notes)) if said else result


def _is_sound(value: Number | None) -> bool:
    """Whether JSON can hold the value and its reader can: finite, and no integer of 40 digits."""
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or abs(value) < _LARGEST


def batch(content: object) -> dict[str, Answer | SizingError]:
    """Every case of {"cases": [{"id", "function", "inputs"}]}, by its id, in order.

    A case that fails gives its error; a file that is no list of cases is a SizingError at once.
    Other keys are left alone, so a file of expected values can be run as it is.
    """
    if not isinstance(content, dict) or "cases" not in content:
        what = '{"cases": [{"id", "function", "inputs"}]}'
        raise SizingError("cases", f"is missing: a batch is {what}")
    cases = content["cases"]
    if not isinstance(cases, list):
        raise SizingError("cases", "must be a list")
    seen: dict[str, int] = {}
    for index, case in enumerate(cases):
        _check_id(case, index, seen)
    return {case["id"]: _answer(case, f"cases[{index}]") for index, case in enumerate(cases)}


def _answer(case: Mapping[str, Any], path: str) -> Answer | SizingError:
    for name in ("function", "inputs"):
        if name not in case:
            return SizingError(f"{path}.{name}", "is missing")
    try:
        return call(case["function"], case["inputs"], path)
    except SizingError as error:
        return error


def _check_id(case: object, index: int, seen: dict[str, int]) -> None:
    """An answer is known by its case's id: without one of its own there is no place for it."""
    path = f"cases[{index}]"
    if not isinstance(case, dict):
        raise SizingError(path, "must be an object with id, function and inputs")
    if not isinstance(case.get("id"), str):
        raise SizingError(f"{path}.id", "must be a word" if "id" in case else "is missing")
    if case["id"] in seen:
        first = seen[case["id"]]
        raise SizingError(f"{path}.id", f"is {case['id'][:60]!r}, like cases[{first}].id")
    seen[case["id"]] = index
