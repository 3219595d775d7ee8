"""What the times of steps have in common: the GPUs' layout, the weights' formats, the peaks."""

from __future__ import annotations

from typing import NamedTuple

from core.sizing import checks, copies, layout, stored
from core.sizing.compute import params_per_token
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec
from core.sizing.gpus import GpuSpec
from core.sizing.layout import Layout
from core.sizing.roofline import compute_dtype, peak
from core.sizing.stored import Stored, WeightDtype
from core.sizing.traffic import Read, numbers_read


class Setup(NamedTuple):
    """Checked common inputs. peak: of one GPU, in the precision that the matrices compute in.

    Attention computes in 16 bits, in whatever format the matrices and the cache are stored.
    mixing: active parameters of attention, or of what stands for it, where groups of GPUs have it
    to themselves; else 0.
    """

    peak: float
    attention_peak: float
    compute: str
    where: Layout
    kept: Stored
    mixing: int
    notes: tuple[str, ...]


def setup_of(
    model: ModelSpec,
    gpu: GpuSpec,
    n_gpu: int,
    weights: WeightDtype,
    compute: str | None,
    mfu: float,
    mbu: float,
    attention_dp: int,
    count: str = "active",
) -> Setup:
    """Raises SizingError at n_gpu, weights, compute, mfu, mbu or attention_dp."""
    where = _checked(model, tensor_parallel(model, n_gpu, attention_dp))
    checks.number(mfu, "mfu", 0.0, 1.0, above=True)
    checks.number(mbu, "mbu", 0.0, 1.0, above=True)
    kept = stored.of(weights, model, "weights")
    if compute is None:
        top, precision, notes = mean_peak(model, gpu, kept, "weights", count)
    else:
        top, precision, notes = peak(gpu, compute, "compute"), compute, ()
    sixteen, _ = compute_dtype(gpu, "bf16", "weights")
    mixed = mixing(model, where, count)
    notes += copies.notes(model, where)
    return Setup(top, gpu.peaks[sixteen], precision, where, kept, mixed, notes)


def tensor_parallel(model: ModelSpec, n_gpu: int, attention_dp: int = 1) -> Layout:
    """n_gpu GPUs that split each layer; attention in groups of them is checked against the model,
    for each must hold whole heads."""
    where = layout.of(checks.whole(n_gpu, "n_gpu", 1), 1, 1, attention_dp)
    return where if where.attention_dp == 1 else _checked(model, where)


def _checked(model: ModelSpec, where: Layout) -> Layout:
    try:
        layout.check(model, where)
    except SizingError as exc:
        raise SizingError("n_gpu" if exc.path == "tp" else exc.path, exc.message) from None
    return where


def mixing(model: ModelSpec, where: Layout, count: str) -> int:
    """Active parameters of what mixes tokens, if each attention group has it to itself."""
    if where.attention_dp == 1:
        return 0
    parts = [part for part in model.parts if part.name in copies.MIXING]
    return sum(part.matmul if count == "matmul" else part.active for part in parts)


def mean_peak(
    model: ModelSpec, gpu: GpuSpec, kept: Stored, path: str, count: str = "active"
) -> tuple[float, str, tuple[str, ...]]:
    """FLOP/s of the matrix units, the precision, and notes. Weights in several formats: the rate at
    which all of a token's parameters together are multiplied."""
    if kept.plain:
        precision, notes = compute_dtype(gpu, kept.main.compute, path)
        return gpu.peaks[precision], precision, notes
    params, _ = params_per_token(model, count)
    numbers = numbers_read(model, Read(params, params, 0, 0.0, ()), kept, count)
    total, time = 0, 0.0
    words: list[str] = []
    said: list[str] = []
    for fmt, number in numbers.items():
        if not number:
            continue
        precision, more = compute_dtype(gpu, fmt.compute, path)
        total, time = total + number, time + number / gpu.peaks[precision]
        words.append(precision)
        said += more
    words, notes = list(dict.fromkeys(words)), tuple(dict.fromkeys(said))
    if len(words) == 1:
        return gpu.peaks[words[0]], words[0], notes
    return total / time, f"mean of {' and '.join(words)}", notes


def precision_of(
    model: ModelSpec, gpu: GpuSpec, dtype: WeightDtype, count: str
) -> tuple[float, str, tuple[str, ...]]:
    """The peak of a precision by its own name, or by that of the weights' formats."""
    if isinstance(dtype, str) and dtype in gpu.peaks:
        return gpu.peaks[dtype], dtype, ()
    return mean_peak(model, gpu, stored.of(dtype, model), "dtype", count)


def bound(what: str, reading: float, computing: float) -> str:
    return f"{what}: bound by {'memory' if reading >= computing else 'compute'}"
