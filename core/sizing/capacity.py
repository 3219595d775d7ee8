"""How many sequences fit, and what binds: blocks, max_num_seqs or max_num_batched_tokens.

    paged        ⌊pool / (⌈S / bs⌉ · block)⌋        whole blocks
    fractional   ⌊pool / (S · M_tok)⌋               as if a block were one token
    contiguous   ⌊pool / (S_max · M_tok)⌋           room for the longest sequence, used or not

A layer with a window keeps the blocks that W tokens can touch, wherever they start. A prefix that
all sequences share lies in the pool once, as far as it fills whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.sizing import blocks, checks, kv_format, kv_layers, layout, units
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec
from core.sizing.kv_format import KVDtype
from core.sizing.kv_layers import LayerBytes
from core.sizing.layout import Layout
from core.sizing.result import Result, Step, Symbol, symbols

POLICIES = ("paged", "fractional", "contiguous")


@dataclass(frozen=True, slots=True)
class Demand:
    """What sequences of one length ask of one GPU.

    own, shared: (blocks, bytes of a block) for each kind of layer: of one sequence, and of the
    prefix that all have. state: bytes of fixed state of one sequence. static: bytes of scales that
    are kept once.
    """

    own: tuple[tuple[int, int], ...]
    shared: tuple[tuple[int, int], ...] = ()
    state: int = 0
    static: int = 0

    @property
    def each(self) -> int:
        """Bytes of one sequence."""
        return sum(count * size for count, size in self.own) + self.state

    @property
    def once(self) -> int:
        """Bytes that are kept once, for all sequences."""
        return sum(count * size for count, size in self.shared) + self.static

    def fits(self, pool: int) -> int | None:
        """How many sequences fit; None if one takes no memory at all."""
        each = self.each
        return max(0, pool - self.once) // each if each else None


def max_streams(
    model: ModelSpec,
    tokens: int,
    dtype: KVDtype = "bf16",
    policy: str = "paged",
    block_size: int = 16,
    pool_gib: float | None = None,
    per_gpu_pool_bytes: float | tuple[float, ...] | None = None,
    total_gib: float | None = None,
    weights_gib: float | None = None,
    overhead_gib: float | None = None,
    prefix_tokens: int = 0,
    max_model_len: int | None = None,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
    window: int | None = None,
    n_local_layers: int | None = None,
    tp: int = 1,
    pp: int = 1,
    dp: int = 1,
    attention_dp: int = 1,
    stages: Sequence[int] | None = None,
) -> Result:
    """Sequences of `tokens` tokens each that are held at the same time, by all dp replicas.

    The pool is one of: per_gpu_pool_bytes (a list, if a GPU of each pipeline stage has another);
    pool_gib, of one replica (its tp · pp GPUs share it evenly); or total_gib − weights_gib −
    overhead_gib, likewise.
    policy: "paged" (blocks of block_size), "fractional", or "contiguous" (max_model_len reserved,
    or `tokens` if it is not given). prefix_tokens: the first so many are common to all.
    max_num_seqs, max_num_batched_tokens: limits of each scheduler (one per replica and attention
    group); a running sequence takes at least one token of a step's budget.
    """
    checks.choice(policy, "policy", POLICIES)
    length = checks.whole(tokens, "tokens", 1)
    size = checks.whole(block_size, "block_size", 1, blocks.MAX_BLOCK_SIZE)
    where = layout.of(tp, pp, dp, attention_dp, stages)
    layout.check(model, where)
    pools, pool_steps = _pools(
        where, pool_gib, per_gpu_pool_bytes, total_gib, weights_gib, overhead_gib
    )
    prefix = checks.whole(prefix_tokens, "prefix_tokens", 0)
    if prefix > length:
        raise SizingError("prefix_tokens", f"{prefix} of {length} tokens cannot be a prefix")
    held = _held(length, max_model_len, policy)
    if policy == "contiguous" and prefix:
        raise SizingError("prefix_tokens", "contiguous reservations share nothing")
    unit = size if policy == "paged" else 1
    fmt = kv_format.of(dtype)
    rows = kv_layers.of_stages(model, fmt, where, window, n_local_layers)
    demands = [demand(stage, held, unit, prefix) for stage in rows]
    tightest, pool = min(
        zip(demands, pools, strict=True),
        key=lambda pair: (_or_inf(pair[0].fits(pair[1])), -pair[0].each),
    )
    bounds = {"blocks" if policy == "paged" else "memory": tightest.fits(pool)}
    for name, limit in (
        ("max_num_seqs", max_num_seqs),
        ("max_num_batched_tokens", max_num_batched_tokens),
    ):
        if limit is not None:
            bounds[name] = checks.whole(limit, name, 1)
    counted = {name: bound for name, bound in bounds.items() if bound is not None}
    groups = where.attention_dp * where.dp
    if not counted:
        return Result(None, "streams", notes=("a sequence keeps nothing: memory sets no bound",))
    binding = min(counted, key=lambda name: counted[name])
    value = counted[binding] * groups
    steps = [
        *pool_steps,
        *_demand_steps(tightest, held, unit, prefix, policy),
        *_bound_steps(tightest, pool, counted),
    ]
    if groups > 1:
        steps.append(Step("groups · streams", f"{groups} · {counted[binding]}", value, "streams"))
    return Result(
        value,
        "streams",
        _symbols(where, pool, length, held, unit, policy, binding),
        tuple(steps),
        scope="fleet" if where.dp > 1 else "replica",
        notes=_notes(policy, prefix, unit, binding, tightest, pool, rows),
    )


def sequence_bytes_in_pool(
    model: ModelSpec,
    tokens: int,
    dtype: KVDtype = "bf16",
    policy: str = "paged",
    block_size: int = 16,
    max_model_len: int | None = None,
    tp: int = 1,
    pp: int = 1,
    attention_dp: int = 1,
    stages: Sequence[int] | None = None,
) -> Result:
    """Bytes that one sequence takes of the pool of a GPU that serves it, its fixed state included:
    by these, not by tokens, a pool divides into streams.

    policy, block_size, max_model_len: as `max_streams` has them. Of pipeline stages that differ,
    the one that takes most.
    """
    checks.choice(policy, "policy", POLICIES)
    length = checks.whole(tokens, "tokens", 1)
    size = checks.whole(block_size, "block_size", 1, blocks.MAX_BLOCK_SIZE)
    where = layout.of(tp, pp, 1, attention_dp, stages)
    layout.check(model, where)
    held = _held(length, max_model_len, policy)
    unit = size if policy == "paged" else 1
    demands = [
        demand(rows, held, unit) for rows in kv_layers.of_stages(model, kv_format.of(dtype), where)
    ]
    most = max(demands, key=lambda one: one.each)
    steps = [step for step in _demand_steps(most, held, unit, 0, policy) if step.unit != "B"]
    terms = [f"{count} · {size}" for count, size in most.own]
    terms += [f"{most.state}"] if most.state else []
    what = "blocks · bytes of one" if policy == "paged" else "tokens · bytes of one"
    whole = f"Σ {what}" + (" + fixed state" if most.state else "")
    return Result(
        most.each,
        "B",
        symbols(
            ("S", "tokens of the sequence", length, "tokens"),
            *([("bs", "tokens per block", unit, "tokens")] if policy == "paged" else []),
            *([("S_max", "tokens reserved", held, "tokens")] if held != length else []),
            *(
                [("state", "fixed state, whatever the length", most.state, "B")]
                if most.state
                else []
            ),
        ),
        (*steps, Step(whole, " + ".join(terms) or "0", most.each, "B")),
        scope="gpu",
    )


def _held(length: int, max_model_len: int | None, policy: str) -> int:
    """Tokens that room is kept for."""
    if max_model_len is None:
        return length
    longest = checks.whole(max_model_len, "max_model_len", 1)
    if longest < length:
        raise SizingError("max_model_len", f"{longest} is less than the {length} tokens held")
    return longest if policy == "contiguous" else length


def demand(rows: list[LayerBytes], length: int, unit: int, prefix: int = 0) -> Demand:
    """What sequences of `length` tokens ask of one GPU, in blocks of `unit` tokens.

    prefix: so many tokens are common to all; only its whole blocks are shared, and of a layer with
    a window only those that some window still reaches.
    """
    total, whole = -(-length // unit), prefix // unit
    own: dict[int, int] = {}  # blocks → bytes of one in all layers that need so many
    shared: dict[int, int] = {}
    for row in rows:
        size = row.count * row.per_token * unit
        if not size:
            continue
        kept, common, stored = row.blocks(length, unit), whole, row.blocks(whole * unit, unit)
        if row.window is not None:
            common = max(0, whole - (total - kept))
        own[kept - common] = own.get(kept - common, 0) + size
        if stored:
            shared[stored] = shared.get(stored, 0) + size
    return Demand(
        tuple(own.items()), tuple(shared.items()), kv_layers.state(rows), kv_layers.static(rows)
    )


def _or_inf(bound: int | None) -> float:
    return float("inf") if bound is None else bound


def _pools(
    where: Layout,
    pool_gib: float | None,
    per_gpu: float | tuple[float, ...] | None,
    total_gib: float | None,
    weights_gib: float | None,
    overhead_gib: float | None,
) -> tuple[list[int], list[Step]]:
    """Bytes of the pool of one GPU of each stage."""
    parts = (total_gib, weights_gib, overhead_gib)
    given = [
        name
        for name, value in (
            ("per_gpu_pool_bytes", per_gpu),
            ("pool_gib", pool_gib),
            ("total_gib", total_gib),
        )
        if value is not None
    ]
    if len(given) != 1:
        what = "is missing" if not given else f"stands beside {given[0]}"
        raise SizingError(
            given[1] if given else "per_gpu_pool_bytes",
            f"{what}: give one of per_gpu_pool_bytes, pool_gib, or total_gib with weights_gib",
        )
    if total_gib is None and any(part is not None for part in parts):
        name = "weights_gib" if weights_gib is not None else "overhead_gib"
        raise SizingError(name, "goes with total_gib alone")
    if per_gpu is not None:
        return layout.of_each_stage(per_gpu, where, "per_gpu_pool_bytes"), []
    if pool_gib is not None:
        amount = units.exact(pool_gib, "pool_gib")
        formula, numbers = "pool", f"{pool_gib}"
    else:
        if weights_gib is None:
            raise SizingError("weights_gib", "is missing beside total_gib")
        assert total_gib is not None
        weights = units.exact(weights_gib, "weights_gib")
        overhead = units.exact(overhead_gib or 0, "overhead_gib")
        amount = max(units.exact(total_gib, "total_gib") - weights - overhead, 0 * weights)
        formula = "max(0, total − weights − overhead)"
        numbers = f"max(0, {total_gib} − {weights_gib} − {overhead_gib or 0})"
    total = int(amount * units.GIB)
    pool = total // where.gpus_per_replica
    steps = [Step(f"⌊{formula} · 2³⁰⌋", f"⌊{numbers} · {units.GIB}⌋", total, "B")]
    if where.gpus_per_replica > 1:
        steps.append(Step("⌊pool / (tp · pp)⌋", f"⌊{total} / {where.gpus_per_replica}⌋", pool, "B"))
    return [pool] * where.pp, steps


def _demand_steps(one: Demand, held: int, unit: int, prefix: int, policy: str) -> list[Step]:
    out = []
    if policy == "paged":
        out.append(Step("⌈S / bs⌉", f"⌈{held} / {unit}⌉", -(-held // unit), "blocks"))
        if prefix:
            out.append(Step("⌊prefix / bs⌋", f"⌊{prefix} / {unit}⌋", prefix // unit, "blocks"))
    what = "blocks · bytes of one" if policy == "paged" else "tokens · bytes of one"
    terms = " + ".join(f"{count} · {size}" for count, size in one.own)
    state = [f"{one.state}"] if one.state else []
    formula = f"each: {what}" + (" + fixed state" if state else "")
    out.append(Step(formula, " + ".join([*([terms] if terms else []), *state]), one.each, "B"))
    if one.once:
        once = [f"{count} · {size}" for count, size in one.shared]
        once += [f"{one.static}"] if one.static else []
        out.append(Step("once: prefix, static scales", " + ".join(once), one.once, "B"))
    return out


def _bound_steps(one: Demand, pool: int, counted: dict[str, int]) -> list[Step]:
    out = []
    for name, bound in counted.items():
        if name in ("blocks", "memory"):
            room = f"max(0, {pool} − {one.once})" if one.once else f"{pool}"
            formula = "⌊(pool − once) / each⌋" if one.once else "⌊pool / each⌋"
            out.append(Step(formula, f"⌊{room} / {one.each}⌋", bound, "streams"))
        else:
            out.append(Step(name, f"{bound}", bound, "streams"))
    if len(out) > 1:
        low = min(counted.values())
        out.append(Step("min", f"min({', '.join(map(str, counted.values()))})", low, "streams"))
    return out


def _symbols(
    where: Layout, pool: int, length: int, held: int, unit: int, policy: str, binding: str
) -> tuple[Symbol, ...]:
    rows: list[tuple[str, str, int | str, str]] = [
        ("pool", "KV pool of one GPU", pool, "B"),
        ("S", "tokens of each sequence", length, "tokens"),
    ]
    if policy == "paged":
        rows.append(("bs", "tokens per block", unit, "tokens"))
    if policy == "contiguous" and held != length:
        rows.append(("S_max", "tokens reserved for each", held, "tokens"))
    if where is not layout.ONE_GPU:
        rows.append(("tp · pp", "GPUs of a replica", where.gpus_per_replica, "GPUs"))
        rows.append(("groups", "schedulers: dp · attention_dp", where.dp * where.attention_dp, ""))
    rows.append(("binding", "what binds first", binding, ""))
    return symbols(*rows)


def _notes(
    policy: str,
    prefix: int,
    unit: int,
    binding: str,
    one: Demand,
    pool: int,
    rows: list[list[LayerBytes]],
) -> tuple[str, ...]:
    notes = [f"bound by {binding}"]
    if one.each and pool < one.once + one.each:
        short = one.once + one.each - pool
        notes.append(f"not one sequence fits: {short:,} B short ({units.both(short)}) per GPU")
    if prefix and prefix % unit:
        rest = prefix % unit
        notes.append(f"{rest} tokens of the prefix fill no whole block: each sequence keeps them")
    if policy == "paged" and any(row.window is not None for stage in rows for row in stage):
        notes.append("a window that starts inside a block touches one block more: counted")
    if policy == "contiguous":
        notes.append("what is lost between reservations (external fragmentation) is not counted")
    return tuple(notes)
