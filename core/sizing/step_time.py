"""How long a step takes: the slower of computing and reading, for matrices and attention in turn.

The two kinds of kernel run one after the other, so their times add. MFU and MBU are the shares of
the peak FLOP/s and of the memory bandwidth that kernels reach: inputs, never guessed. At 1 the time
is a floor that no kernel beats; collectives, launches and sampling come on top (`overhead_s`).
"""

from __future__ import annotations

from typing import NamedTuple

from core.sizing import checks, formats, layout
from core.sizing.compute import COUNTS, MLA_PATHS, decode_work, params_per_token, prefill_work
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec
from core.sizing.gpus import GpuSpec
from core.sizing.kv_format import KVDtype
from core.sizing.layout import Layout
from core.sizing.result import Result, Step, Symbol, symbols
from core.sizing.roofline import compute_dtype, peak
from core.sizing.text import num
from core.sizing.traffic import kv_read, weight_size, weights_read

MOST_BATCH = 1 << 24


class Setup(NamedTuple):
    """Checked common inputs: rates of all GPUs together, in FLOP/s and B/s.

    Attention computes in 16 bits, in whatever format the matrices and the cache are stored.
    """

    flops: float
    attention_flops: float
    bandwidth: float
    compute: str
    where: Layout
    notes: tuple[str, ...]


def prefill_time(
    model: ModelSpec,
    tokens: int,
    gpu: GpuSpec,
    n_gpu: int = 1,
    dtype: str = "bf16",
    mfu: float = 1.0,
    causal: bool = True,
    computed: int = 0,
    count: str = "active",
    weights: str | None = None,
    mbu: float = 1.0,
) -> Result:
    """Seconds to prefill `tokens` prompt tokens behind `computed` cached ones, alone on n_gpu GPUs.

    dtype: the precision that the matrix units compute in. weights: the format they are stored in,
    to see whether a short prompt is bound by reading them instead; None: computing alone.
    """
    tokens = checks.whole(tokens, "tokens")
    computed = checks.whole(computed, "computed")
    n_gpu = checks.whole(n_gpu, "n_gpu", 1)
    mfu = checks.number(mfu, "mfu", 0.0, 1.0, above=True)
    mbu = checks.number(mbu, "mbu", 0.0, 1.0, above=True)
    checks.choice(count, "count", COUNTS)
    precision, notes = _precision(gpu, dtype)
    top = gpu.peaks[precision]
    work = prefill_work(model, tokens, computed, causal, count)
    rate = n_gpu * top * mfu
    value = work.total / rate
    rows = [
        Symbol("F", "FLOPs of the prompt", work.total, "FLOP"),
        Symbol("peak", f"{gpu.title}, dense {precision}", top, "FLOP/s"),
        *symbols(("n", "GPUs", n_gpu), ("MFU", "share of peak reached", mfu, "fraction")),
    ]
    steps = [
        Step("linear = 2 · P · N", f"2 · {num(work.params)} · {num(tokens)}", work.linear, "FLOP"),
        Step(
            "F = linear + attention",
            f"{num(work.linear)} + {num(work.attention)}",
            work.total,
            "FLOP",
        ),
        Step(
            "F / (n · peak · MFU)",
            f"{num(work.total)} / ({n_gpu} · {num(top)} · {num(mfu)})",
            value,
            "s",
        ),
    ]
    if weights is not None and tokens:
        size = weight_size(weights_read(model, tokens, count).params, weights, "weights")
        reading = size / (n_gpu * gpu.bandwidth * mbu)
        rows += symbols(
            ("W", "weights read", size, "B"),
            ("BW", "memory bandwidth", gpu.bandwidth, "B/s"),
            ("MBU", "share of bandwidth reached", mbu, "fraction"),
        )
        steps.append(
            Step(
                "W / (n · BW · MBU)",
                f"{num(size)} / ({n_gpu} · {num(gpu.bandwidth)} · {num(mbu)})",
                reading,
                "s",
            )
        )
        value = max(value, reading)
        steps.append(Step("the longer of the two", "max", value, "s"))
    return Result(
        value,
        "s",
        tuple(rows),
        tuple(steps),
        scope="replica",
        notes=(*notes, *work.notes, "alone in the batch, with no queue and no collectives"),
    )


def decode_step_time(
    model: ModelSpec,
    gpu: GpuSpec,
    n_gpu: int = 1,
    batch: int = 1,
    context: int = 1,
    weights: str = "bf16",
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

    n_gpu: tensor parallel; weights are spread evenly, KV heads as `layout` says. compute: the
    precision of the matrix units, by default that of the weights' format. overhead_s: collectives,
    launches and sampling, as measured.
    """
    batch = checks.whole(batch, "batch", 1, MOST_BATCH)
    context = checks.whole(context, "context")
    overhead = checks.number(overhead_s, "overhead_s")
    checks.choice(count, "count", COUNTS)
    checks.choice(mla, "mla", MLA_PATHS)
    setup = setup_of(model, gpu, n_gpu, weights, compute, mfu, mbu, attention_dp)
    read = weights_read(model, batch, count)
    size = weight_size(read.params, weights, "weights")
    local = -(-batch // setup.where.attention_dp)
    cache = local * kv_read(model, context, kv, setup.where)
    work = decode_work(model, context, count, mla)
    linear, attention = batch * work.linear, batch * work.attention
    per_gpu = setup.bandwidth / n_gpu
    t_weights, t_linear = size / setup.bandwidth, linear / setup.flops
    t_cache, t_attention = cache / per_gpu, attention / setup.attention_flops
    value = max(t_weights, t_linear) + max(t_cache, t_attention) + overhead
    return Result(
        value,
        "s",
        (
            Symbol("W", f"weights read, {weights}", size, "B"),
            Symbol("K", "cache read on one GPU", cache, "B"),
            Symbol("BW", "memory bandwidth", gpu.bandwidth, "B/s"),
            Symbol(
                "peak", f"{gpu.title}, dense {setup.compute}", gpu.peaks[setup.compute], "FLOP/s"
            ),
            *symbols(
                ("n", "GPUs", n_gpu),
                ("B", "sequences", batch),
                ("S", "context", context, "tokens"),
                ("MBU", "share of bandwidth reached", mbu, "fraction"),
                ("MFU", "share of peak reached", mfu, "fraction"),
            ),
        ),
        (
            Step(
                "t_W = W / (n · BW · MBU)", f"{num(size)} / {num(setup.bandwidth)}", t_weights, "s"
            ),
            Step(
                "t_L = 2 · P · B / (n · peak · MFU)",
                f"{num(linear)} / {num(setup.flops)}",
                t_linear,
                "s",
            ),
            Step("t_K = K / (BW · MBU)", f"{num(cache)} / {num(per_gpu)}", t_cache, "s"),
            Step(
                "t_A = attention / (n · peak of 16 bits · MFU)",
                f"{num(attention)} / {num(setup.attention_flops)}",
                t_attention,
                "s",
            ),
            Step(
                "max(t_W, t_L) + max(t_K, t_A) + overhead",
                f"{num(max(t_weights, t_linear))} + {num(max(t_cache, t_attention))} + "
                f"{num(overhead)}",
                value,
                "s",
            ),
        ),
        scope="replica",
        notes=(
            _bound("matrices", t_weights, t_linear),
            _bound("attention", t_cache, t_attention),
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
    weights: str = "bf16",
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
        (*step.steps, Step("B / t", f"{batch} / {num(step.value)}", value, "tok/s")),
        scope="replica",
        notes=(*step.notes, "decoding alone: prefills of other requests take their share"),
    )


def batch_to_saturate(
    model: ModelSpec,
    gpu: GpuSpec,
    weights: str = "bf16",
    compute: str | None = None,
    mfu: float = 1.0,
    mbu: float = 1.0,
    count: str = "active",
) -> Result:
    """The smallest decode batch at which the matrices are bound by compute, for this model.

    A dense model gets there at I* · b / 2 tokens. In a mixture of experts each token multiplies a
    few experts while the batch reads ever more of them, so it takes several times as many.
    """
    checks.choice(count, "count", COUNTS)
    setup = setup_of(model, gpu, 1, weights, compute, mfu, mbu, 1)
    params, _ = params_per_token(model, count)

    def bound_by_compute(batch: int) -> bool:
        size = weight_size(weights_read(model, batch, count).params, weights, "weights")
        return 2 * params * batch / setup.flops >= size / setup.bandwidth

    low, high = 1, 1
    while not bound_by_compute(high):
        low, high = high + 1, high * 2
        if high > MOST_BATCH:
            why = f"no batch up to {num(MOST_BATCH)} is bound by compute"
            return Result(None, "tokens", notes=(why,))
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if bound_by_compute(middle) else (middle + 1, high)
    read = weights_read(model, low, count)
    size = weight_size(read.params, weights, "weights")
    flops = 2 * params * low
    return Result(
        low,
        "tokens",
        symbols(
            ("P", "parameters a token is multiplied by", params),
            ("W", f"weights read at that batch, {weights}", size, "B"),
            ("F", f"{gpu.title}, dense {setup.compute} · MFU", setup.flops, "FLOP/s"),
            ("BW", "memory bandwidth · MBU", setup.bandwidth, "B/s"),
        ),
        (
            Step("2 · P · B / F", f"{num(flops)} / {num(setup.flops)}", flops / setup.flops, "s"),
            Step("W(B) / BW", f"{num(size)} / {num(setup.bandwidth)}", size / setup.bandwidth, "s"),
            Step("least B with 2 · P · B / F ≥ W(B) / BW", "", low, "tokens"),
        ),
        scope="gpu",
        notes=(
            *setup.notes,
            *read.notes,
            "the matrices alone: each sequence reads its own cache, so no batch helps attention",
        ),
    )


def _precision(gpu: GpuSpec, dtype: str) -> tuple[str, tuple[str, ...]]:
    """A precision of the matrix units by its own name, or by that of a weight format."""
    if isinstance(dtype, str) and dtype in gpu.peaks:
        return dtype, ()
    return compute_dtype(gpu, formats.get(dtype).compute, "dtype")


def setup_of(
    model: ModelSpec,
    gpu: GpuSpec,
    n_gpu: int,
    weights: str,
    compute: str | None,
    mfu: float,
    mbu: float,
    attention_dp: int,
) -> Setup:
    n_gpu = checks.whole(n_gpu, "n_gpu", 1)
    mfu = checks.number(mfu, "mfu", 0.0, 1.0, above=True)
    mbu = checks.number(mbu, "mbu", 0.0, 1.0, above=True)
    where = layout.of(n_gpu, 1, 1, attention_dp)
    try:
        layout.check(model, where)
    except SizingError as exc:
        raise SizingError("n_gpu" if exc.path == "tp" else exc.path, exc.message) from None
    fmt = formats.get(weights, "weights")
    if compute is None:
        precision, notes = compute_dtype(gpu, fmt.compute, "weights")
    else:
        peak(gpu, compute, "compute")
        precision, notes = compute, ()
    sixteen, _ = compute_dtype(gpu, "bf16", "weights")
    rate = n_gpu * mfu
    return Setup(
        rate * gpu.peaks[precision],
        rate * gpu.peaks[sixteen],
        n_gpu * mbu * gpu.bandwidth,
        precision,
        where,
        notes,
    )


def _bound(what: str, reading: float, computing: float) -> str:
    return f"{what}: bound by {'memory' if reading >= computing else 'compute'}"
