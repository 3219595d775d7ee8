"""Where the KV cache becomes as large as the weights, over batch and context."""

from __future__ import annotations

from fractions import Fraction

from core.sizing import checks, kv_format, kv_layers, kv_text, units, weights
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec
from core.sizing.kv_format import KVDtype
from core.sizing.kv_layers import LayerBytes
from core.sizing.result import Result, Step, symbols


def kv_weights_balance(
    model: ModelSpec,
    dtype: KVDtype = "bf16",
    weight_dtype: str = "bf16",
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
    held = weights.weight_bytes(model, weight_dtype, count, params)
    assert isinstance(held.value, int)
    fmt = kv_format.of(dtype)
    rows = kv_layers.of_model(model, fmt)
    letters = (
        *kv_text.symbols_of(rows, fmt),
        *symbols(("W_bytes", f"weights in {weight_dtype}", held.value, "B")),
    )
    if tokens is not None:
        length = checks.whole(tokens, "tokens", 1)
        each = kv_layers.per_sequence(rows, length) + kv_layers.state(rows)
        if not each:
            return Result(None, "sequences", notes=("a sequence of this model keeps nothing",))
        value = units.plain(Fraction(held.value, each))
        return Result(
            value,
            "sequences",
            letters,
            (
                *held.steps,
                Step("M_seq", f"S = {length}", each, "B"),
                Step("W_bytes / M_seq", f"{held.value} / {each}", value, "sequences"),
            ),
            notes=held.notes,
        )
    number = checks.whole(batch, "batch", 1)
    share = Fraction(held.value, number) - kv_layers.state(rows)
    found = _length_of(rows, share)
    steps = (*held.steps, Step("W_bytes / B", f"{held.value} / {number}", units.plain(share), "B"))
    if found is None:
        most = kv_layers.per_sequence(rows, max((row.window or 0 for row in rows), default=0))
        note = f"no context is long enough: a sequence never keeps more than {most:,} B"
        return Result(None, "tokens", letters, steps, notes=(note, *held.notes))
    value = units.plain(found)
    return Result(
        value,
        "tokens",
        letters,
        (*steps, Step("S with M_seq(S) = W_bytes / B", "", value, "tokens")),
        notes=held.notes,
    )


def _length_of(rows: list[LayerBytes], target: Fraction) -> Fraction | None:
    """The length at which a sequence keeps `target` bytes: M_seq is piecewise linear, and bends
    where a window is full."""
    if target <= 0:
        return Fraction(0)
    start = 0
    for bend in sorted({row.window for row in rows if row.window is not None}):
        if kv_layers.per_sequence(rows, bend) >= target:
            break
        start = bend
    slope = kv_layers.growth(rows, start)
    if not slope:
        return None
    return start + (target - kv_layers.per_sequence(rows, start)) / slope
