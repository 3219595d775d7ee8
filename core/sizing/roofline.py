"""The roofline: what an accelerator reaches at a given intensity, and what intensity serving has.

Attainable rate P(I) = min(peak, I · BW); they meet at the ridge I* = peak / BW (Williams, Waterman,
Patterson 2009). Peaks are dense and of the precision that the matrix units compute in: a sparse
peak is twice as high and not reachable with dense weights.

Batching raises the intensity of the weights alone, as B sequences share one read of them. Each
reads its own cache, so attention's intensity is the same at any batch: 2 · n_q / (n_kv · b).
"""

from __future__ import annotations

from fractions import Fraction

from core.sizing import checks
from core.sizing.errors import SizingError
from core.sizing.gpus import GpuSpec
from core.sizing.result import Result, Step, Symbol, symbols
from core.sizing.text import num, short

SOURCE = "Williams, Waterman, Patterson 2009, Roofline: An Insightful Visual Performance Model"


def peak(gpu: GpuSpec, dtype: str, path: str = "dtype") -> float:
    """The dense peak of a precision; refused if the accelerator has no matrix units for it."""
    checks.choice(dtype, path, tuple(gpu.peaks))
    return gpu.peaks[dtype]


def ridge_point(gpu: GpuSpec, dtype: str = "bf16") -> Result:
    """FLOP per byte above which the matrix units, and below which the memory, sets the pace."""
    top = peak(gpu, dtype)
    value = top / gpu.bandwidth
    sparse = gpu.sparse_peaks.get(dtype)
    notes = (
        (f"with 2:4 sparsity {short(sparse / gpu.bandwidth)}, which dense weights never reach",)
        if sparse
        else ()
    )
    return Result(
        value,
        "FLOP/B",
        _gpu_symbols(gpu, dtype),
        (Step("I* = peak / BW", f"{num(top)} / {num(gpu.bandwidth)}", value, "FLOP/B"),),
        scope="gpu",
        notes=notes,
        source=SOURCE,
    )


def attainable_flops(gpu: GpuSpec, intensity: float, dtype: str = "bf16") -> Result:
    """FLOP/s that the roofline allows at an intensity in FLOP per byte."""
    top = peak(gpu, dtype)
    intensity = checks.number(intensity, "intensity")
    value = min(top, intensity * gpu.bandwidth)
    return Result(
        value,
        "FLOP/s",
        (*_gpu_symbols(gpu, dtype), Symbol("I", "intensity", intensity, "FLOP/B")),
        (
            Step(
                "min(peak, I · BW)",
                f"min({num(top)}, {num(intensity)} · {num(gpu.bandwidth)})",
                value,
                "FLOP/s",
            ),
        ),
        scope="gpu",
        notes=("bound by compute" if value == top else "bound by memory",),
        source=SOURCE,
    )


def arithmetic_intensity_weights(batch: int, weight_bytes: float = 2) -> Result:
    """FLOP per byte of a matrix's weights when `batch` tokens go through it: 2 · B / b.

    batch: sequences in decode, all tokens of the step in prefill. weight_bytes: of one parameter.
    """
    batch = checks.whole(batch, "batch", 1)
    weight_bytes = checks.positive(weight_bytes, "weight_bytes")
    value = 2 * batch / weight_bytes
    return Result(
        value,
        "FLOP/B",
        symbols(("B", "tokens in the step", batch), ("b", "bytes per weight", weight_bytes, "B")),
        (Step("2 · B / b", f"2 · {batch} / {num(weight_bytes)}", value, "FLOP/B"),),
        notes=("weights alone: activations and cache are not counted",),
    )


def arithmetic_intensity_linear(
    batch: int, d_in: int, d_out: int, weight_bytes: float = 2, act_bytes: float = 2
) -> Result:
    """FLOP per byte of one linear layer, its input and output activations included."""
    batch = checks.whole(batch, "batch", 1)
    d_in, d_out = checks.whole(d_in, "d_in", 1), checks.whole(d_out, "d_out", 1)
    weight_bytes = checks.positive(weight_bytes, "weight_bytes")
    act_bytes = checks.number(act_bytes, "act_bytes")
    flops = 2 * batch * d_in * d_out
    moved = weight_bytes * d_in * d_out + act_bytes * batch * (d_in + d_out)
    value = flops / moved
    return Result(
        value,
        "FLOP/B",
        symbols(
            ("B", "tokens in the step", batch),
            ("d_in", "input width", d_in),
            ("d_out", "output width", d_out),
            ("b", "bytes per weight", weight_bytes, "B"),
            ("b_a", "bytes per activation", act_bytes, "B"),
        ),
        (
            Step("2 · B · d_in · d_out", f"2 · {batch} · {d_in} · {d_out}", flops, "FLOP"),
            Step(
                "b · d_in · d_out + b_a · B · (d_in + d_out)",
                f"{num(weight_bytes)} · {d_in} · {d_out} + {num(act_bytes)} · {batch} · "
                f"{d_in + d_out}",
                moved,
                "B",
            ),
            Step("FLOPs / bytes", f"{num(flops)} / {num(moved)}", value, "FLOP/B"),
        ),
        scope="layer",
    )


def min_compute_bound_batch(
    gpu: GpuSpec,
    weight_bytes: float = 2,
    compute: str = "bf16",
    d: int | None = None,
    act_bytes: float = 2,
    experts: int = 1,
    experts_per_token: int = 1,
) -> Result:
    """The fewest tokens in a step at which a linear layer is bound by compute, not by memory.

    compute: the precision the matrix units work in; weight_bytes: of the weights as stored. d: the
    width of a square layer, to count its activations too; without it only weights are counted.
    experts, experts_per_token: an expert sees only its share of the tokens, so a mixture needs
    experts / experts_per_token times as many. None if the layer is too narrow ever to get there.
    """
    top = peak(gpu, compute, "compute")
    weight_bytes = checks.positive(weight_bytes, "weight_bytes")
    act_bytes = checks.number(act_bytes, "act_bytes")
    experts = checks.whole(experts, "experts", 1)
    visited = checks.whole(experts_per_token, "experts_per_token", 1, experts)
    ridge = Fraction(top) / Fraction(gpu.bandwidth)
    b = Fraction(weight_bytes)
    rows = [
        *_gpu_symbols(gpu, compute),
        Symbol("I*", "ridge", float(ridge), "FLOP/B"),
        Symbol("b", "bytes per weight", weight_bytes, "B"),
    ]
    need = ridge * b / 2
    formula, put_in = "I* · b / 2", f"{num(float(ridge))} · {num(weight_bytes)} / 2"
    if d is not None:
        d = checks.whole(d, "d", 1)
        rows += symbols(("d", "width", d), ("b_a", "bytes per activation", act_bytes, "B"))
        left = d - ridge * Fraction(act_bytes)
        formula = "I* · b · d / (2 · (d − I* · b_a))"
        put_in = (
            f"{num(float(ridge))} · {num(weight_bytes)} · {d} / (2 · ({d} − "
            f"{num(float(ridge))} · {num(act_bytes)}))"
        )
        if left <= 0:
            why = (
                f"a layer {d} wide moves so many activations per FLOP that no batch reaches the "
                f"ridge: its intensity stays below d / b_a"
            )
            return Result(None, "tokens", tuple(rows), notes=(why,), scope="gpu")
        need = ridge * b * d / (2 * left)
    if experts > 1:
        rows += symbols(("E", "experts", experts), ("k", "experts that a token visits", visited))
        need = need * experts / visited
        formula, put_in = f"{formula} · E / k", f"{put_in} · {experts} / {visited}"
    value = -(-need.numerator // need.denominator)
    return Result(
        value,
        "tokens",
        tuple(rows),
        (
            Step("I* = peak / BW", f"{num(top)} / {num(gpu.bandwidth)}", float(ridge), "FLOP/B"),
            Step(f"⌈{formula}⌉", f"⌈{put_in}⌉", value, "tokens"),
        ),
        scope="gpu",
        notes=("experts are taken to be visited equally often",) if experts > 1 else (),
        source=SOURCE,
    )


def roofline_utilization(
    gpu: GpuSpec, batch: int, dtype: str = "bf16", weight_bytes: float = 2
) -> Result:
    """The share of peak that the weights' matrices can reach with `batch` tokens in a step."""
    top = peak(gpu, dtype)
    batch = checks.whole(batch, "batch", 1)
    weight_bytes = checks.positive(weight_bytes, "weight_bytes")
    intensity, ridge = 2 * batch / weight_bytes, top / gpu.bandwidth
    value = min(1.0, intensity / ridge)
    return Result(
        value,
        "fraction",
        (
            *_gpu_symbols(gpu, dtype),
            *symbols(
                ("B", "tokens in the step", batch), ("b", "bytes per weight", weight_bytes, "B")
            ),
        ),
        (
            Step("I = 2 · B / b", f"2 · {batch} / {num(weight_bytes)}", intensity, "FLOP/B"),
            Step("I* = peak / BW", f"{num(top)} / {num(gpu.bandwidth)}", ridge, "FLOP/B"),
            Step("min(1, I / I*)", f"min(1, {num(intensity)} / {num(ridge)})", value, "fraction"),
        ),
        scope="gpu",
        notes=("an upper bound: kernels, collectives and the cache's own reads come on top",),
        source=SOURCE,
    )


def compute_dtype(gpu: GpuSpec, preferred: str, path: str) -> tuple[str, tuple[str, ...]]:
    """The precision that weights of a format are multiplied in on this accelerator.

    Where it has no matrix units for the format's own precision the weights are widened to 16 bits
    on the way, as engines do; the note says so.
    """
    if preferred in gpu.peaks:
        return preferred, ()
    for wider in ("bf16", "fp16"):
        if wider in gpu.peaks:
            why = f"{gpu.name} has no {preferred} matrix units: the weights are widened to {wider}"
            return wider, (why,)
    raise SizingError(path, f"{gpu.name} has a peak for none of {preferred}, bf16 and fp16")


def _gpu_symbols(gpu: GpuSpec, dtype: str) -> tuple[Symbol, ...]:
    return (
        Symbol("peak", f"{gpu.title}, dense {dtype}", gpu.peaks[dtype], "FLOP/s"),
        Symbol("BW", "memory bandwidth", gpu.bandwidth, "B/s"),
    )
