"""Where the KV cache becomes as large as the weights, over batch and context."""

from __future__ import annotations

from fractions import Fraction

from core.sizing import checks, kv_format, kv_layers, kv_text, stored, units, weights
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec
from core.sizing.kv_format import KVDtype
from core.sizing.kv_layers import LayerBytes
from core.sizing.result import Result, Step, Symbol, symbols
from core.sizing.stored import WeightDtype


def kv_weights_balance(
    model: ModelSpec,
    dtype: KVDtype = "bf16",
    weight_dtype: WeightDtype = "bf16",
    tokens: int | None = None,
    batch: int | None = None,
    count: str = "exact",
    params: float | None = None,
) -> Result:
    """The batch at which sequences of `tokens` tokens hold as many bytes as the weights, or the
    context at which a batch of `batch` does. Give one of the two.

    A real number, for a curve: below it weights dominate memory (and what a decode step reads),
    above it the cache does. None if no context is long enough, every layer having a window.
    """
    if (tokens is None) == (batch is None):
        raise SizingError(
            "tokens" if tokens is None else "batch",
            "give one: the tokens of each sequence, or the batch",
        )
    kept = stored.of(weight_dtype, model, "weight_dtype")
    held = weights.weight_bytes(model, kept, count, params)
    assert isinstance(held.value, int)
    fmt = kv_format.of(dtype)
    rows = kv_layers.of_model(model, fmt)
    letters = kv_text.Letters(rows, fmt)
    weight = symbols(("weights", f"all weights in {kept.name}", held.value, "B"))
    if tokens is not None:
        length = checks.whole(tokens, "tokens", 1)
        each = kv_layers.per_sequence(rows, length) + kv_layers.state(rows)
        if not each:
            return Result(None, "sequences", notes=("a sequence of this model keeps nothing",))
        value = units.plain(Fraction(held.value, each))
        steps, named = kv_text.sequence_steps(rows, length, fmt, letters)
        if fixed := kv_layers.state(rows):
            last = f"{each - fixed} + {fixed}"
            steps.append(Step("M_seq + fixed state", last, each, "B"))
        return Result(
            value,
            "sequences",
            (
                *letters.symbols,
                *named,
                kv_text.length_symbol(length),
                *held.symbols,
                *weight,
                *symbols(("M_seq", "what one sequence keeps", each, "B")),
            ),
            (
                *held.steps,
                *steps,
                Step("weights / M_seq", f"{held.value} / {each}", value, "sequences"),
            ),
            notes=held.notes,
        )
    number = checks.whole(batch, "batch", 1)
    return _context(rows, held, number, kv_text.token_steps(rows, fmt, letters), letters.symbols)


def _context(
    rows: list[LayerBytes],
    held: Result,
    batch: int,
    token_steps: list[Step],
    letters: tuple[Symbol, ...],
) -> Result:
    """The length at which `batch` sequences keep as much as the weights: M_seq is piecewise linear,
    and bends where a window is full."""
    assert isinstance(held.value, int)
    fixed = kv_layers.state(rows)
    share = max(Fraction(0), Fraction(held.value, batch) - fixed)
    steps = [
        *held.steps,
        *token_steps,
        Step(
            "max(0, weights / B − fixed state)",
            f"max(0, {held.value} / {batch} − {fixed})",
            units.plain(share),
            "B",
        ),
    ]
    bend = 0
    for window in sorted({row.window for row in rows if row.window is not None}):
        if kv_layers.per_sequence(rows, window) >= share:
            break
        bend = window
    full, slope = kv_layers.per_sequence(rows, bend), kv_layers.growth(rows, bend)
    known = (
        *letters,
        *held.symbols,
        *symbols(
            ("B", "batch", batch, "sequences"),
            ("W_full", "the last window that is full", bend, "tokens"),
            ("M_seq", "what a sequence of that length keeps", full, "B"),
            ("growth", "bytes per further token", slope, "B"),
        ),
    )
    if not slope:
        note = f"no context is long enough: a sequence never keeps more than {full:,} B"
        return Result(None, "tokens", known, tuple(steps), notes=(note, *held.notes))
    value = units.plain(bend + (share - full) / slope)
    steps.append(
        Step(
            "W_full + (share − M_seq) / growth",
            f"{bend} + (max(0, {held.value} / {batch} − {fixed}) − {full}) / {slope}",
            value,
            "tokens",
        )
    )
    return Result(value, "tokens", known, tuple(steps), notes=held.notes)
