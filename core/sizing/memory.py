"""Where the memory of a GPU goes: weights, overhead, keys and values of so many sequences, what is
left of the pool, and what is held back from it. The parts of `split` add up to what the driver
shows, or beyond it where they do not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.sizing import capacity, checks
from core.sizing.plan import Plan
from core.sizing.result import Result, Step, symbols

PARTS = ("weights", "overhead", "kv", "free", "held_back")
"""The parts in the order in which a bar shows them."""


def split(plan: Plan, sequences: int) -> dict[str, Result]:
    """Bytes of each part on the fullest GPU, `total` (what the driver shows) and `short`: what the
    sequences want beyond the pool, 0 if they fit.

    sequences: of the plan's context, held at the same time by one replica; attention groups share
    them out, and the fullest has ⌈n / dp⌉. Paged or contiguous, as the plan's allocator takes them.
    """
    groups = plan.deployment.attention_dp
    count = -(-checks.whole(sequences, "sequences") // groups)
    total = plan.deployment.gpu.visible_bytes
    usable = int(plan.kv_pool_per_gpu.steps[0].value)
    left = int(plan.kv_pool_per_gpu.steps[-1].value)  # below 0 where weights do not fit
    each = int(plan.sequence_in_pool.value or 0)
    wanted = count * each
    free, short = max(0, left - wanted), max(0, wanted - max(0, left))
    pool = symbols(("pool", "bytes that blocks can take", left, "B"))
    keeps = symbols(("K", "keys and values of all sequences", wanted, "B"))
    return {
        "weights": plan.weights_per_gpu,
        "overhead": plan.overhead,
        "kv": Result(
            wanted,
            "B",
            symbols(
                (
                    "n",
                    "sequences at the same time"
                    if groups == 1
                    else f"⌈{sequences} / {groups}⌉, sequences of the fullest attention group",
                    count,
                    "sequences",
                ),
                ("M_pool", "what one takes of the pool of a GPU", each, "B"),
            ),
            (*plan.sequence_in_pool.steps, Step("n · M_pool", f"{count} · {each}", wanted, "B")),
            scope="gpu",
            notes=plan.sequence_in_pool.notes,
        ),
        "free": Result(
            free,
            "B",
            (*pool, *keeps),
            (Step("max(0, pool − K)", f"max(0, {left} − {wanted})", free, "B"),),
            scope="gpu",
        ),
        "held_back": Result(
            total - usable,
            "B",
            symbols(
                ("total", "memory that the driver shows", total, "B"),
                ("usable", "⌊total · gpu_memory_utilization⌋", usable, "B"),
            ),
            (Step("total − usable", f"{total} − {usable}", total - usable, "B"),),
            scope="gpu",
            notes=("left to the driver and to other processes",),
        ),
        "total": Result(
            total,
            "B",
            symbols(("MiB", "as the driver reports it", plan.deployment.gpu.visible_mib, "MiB")),
            (Step("MiB · 2²⁰", f"{plan.deployment.gpu.visible_mib} · 1048576", total, "B"),),
            scope="gpu",
            source="; ".join(plan.deployment.gpu.sources),
        ),
        "short": Result(
            short,
            "B",
            (*pool, *keeps),
            (Step("max(0, K − max(0, pool))", f"max(0, {wanted} − max(0, {left}))", short, "B"),),
            scope="gpu",
        ),
    }


def of_all(parts: Mapping[str, Result], gpus: int) -> dict[str, Result]:
    """The same of so many equal GPUs together."""
    count = checks.whole(gpus, "gpus", 1)
    return {name: _times(count, one) for name, one in parts.items()}


def of_replica(plan: Plan, sequences: int) -> dict[str, Result]:
    """The parts of all GPUs of a replica. Where attention groups cannot share the sequences out
    evenly, what the emptier ones keep, miss and have free is theirs."""
    d = plan.deployment
    one = split(plan, sequences)
    every = of_all(one, d.tp * d.pp)
    full, more = divmod(checks.whole(sequences, "sequences"), d.attention_dp)
    if not more:
        return every
    emptier, each = split(plan, full * d.attention_dp), d.layout.head_split * d.pp
    groups = symbols(
        ("g", "GPUs of an attention group", each, "GPUs"),
        ("r", "groups that have one sequence more", more, "groups"),
        ("e", "groups that do not", d.attention_dp - more, "groups"),
    )
    for name in ("kv", "free", "short"):
        a, b = int(one[name].value or 0), int(emptier[name].value or 0)
        value = each * (more * a + (d.attention_dp - more) * b)
        put_in = f"{each} · ({more} · {a} + {d.attention_dp - more} · {b})"
        every[name] = Result(
            value,
            "B",
            (*one[name].symbols, *groups),
            (
                *one[name].steps,
                Step("g · (r · a fuller one's + e · an emptier one's)", put_in, value, "B"),
            ),
            scope="replica",
            notes=one[name].notes,
        )
    return every


def _times(count: int, one: Result) -> Result:
    each: Any = one.value
    step = Step("GPUs · each", f"{count} · {each}", count * each, one.unit)
    said = symbols(("GPUs", "that share the model", count, "GPUs"))
    return Result(
        count * each,
        one.unit,
        (*one.symbols, *said),
        (*one.steps, step),
        scope="replica",
        notes=one.notes,
        basis=one.basis,
        source=one.source,
    )


def longest_context(plan: Plan, sequences: int, most: int = 1 << 24) -> int | None:
    """The longest context at which so many sequences fit one replica together, paged; 0 if none
    does, None if `most` tokens still fit (every layer has a window, or keeps nothing)."""
    d = plan.deployment
    count = -(-checks.whole(sequences, "sequences", 1) // d.attention_dp)
    left = int(plan.kv_pool_per_gpu.steps[-1].value)

    def fits(tokens: int) -> bool:
        each = capacity.sequence_bytes_in_pool(
            plan.model,
            tokens,
            d.kv_dtype,
            "paged",
            d.block_size,
            tp=d.tp,
            pp=d.pp,
            attention_dp=d.attention_dp,
            stages=d.stages,
        )
        return count * int(each.value or 0) <= left

    if fits(most):
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
