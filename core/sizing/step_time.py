"""How long a step takes: the slower of computing and reading, for matrices and attention in turn.

The two kinds of kernel run one after the other, so their times add. The times are those of the
GPU that has most to do: under data-parallel attention (`attention_dp`) a group of GPUs computes and
reads attention for its own sequences alone, and holds all of attention's weights for it.

MFU and MBU are the shares of the peak FLOP/s and of the memory bandwidth that kernels reach:
inputs, never guessed. At 1 the time is a floor that no kernel beats; collectives, launches and
sampling come on top (`overhead_s`).
"""

from __future__ import annotations

from core.sizing import checks, stored
from core.sizing.compute import COUNTS, MLA_PATHS, decode_work, prefill_work, work_symbols
from core.sizing.geometry import ModelSpec
from core.sizing.gpus import GpuSpec
from core.sizing.kv_format import KVDtype
from core.sizing.result import Result, Step, Symbol, symbols
from core.sizing.step_setup import (
    bound,
    mixing,
    precision_of,
    setup_of,
    tensor_parallel,
)
from core.sizing.stored import WeightDtype
from core.sizing.text import num
from core.sizing.traffic import Held, kv_read, weights_on_gpu, weights_read

MOST_BATCH = 1 << 24


def prefill_time(
    model: ModelSpec,
    tokens: int,
    gpu: GpuSpec,
    n_gpu: int = 1,
    dtype: WeightDtype = "bf16",
    mfu: float = 1.0,
    causal: bool = True,
    computed: int = 0,
    count: str = "active",
    weights: WeightDtype | None = None,
    mbu: float = 1.0,
    attention_dp: int = 1,
) -> Result:
    """Seconds to prefill `tokens` prompt tokens behind `computed` cached ones, alone on n_gpu GPUs.

    dtype: the precision that the matrix units compute in, or the weights' format. weights: the
    format they are stored in, to see whether a short prompt is bound by reading them instead; None:
    computing alone. attention_dp: groups of GPUs; one of them has all of the prompt's attention.
    """
    tokens = checks.whole(tokens, "tokens")
    computed = checks.whole(computed, "computed")
    where = tensor_parallel(model, n_gpu, attention_dp)
    mfu = checks.number(mfu, "mfu", 0.0, 1.0, above=True)
    mbu = checks.number(mbu, "mbu", 0.0, 1.0, above=True)
    checks.choice(count, "count", COUNTS)
    top, precision, notes = precision_of(model, gpu, dtype, count)
    work = prefill_work(model, tokens, computed, causal, count)
    mixed = mixing(model, where, count)
    rows = [
        *work_symbols(model, work, "expanded"),
        Symbol("peak", f"{gpu.title}, dense {precision}", top, "FLOP/s"),
        *symbols(
            ("N", "tokens", tokens),
            ("n", "GPUs", n_gpu),
            ("MFU", "share of peak reached", mfu, "fraction"),
        ),
    ]
    linear, n, split = work.linear, n_gpu, where.head_split
    steps = [
        Step("linear = 2 · P · N", f"2 · {num(work.params)} · {num(tokens)}", linear, "FLOP"),
        Step("attention = Σ a · pairs of query and key", work.pairs, work.attention, "FLOP"),
        Step("F = linear + attention", f"{linear} + {work.attention}", work.total, "FLOP"),
    ]
    index = work.indexing if split > 1 else 0
    if where.attention_dp == 1 and not index:
        computing = work.total / (n * top * mfu)
        put_in = f"{num(work.total)} / ({n} · {num(top)} · {num(mfu)})"
        steps.append(Step("F / (n · peak · MFU)", put_in, computing, "s"))
    else:
        own = 2 * mixed * tokens + work.attention
        busiest = (work.total - own) / n + (own - index) / split + index
        computing = busiest / (top * mfu)
        rows += symbols(
            ("P_a", "of P, those of attention that a group has to itself", mixed),
            ("g", "GPUs of an attention group", split),
        )
        numbers = f"2 · {mixed} · {tokens} + {work.attention}"
        steps.append(Step("own = 2 · P_a · N + attention", numbers, own, "FLOP"))
        formula = "F_gpu = (F − own) / n + own / g"
        numbers = f"({work.total} − {own}) / {n} + {own} / {split}"
        if index:
            rows.append(index_symbol(index))
            formula = "F_gpu = (F − own) / n + (own − I) / g + I"
            numbers = f"({work.total} − {own}) / {n} + ({own} − {index}) / {split} + {index}"
        steps.append(Step(formula, numbers, busiest, "FLOP"))
        numbers = f"{num(busiest)} / ({num(top)} · {num(mfu)})"
        steps.append(Step("F_gpu / (peak · MFU)", numbers, computing, "s"))
    value = computing
    if weights is not None and tokens:
        kept = stored.of(weights, model, "weights")
        held = weights_on_gpu(model, weights_read(model, tokens, count), kept, where, count)
        reading = held.each / (gpu.bandwidth * mbu)
        rows += [*weight_symbols(held, kept.name), *bandwidth_symbols(gpu, mbu)]
        value = max(computing, reading)
        steps += weight_steps(held, gpu.bandwidth, mbu, reading)
        steps.append(
            Step("max(computing, reading)", f"max({num(computing)}, {num(reading)})", value, "s")
        )
    return Result(
        value,
        "s",
        tuple(rows),
        tuple(steps),
        scope="replica",
        notes=(*notes, *work.notes, "alone in the batch, with no queue and no collectives"),
    )


def index_symbol(flops: int) -> Symbol:
    """I: what every GPU computes whole, in whatever way heads are split."""
    return Symbol("I", "of it, the indexers' scores, which every GPU computes", flops, "FLOP")


def weight_symbols(held: Held, name: str) -> tuple[Symbol, ...]:
    """Letters of the weights that a step reads."""
    what = f"weights read, {name}: P and the experts of other tokens"
    rows = symbols(("W", what, held.whole, "B"))
    if held.copied:
        more = "weights that each GPU has beyond its share"
        rows += symbols(("C", more, held.copied, "B"), ("W_gpu", "read by one GPU", held.each, "B"))
    return rows


def bandwidth_symbols(gpu: GpuSpec, mbu: float) -> tuple[Symbol, ...]:
    """BW and MBU."""
    return symbols(
        ("BW", "memory bandwidth", gpu.bandwidth, "B/s"),
        ("MBU", "share of bandwidth reached", mbu, "fraction"),
    )


def weight_steps(held: Held, bw: float, mbu: float, seconds: float) -> list[Step]:
    """The time to read one GPU's weights."""
    whole, n = held.whole, held.tp
    if not held.copied:
        put_in = f"{whole} / ({n} · {num(bw)} · {num(mbu)})"
        return [Step("W / (n · BW · MBU)", put_in, seconds, "s")]
    return [
        Step("W_gpu = W / n + C", f"{whole} / {n} + {held.copied}", held.each, "B"),
        Step("W_gpu / (BW · MBU)", f"{num(held.each)} / ({num(bw)} · {num(mbu)})", seconds, "s"),
    ]


def decode_step_time(
    model: ModelSpec,
    gpu: GpuSpec,
    n_gpu: int = 1,
    batch: int = 1,
    context: int = 1,
    weights: WeightDtype = "bf16",
    kv: KVDtype = "bf16",
    mbu: float = 1.0,
    mfu: float = 1.0,
    compute: str | None = None,
    count: str = "active",
    mla: str = "absorbed",
    attention_dp: int = 1,
    overhead_s: float = 0.0,
) -> Result:
    """Seconds of one decode step: `batch` sequences, one token each, `context` tokens cached.

    n_gpu: tensor parallel; weights are spread evenly but for what each GPU has to itself, KV heads
    as `layout` says. attention_dp: groups of GPUs, each with attention of its own for its part of
    the batch. compute: the precision of the matrix units, by default that of the weights' format.
    overhead_s: collectives, launches and sampling, as measured.
    """
    batch = checks.whole(batch, "batch", 1, MOST_BATCH)
    context = checks.whole(context, "context")
    overhead = checks.number(overhead_s, "overhead_s")
    checks.choice(count, "count", COUNTS)
    checks.choice(mla, "mla", MLA_PATHS)
    setup = setup_of(model, gpu, n_gpu, weights, compute, mfu, mbu, attention_dp, count)
    where, kept = setup.where, setup.kept
    read = weights_read(model, batch, count)
    held = weights_on_gpu(model, read, kept, where, count)
    local = -(-batch // where.attention_dp)
    cache = local * kv_read(model, context, kv, where)
    work = decode_work(model, context, local, count, mla)
    attention, split = work.attention, where.head_split
    slots = local * where.attention_dp - batch
    linear = 2 * (work.params * batch + setup.mixing * slots)
    bw, peak_l, peak_a = gpu.bandwidth, setup.peak, setup.attention_peak
    t_weights, t_cache = held.each / (bw * mbu), cache / (bw * mbu)
    index = work.indexing if split > 1 else 0
    busiest = (attention - index) / split + index
    t_linear, t_attention = linear / (n_gpu * peak_l * mfu), busiest / (peak_a * mfu)
    value = max(t_weights, t_linear) + max(t_cache, t_attention) + overhead
    groups: tuple[Symbol, ...] = ()
    of_all, shared = "all sequences", "n"
    tokens, put_in = "2 · P · B", f"2 · {work.params} · {batch}"
    if where.attention_dp > 1:
        groups = symbols(
            ("dp", "attention groups", where.attention_dp),
            ("g", "GPUs of one", split),
            ("P_a", "of P, those of attention", setup.mixing),
            ("e", "places that the batch leaves empty in groups: dp · ⌈B / dp⌉ − B", slots),
        )
        of_all, shared = "the ⌈B / dp⌉ sequences of one group", "g"
        tokens = "2 · (P · B + P_a · e)"
        put_in = f"2 · ({work.params} · {batch} + {setup.mixing} · {slots})"
    attending: tuple[Step, ...]
    if index:
        groups += (index_symbol(index),)
        if where.attention_dp == 1:
            groups += symbols(("g", "GPUs that share heads", split))
        attending = (
            Step(
                "A_gpu = (A − I) / g + I",
                f"({attention} − {index}) / {split} + {index}",
                busiest,
                "FLOP",
            ),
            Step(
                "A_gpu / (peak₁₆ · MFU)",
                f"{num(busiest)} / ({num(peak_a)} · {num(mfu)})",
                t_attention,
                "s",
            ),
        )
    else:
        numbers = f"{attention} / ({split} · {num(peak_a)} · {num(mfu)})"
        attending = (Step(f"A / ({shared} · peak₁₆ · MFU)", numbers, t_attention, "s"),)
    return Result(
        value,
        "s",
        (
            *weight_symbols(held, kept.name),
            *symbols(
                ("K", "cache read on one GPU", cache, "B"),
                ("P", work.counted, work.params),
                ("A", f"attention of {of_all}", attention, "FLOP"),
                ("peak", f"{gpu.title}, dense {setup.compute}", peak_l, "FLOP/s"),
                ("peak₁₆", "the same in 16 bits, for attention", peak_a, "FLOP/s"),
                ("n", "GPUs", n_gpu),
                ("B", "sequences", batch),
            ),
            *groups,
            *bandwidth_symbols(gpu, mbu),
            *symbols(
                ("MFU", "share of peak reached", mfu, "fraction"),
                ("t₀", "collectives, launches, sampling", overhead, "s"),
            ),
        ),
        (
            Step(f"A = attention of {of_all}", work.pairs, attention, "FLOP"),
            *weight_steps(held, bw, mbu, t_weights),
            Step(
                f"{tokens} / (n · peak · MFU)",
                f"{put_in} / ({n_gpu} · {num(peak_l)} · {num(mfu)})",
                t_linear,
                "s",
            ),
            Step("K / (BW · MBU)", f"{cache} / ({num(bw)} · {num(mbu)})", t_cache, "s"),
            *attending,
            Step(
                "max(weights, matrices) + max(cache, attention) + t₀",
                f"max({num(t_weights)}, {num(t_linear)}) + max({num(t_cache)}, {num(t_attention)})"
                f" + {num(overhead)}",
                value,
                "s",
            ),
        ),
        scope="replica",
        notes=(
            bound("matrices", t_weights, t_linear),
            bound("attention", t_cache, t_attention),
            *setup.notes,
            *read.notes,
            *(note for note in work.notes if note not in read.notes),
        ),
    )


def decode_tokens_per_s(
    model: ModelSpec,
    gpu: GpuSpec,
    n_gpu: int = 1,
    batch: int = 1,
    context: int = 1,
    weights: WeightDtype = "bf16",
    kv: KVDtype = "bf16",
    mbu: float = 1.0,
    mfu: float = 1.0,
) -> Result:
    """Output tokens per second of all sequences together: B / step."""
    step = decode_step_time(model, gpu, n_gpu, batch, context, weights, kv, mbu, mfu)
    assert step.value is not None
    value = batch / step.value
    return Result(
        value,
        "tok/s",
        step.symbols,
        (*step.steps, Step("B / step", f"{batch} / {num(step.value)}", value, "tok/s")),
        scope="replica",
        notes=(*step.notes, "decoding alone: prefills of other requests take their share"),
    )
