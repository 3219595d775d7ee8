"""Bytes of the weights: exact, from the config's parameter count, or nominal, from the card's.

Memory is that of all parameters, experts included, whatever one token visits. Quantised checkpoints
keep scales beside their matrices, and most keep some parts wider: the embedding and the head in 16
bits, or everything but the experts.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from core.sizing import checks, formats, stored, units
from core.sizing.errors import SizingError
from core.sizing.formats import Format
from core.sizing.geometry import ModelSpec
from core.sizing.result import Result, Step, Symbol, symbols
from core.sizing.stored import Stored, WeightDtype

COUNTS = ("exact", "nominal")


def param_count(model: ModelSpec, which: str = "total") -> Result:
    """Parameters of the language model by its config: "total", "active" (those one token visits),
    or "matmul" (those it is multiplied by)."""
    checks.choice(which, "which", ("total", "active", "matmul"))
    totals = (model.params, model.active_params, model.matmul_params)
    value = totals[("total", "active", "matmul").index(which)]
    if value is None:
        raise SizingError("model", _unknown(model, f"{which} number of parameters"))
    counted = [
        (part.name, {"total": part.params, "active": part.active, "matmul": part.matmul}[which])
        for part in model.parts
    ]
    counted = [(name, number) for name, number in counted if number]
    steps = [Step(name, f"{number}", number, "params") for name, number in counted]
    if len(steps) > 1:
        steps.append(Step("sum", " + ".join(f"{n}" for _, n in counted), value, "params"))
    return Result(
        value,
        "params",
        steps=tuple(steps),
        scope="model",
        notes=model.notes,
        source=model.source,
    )


def weight_bytes(
    model: ModelSpec | None = None,
    dtype: WeightDtype = "bf16",
    count: str = "exact",
    params: float | None = None,
    out: str = "B",
    embedding_dtype: str | None = None,
    part_dtypes: Mapping[str, str] | None = None,
    group_size: int | None = None,
    scale_bytes: float | None = None,
    zero_bytes: float | None = None,
) -> Result:
    """Bytes of all weights.

    dtype: a format's name, "checkpoint" for what the config says of the published ones, or an
    object (`stored`). count: "exact" by the config, "nominal" by the model's card; params overrides
    either. out: the unit of the value. embedding_dtype: the format of embedding and head, if
    another. part_dtypes: of other parts of the model (`ModelSpec.parts`), as in
    {"experts": "mxfp4"}. group_size: numbers of a quantised matrix to one scale, of scale_bytes
    (2), and one zero point, of zero_bytes (0; 0.5: packed in 4 bits); None if there are too few
    scales to count.
    """
    checks.choice(out, "out", tuple(units.SIZES))
    total, letter = counted(model, count, params)
    kept = stored.of(
        dtype,
        model,
        embedding_dtype=embedding_dtype,
        part_dtypes=part_dtypes,
        group_size=group_size,
        scale_bytes=scale_bytes,
        zero_bytes=zero_bytes,
    )
    numbers = kept.of_total(model, total)
    rows = rows_of("P", kept, numbers)
    size, steps = rows.size, list(rows.steps)
    value: int | float = size
    if out != "B":
        factor = units.SIZES[out]
        value = units.plain(Fraction(size) / factor)
        steps.append(Step(f"in {out}", f"{size} / ({factor})", value, out))
    return Result(
        value,
        out,
        (letter, *rows.symbols),
        tuple(steps),
        scope="model",
        notes=(*said(model, kept, numbers), units.both(size)),
        source=model.source if model is not None else "",
    )


class Rows(NamedTuple):
    """Bytes, the steps to them, and their letters."""

    size: int
    steps: tuple[Step, ...]
    symbols: tuple[Symbol, ...]


def rows_of(letter: str, kept: Stored, numbers: Mapping[Format, int]) -> Rows:
    """Bytes of so many parameters of each format. letter: what they are called together."""
    steps, letters = [], []
    for fmt, number in numbers.items():
        name = letter
        if len(numbers) > 1:
            name = f"({letter} − the rest)" if fmt is kept.main else f"{letter}_{fmt.name}"
        size = formats.bytes_of(number, fmt)
        if number % fmt.block_elements:
            blocks = f"⌈{number} / {fmt.block_elements}⌉ · {fmt.block_bytes}"
            steps.append(Step(f"⌈{name} / block size⌉ · bytes per block", blocks, size, "B"))
        else:
            b = "b" if fmt is kept.main else fmt.b
            steps.append(Step(f"{name} · {b}", f"{number} · {fmt.b}", size, "B"))
        if fmt is not kept.main:
            letters.append(Symbol(name, f"kept in {fmt.name}", number, "params"))
    main = kept.main
    letters.append(Symbol("b", f"bytes per number in {main.name}", main.bytes_per_element, "B"))
    if kept.group_size is not None:
        step, more = _scale_step(kept, numbers)
        steps.append(step)
        letters += more
    total = int(sum(step.value for step in steps))
    if len(steps) > 1:
        steps.append(Step("sum", " + ".join(f"{s.value}" for s in steps), total, "B"))
    return Rows(total, tuple(steps), tuple(letters))


def _scale_step(kept: Stored, numbers: Mapping[Format, int]) -> tuple[Step, tuple[Symbol, ...]]:
    number = sum(n for fmt, n in numbers.items() if stored.needs_scales(fmt))
    scale, zero, group = units.plain(kept.scale), units.plain(kept.zero), kept.group_size
    return (
        Step(
            "⌈⌈P_q / g⌉ · (s + z)⌉",
            f"⌈⌈{number} / {group}⌉ · ({scale} + {zero})⌉",
            kept.scales_of(numbers),
            "B",
        ),
        symbols(
            ("P_q", "quantised parameters", number, "params"),
            ("g", "numbers to a scale", group, "numbers"),
            ("s", "one scale", scale, "B"),
            ("z", "one zero point", zero, "B"),
        ),
    )


def said(model: ModelSpec | None, kept: Stored, numbers: Mapping[Format, int]) -> tuple[str, ...]:
    """What is to be said of formats: what they leave out, and what the published ones are."""
    out = list(kept.notes)
    packed = [fmt for fmt, number in numbers.items() if number and fmt.quantised]
    if kept.group_size is None and any(map(stored.needs_scales, packed)):
        out.append(
            "without scales: the config tells of none per group, and one to a row is little"
            if kept.published
            else "without scales: give group_size for a checkpoint that has one per group"
        )
    if packed and kept.plain:
        out.append(
            f"all of it in {kept.main.name}: most checkpoints keep embedding and head in 16 bits "
            "(embedding_dtype), and norms and biases"
        )
    published = model.quantised if model is not None else None
    if published is not None and published.dtype is not None and not kept.published:
        out.append(
            f"the published weights are quantised ({published.method}): the format "
            f"{stored.CHECKPOINT!r} counts those"
        )
    return tuple(out)


def counted(model: ModelSpec | None, count: str, params: float | None) -> tuple[int, Symbol]:
    """The number of parameters, and its letter."""
    checks.choice(count, "count", COUNTS)
    if params is not None:
        total = checks.whole(params, "params", 1)
        return total, Symbol("P", "parameters, as given", total, "params")
    if model is None:
        raise SizingError("model", "is missing: give a model, or a number of parameters in params")
    if count == "nominal":
        if model.nominal_params is None:
            raise SizingError("count", f"{model.name} has no nominal number of parameters")
        total = checks.whole(model.nominal_params, "model.nominal_params", 1)
        return total, Symbol("P", "parameters by the model's card", total, "params")
    if model.params is None:
        raise SizingError("count", _unknown(model, "exact number of parameters"))
    return model.params, Symbol("P", "parameters by the config", model.params, "params")


def _unknown(model: ModelSpec, what: str) -> str:
    why = f": {model.params_note}" if model.params_note else ""
    hint = "; its nominal number can be used" if model.nominal_params else ""
    return f"the {what} of {model.name} is not known{why}{hint}"
