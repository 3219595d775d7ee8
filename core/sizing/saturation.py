"""The batch at which decode's matrices are bound by compute."""

from __future__ import annotations

from core.sizing import checks
from core.sizing.compute import COUNTED, COUNTS, params_per_token
from core.sizing.geometry import ModelSpec
from core.sizing.gpus import GpuSpec
from core.sizing.result import Result, Step, symbols
from core.sizing.step_setup import setup_of
from core.sizing.step_time import MOST_BATCH
from core.sizing.stored import WeightDtype
from core.sizing.text import num
from core.sizing.traffic import numbers_read, weights_read


def batch_to_saturate(
    model: ModelSpec,
    gpu: GpuSpec,
    weights: WeightDtype = "bf16",
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
    setup = setup_of(model, gpu, 1, weights, compute, mfu, mbu, 1, count)
    rate, speed = setup.peak * mfu, gpu.bandwidth * mbu
    params, _ = params_per_token(model, count)

    # From below: a batch reads no less than a smaller one, so no batch can do that computes for
    # less time than a smaller one reads, and the next to try is the one that does not.
    low = 1
    while True:
        read = weights_read(model, low, count)
        size = setup.kept.size(numbers_read(model, read, setup.kept, count))
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
            ("P", COUNTED[count], params),
            ("W", f"weights read at that batch, {setup.kept.name}", size, "B"),
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
