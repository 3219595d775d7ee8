"""What a measured time says of the hardware: the share of its peak, and of its bandwidth, reached.

These are the MFU and MBU that `step_time` takes: measure once, then predict other sizes.
"""

from __future__ import annotations

from core.sizing import checks
from core.sizing.compute import prefill_work
from core.sizing.geometry import ModelSpec
from core.sizing.gpus import GpuSpec
from core.sizing.kv_format import KVDtype
from core.sizing.result import WARNING, Result, Step, symbols
from core.sizing.roofline import peak
from core.sizing.step_setup import setup_of
from core.sizing.step_time import MOST_BATCH
from core.sizing.stored import WeightDtype
from core.sizing.text import num
from core.sizing.traffic import kv_read, weights_on_gpu, weights_read


def achieved_mfu(
    model: ModelSpec,
    tokens: int,
    gpu: GpuSpec,
    seconds: float,
    n_gpu: int = 1,
    dtype: str = "bf16",
    computed: int = 0,
) -> Result:
    """The share of peak FLOP/s that a measured prefill reached: what prefill_time takes as mfu."""
    tokens = checks.whole(tokens, "tokens", 1)
    computed = checks.whole(computed, "computed")
    seconds = checks.positive(seconds, "seconds")
    n_gpu = checks.whole(n_gpu, "n_gpu", 1)
    top = peak(gpu, dtype)
    work = prefill_work(model, tokens, computed)
    rate = work.total / seconds
    value = rate / (n_gpu * top)
    return Result(
        value,
        "fraction",
        symbols(
            ("F", "FLOPs of the prompt", work.total, "FLOP"),
            ("t", "measured", seconds, "s"),
            ("n", "GPUs", n_gpu),
            ("peak", f"{gpu.title}, dense {dtype}", top, "FLOP/s"),
        ),
        (
            Step("F / t", f"{num(work.total)} / {num(seconds)}", rate, "FLOP/s"),
            Step("F / t / (n · peak)", f"{num(rate)} / ({n_gpu} · {num(top)})", value, "fraction"),
        ),
        notes=(*work.notes, *_impossible(value, "peak")),
    )


def achieved_mbu(
    model: ModelSpec,
    gpu: GpuSpec,
    seconds: float,
    n_gpu: int = 1,
    batch: int = 1,
    context: int = 1,
    weights: WeightDtype = "bf16",
    kv: KVDtype = "bf16",
    attention_dp: int = 1,
) -> Result:
    """The share of memory bandwidth that a measured decode step reached."""
    seconds = checks.positive(seconds, "seconds")
    batch = checks.whole(batch, "batch", 1, MOST_BATCH)
    context = checks.whole(context, "context")
    setup = setup_of(model, gpu, n_gpu, weights, None, 1.0, 1.0, attention_dp)
    held = weights_on_gpu(model, weights_read(model, batch), setup.kept, setup.where)
    cache = -(-batch // setup.where.attention_dp) * kv_read(model, context, kv, setup.where)
    moved = held.each + cache
    rate = moved / seconds
    value = rate / gpu.bandwidth
    return Result(
        value,
        "fraction",
        symbols(
            ("W", f"weights read, {setup.kept.name}", held.whole, "B"),
            ("n", "GPUs", n_gpu),
            ("C", "weights that each GPU has beyond its share", held.copied, "B"),
            ("K", "cache read on one GPU", cache, "B"),
            ("M", "all that one GPU reads", moved, "B"),
            ("t", "measured", seconds, "s"),
            ("BW", "memory bandwidth", gpu.bandwidth, "B/s"),
        ),
        (
            Step("W / n + C + K", f"{held.whole} / {n_gpu} + {held.copied} + {cache}", moved, "B"),
            Step(
                "M / t / BW",
                f"{num(moved)} / {num(seconds)} / {num(gpu.bandwidth)}",
                value,
                "fraction",
            ),
        ),
        scope="gpu",
        notes=_impossible(value, "bandwidth"),
    )


def _impossible(value: float, what: str) -> tuple[str, ...]:
    return (f"{WARNING}above the {what}: the time or an input is wrong",) if value > 1 else ()
