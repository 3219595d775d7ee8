"""How long a step takes that is filled with prefill: what a decode beside it waits for."""

from __future__ import annotations

from core.sizing import checks, stored
from core.sizing.compute import Work, prefill_work, work_symbols
from core.sizing.geometry import ModelSpec
from core.sizing.gpus import GpuSpec
from core.sizing.result import Result, Step, Symbol, symbols
from core.sizing.step_setup import precision_of, tensor_parallel
from core.sizing.step_time import bandwidth_symbols, index_symbol, weight_steps, weight_symbols
from core.sizing.stored import WeightDtype
from core.sizing.text import num
from core.sizing.traffic import weights_on_gpu, weights_read


def full_step_time(
    model: ModelSpec,
    budget: int,
    tokens: int,
    gpu: GpuSpec,
    n_gpu: int = 1,
    weights: WeightDtype = "bf16",
    mfu: float = 1.0,
    mbu: float = 1.0,
    prompts: int | None = None,
    attention_dp: int = 1,
) -> Result:
    """Seconds of a step that computes prompts of `tokens` tokens up to its token budget.

    As many whole prompts as the budget holds, and the last part of one more, which attends to all
    before it: the slowest that such a step can be. prompts: the most that can be in it (no limit).
    attention_dp: groups, each with a budget of its own, which they fill in the same step.
    """
    budget = checks.whole(budget, "budget", 1, 1 << 32)
    each = checks.whole(tokens, "tokens", 1, 1 << 32)
    most = budget if prompts is None else checks.whole(prompts, "prompts", 1)
    mfu = checks.number(mfu, "mfu", 0.0, 1.0, above=True)
    mbu = checks.number(mbu, "mbu", 0.0, 1.0, above=True)
    where = tensor_parallel(model, n_gpu, attention_dp)
    kept = stored.of(weights, model, "weights")
    top, precision, notes = precision_of(model, gpu, kept, "active")
    number = min(budget // each, most)
    rest = min(budget - number * each, each) if number < most else 0
    whole, last = prefill_work(model, each), prefill_work(model, rest, each - rest)
    flops = number * whole.total + last.total
    split = where.head_split
    index = number * whole.indexing + last.indexing if split > 1 else 0
    busiest = (flops - index) / split + index
    computing = busiest / (top * mfu)
    taken = number * each + rest
    read = weights_read(model, taken * where.attention_dp)
    held = weights_on_gpu(model, read, kept, where, "active")
    reading = held.each / (gpu.bandwidth * mbu)
    value = max(computing, reading)
    return Result(
        value,
        "s",
        (
            *work_symbols(model, whole, "expanded"),
            *symbols(
                ("N", "tokens of a prompt", each),
                ("m", "whole prompts in the step", number),
                ("r", "tokens of one more", rest),
                ("T", "tokens that the step computes", taken),
                ("g", "GPUs that share them: n / attention_dp", split),
            ),
            Symbol("peak", f"{gpu.title}, dense {precision}", top, "FLOP/s"),
            Symbol("MFU", "share of peak reached", mfu, "fraction"),
            *([index_symbol(index)] if index else []),
            *weight_symbols(held, kept.name),
            Symbol("n", "GPUs", where.tp),
            *bandwidth_symbols(gpu, mbu),
        ),
        (
            Step("T = m · N + r", f"{number} · {each} + {rest}", taken, "tokens"),
            Step("F = 2 · P · N + Σ a · pairs", _put_in(whole, each), whole.total, "FLOP"),
            Step("f = 2 · P · r + Σ a · pairs", _put_in(last, rest), last.total, "FLOP"),
            Step("F_all = m · F + f", f"{number} · {whole.total} + {last.total}", flops, "FLOP"),
            Step(
                "F_gpu = (F_all − I) / g + I" if index else "F_gpu = F_all / g",
                f"({flops} − {index}) / {split} + {index}" if index else f"{flops} / {split}",
                busiest,
                "FLOP",
            ),
            Step(
                "F_gpu / (peak · MFU)",
                f"{num(busiest)} / ({num(top)} · {num(mfu)})",
                computing,
                "s",
            ),
            *weight_steps(held, gpu.bandwidth, mbu, reading),
            Step("max(computing, reading)", f"max({num(computing)}, {num(reading)})", value, "s"),
        ),
        scope="replica",
        notes=(*notes, *whole.notes, "what decodes in the same step comes on top"),
    )


def _put_in(work: Work, tokens: int) -> str:
    return f"2 · {work.params} · {tokens} + {work.pairs}"
