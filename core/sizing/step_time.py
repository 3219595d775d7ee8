"""How long a step takes: the slower of computing and reading, for matrices and attention in turn.

The two kinds of kernel run one after the other, so their times add. MFU and MBU are the shares of
the peak FLOP/s and of the memory bandwidth that kernels reach: inputs, never guessed. At 1 the time
is a floor that no kernel beats; collectives, launches and sampling come on top (`overhead_s`).
"""

from __future__ import annotations

from typing import NamedTuple

from core.sizing import checks, formats, layout
from core.sizing.compute import (
    COUNTS,
    MLA_PATHS,
    decode_work,
    params_per_token,
    prefill_work,
    work_symbols,
)
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
    """Checked common inputs. peak: of one GPU, in the precision that the matrices compute in.

    Attention computes in 16 bits, in whatever format the matrices and the cache are stored.
    """

    peak: float
    attention_peak: float
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
    computing = value = work.total / rate
    rows = [
        *work_symbols(model, work, "expanded"),
        Symbol("peak", f"{gpu.title}, dense {precision}", top, "FLOP/s"),
        *symbols(
            ("N", "tokens", tokens),
            ("n", "GPUs", n_gpu),
            ("MFU", "share of peak reached", mfu, "fraction"),
        ),
    ]
    steps = [
        Step("linear = 2 · P · N", f"2 · {num(work.params)} · {num(tokens)}", work.linear, "FLOP"),
        Step("attention = Σ a · pairs of query and key", work.pairs, work.attention, "FLOP"),
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
        value = max(computing, reading)
        steps.append(Step("the longer", f"max({num(computing)}, {num(reading)})", value, "s"))
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
    work = decode_work(model, context, batch, count, mla)
    linear, attention = work.linear, work.attention
    bw, peak_l, peak_a = gpu.bandwidth, setup.peak, setup.attention_peak
    t_weights, t_cache = size / (n_gpu * bw * mbu), cache / (bw * mbu)
    t_linear, t_attention = linear / (n_gpu * peak_l * mfu), attention / (n_gpu * peak_a * mfu)
    value = max(t_weights, t_linear) + max(t_cache, t_attention) + overhead
    return Result(
        value,
        "s",
        symbols(
            ("W", f"weights read, {weights}", size, "B"),
            ("K", "cache read on one GPU", cache, "B"),
            ("P", "parameters a token is multiplied by", work.params),
            ("A", "attention of all sequences", attention, "FLOP"),
            ("BW", "memory bandwidth", bw, "B/s"),
            ("peak", f"{gpu.title}, dense {setup.compute}", peak_l, "FLOP/s"),
            ("peak₁₆", "the same in 16 bits, for attention", peak_a, "FLOP/s"),
            ("n", "GPUs", n_gpu),
            ("B", "sequences", batch),
            ("MBU", "share of bandwidth reached", mbu, "fraction"),
            ("MFU", "share of peak reached", mfu, "fraction"),
            ("t₀", "collectives, launches, sampling", overhead, "s"),
        ),
        (
            Step("A = attention of all sequences", work.pairs, attention, "FLOP"),
            Step(
                "W / (n · BW · MBU)", f"{size} / ({n_gpu} · {num(bw)} · {num(mbu)})", t_weights, "s"
            ),
            Step(
                "2 · P · B / (n · peak · MFU)",
                f"2 · {work.params} · {batch} / ({n_gpu} · {num(peak_l)} · {num(mfu)})",
                t_linear,
                "s",
            ),
            Step("K / (BW · MBU)", f"{cache} / ({num(bw)} · {num(mbu)})", t_cache, "s"),
            Step(
                "A / (n · peak₁₆ · MFU)",
                f"{attention} / ({n_gpu} · {num(peak_a)} · {num(mfu)})",
                t_attention,
                "s",
            ),
            Step(
                "matrices: the longer; attention: the longer; + t₀",
                f"max({num(t_weights)}, {num(t_linear)}) + max({num(t_cache)}, {num(t_attention)})"
                f" + {num(overhead)}",
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
        (*step.steps, Step("B / step", f"{batch} / {num(step.value)}", value, "tok/s")),
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
    rate, speed = setup.peak * mfu, gpu.bandwidth * mbu
    params, _ = params_per_token(model, count)

    # From below: a batch reads no less than a smaller one, so no batch can do that computes for
    # less time than a smaller one reads, and the next to try is the one that does not.
    low = 1
    while True:
        read = weights_read(model, low, count)
        size = weight_size(read.params, weights, "weights")
        if 2 * params * low * speed >= size * rate:
            break
        low = max(low + 1, int(size * rate / (2 * params * speed)))
        if low > MOST_BATCH:
            why = f"no batch up to {MOST_BATCH:,} is bound by compute"
            return Result(None, "tokens", notes=(why,))
    return Result(
        low,
        "tokens",
        symbols(
            ("P", "parameters a token is multiplied by", params),
            ("W", f"weights read at that batch, {weights}", size, "B"),
            ("B", "the batch", low),
            ("peak", f"{gpu.title}, dense {setup.compute}", setup.peak, "FLOP/s"),
            ("BW", "memory bandwidth", gpu.bandwidth, "B/s"),
            ("MFU", "share of peak reached", mfu, "fraction"),
            ("MBU", "share of bandwidth reached", mbu, "fraction"),
        ),
        (
            Step(
                "2 · P · B / (peak · MFU)",
                f"2 · {params} · {low} / ({num(setup.peak)} · {num(mfu)})",
                2 * params * low / rate,
                "s",
            ),
            Step(
                "W / (BW · MBU)", f"{size} / ({num(gpu.bandwidth)} · {num(mbu)})", size / speed, "s"
            ),
            Step("the least B at which the first is not less than the second", "", low, "tokens"),
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
    return Setup(gpu.peaks[precision], gpu.peaks[sixteen], precision, where, notes)


def _bound(what: str, reading: float, computing: float) -> str:
    return f"{what}: bound by {'memory' if reading >= computing else 'compute'}"
