"""Bytes of the weights that one GPU holds, under tensor, pipeline and data-parallel attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from core.sizing import checks, copies, layout, stored, units, weights
from core.sizing.formats import Format
from core.sizing.geometry import ModelSpec
from core.sizing.layout import Layout
from core.sizing.result import ARITHMETIC, CONVENTION, Result, Step, Symbol, symbols
from core.sizing.stored import Stored, WeightDtype


class Stage(NamedTuple):
    """Weights of the layers from start to stop. numbers: parameters by format. mixing: those of the
    parts that mix tokens. exact: whether both are of these layers; else of the whole model."""

    start: int
    stop: int
    numbers: dict[Format, int]
    mixing: tuple[tuple[str, int], ...]
    exact: bool


def weight_bytes_per_gpu(
    model: ModelSpec,
    dtype: WeightDtype = "bf16",
    count: str = "exact",
    params: float | None = None,
    tp: int = 1,
    pp: int = 1,
    attention_dp: int = 1,
    stages: Sequence[int] | None = None,
    replicated_params: int | None = None,
    embedding_dtype: str | None = None,
    part_dtypes: Mapping[str, str] | None = None,
    group_size: int | None = None,
    scale_bytes: float | None = None,
    zero_bytes: float | None = None,
) -> Result:
    """Bytes of weights on the fullest GPU of a tp × pp replica.

    A stage holds what its layers have, the first one the embedding and the last one the head, so
    that a tied table lies on both; where it is not known which layers the parameters are in, stages
    are taken to differ by their number of layers alone. A stage's weights divide evenly over tp,
    but for what each GPU holds beyond that: the projections to KV heads that are copied past their
    number, and with attention_dp the attention's weights, which every group holds again.
    replicated_params: what is to be counted instead of the latter, per GPU.
    """
    where = layout.of(tp, pp, 1, attention_dp, stages)
    layout.check(model, where)
    total, letter = weights.counted(model, count, params)
    kept = stored.of(
        dtype,
        model,
        embedding_dtype=embedding_dtype,
        part_dtypes=part_dtypes,
        group_size=group_size,
        scale_bytes=scale_bytes,
        zero_bytes=zero_bytes,
    )
    if replicated_params is not None:
        checks.whole(replicated_params, "replicated_params")
    numbers = kept.of_total(model, total)
    parts = [
        (stage, _on_one_gpu(model, kept, stage, where, replicated_params))
        for stage in _stages(model, kept, where, total, numbers)
    ]
    fullest, rows = max(parts, key=lambda part: part[1].size)
    notes = [*weights.said(model, kept, numbers), *copies.notes(model, where)]
    if where.pp > 1:
        sizes = ", ".join(f"{one.size:,}" for _, one in parts)
        notes.append(
            f"the fullest of the stages, which hold {sizes} B on a GPU"
            if fullest.exact
            else "stages are taken as alike: the embedding and the head lie on the end ones"
        )
    return Result(
        rows.size,
        "B",
        (letter, *rows.symbols),
        rows.steps,
        scope="gpu",
        notes=(*notes, units.both(rows.size)),
        basis=ARITHMETIC if fullest.exact else CONVENTION,
        source=model.source,
    )


def per_stage(
    model: ModelSpec,
    kept: Stored,
    where: Layout,
    total: int,
    replicated: int | None = None,
) -> list[int]:
    """Bytes of weights on one GPU of each stage. Unchecked; see weight_bytes_per_gpu."""
    numbers = kept.of_total(model, total)
    return [
        _on_one_gpu(model, kept, stage, where, replicated).size
        for stage in _stages(model, kept, where, total, numbers)
    ]


def _stages(
    model: ModelSpec, kept: Stored, where: Layout, total: int, numbers: dict[Format, int]
) -> list[Stage]:
    layers = model.num_layers
    mixers = [part for part in model.parts if part.name in copies.MIXING]
    whole = tuple((part.name, part.params) for part in mixers)
    if where.pp == 1:
        return [Stage(0, layers, numbers, whole, True)]
    exact = total == model.params and all(part.placed for part in model.parts) and model.parts
    out, start = [], 0
    for size in where.stages or (layers // where.pp,) * where.pp:
        stop = start + size
        if exact:
            amounts = [(part.name, *part.within(start, stop)) for part in model.parts]
            mixing = tuple((part.name, sum(part.within(start, stop))) for part in mixers)
            out.append(Stage(start, stop, kept.numbers(amounts), mixing, True))
        else:
            out.append(Stage(start, stop, numbers, whole, False))
        start = stop
    return out


def _on_one_gpu(
    model: ModelSpec, kept: Stored, stage: Stage, where: Layout, replicated: int | None
) -> weights.Rows:
    """What one GPU of a stage holds: its share, and what it has beyond that."""
    own = stage.exact and where.pp > 1
    rows = weights.rows_of("P_stage" if own else "P", kept, stage.numbers)
    held, tp, layers = stage.stop - stage.start, where.tp, model.num_layers
    letters = [*rows.symbols, Symbol("tp", "tensor parallel", tp, "GPUs")]
    mixing: list[tuple[str, int]] = list(stage.mixing)
    if own:
        number = sum(stage.numbers.values())
        letters.append(Symbol("P_stage", f"parameters of its {held} layers", number, "params"))
    letters.append(Symbol("W", "all weights of the stage" if own else "all weights", rows.size))
    if stage.exact:
        even = -(-rows.size // tp)
        step = Step("⌈W / tp⌉", f"⌈{rows.size} / {tp}⌉", even, "B")
    else:
        even = -(-rows.size * held // (tp * layers))
        mixing = [(name, -(-number * held // layers)) for name, number in mixing]
        letters += symbols(("L_stage", "layers of the stage", held), ("L", "layers", layers))
        put_in = f"⌈{rows.size} · {held} / ({tp} · {layers})⌉"
        step = Step("⌈W · L_stage / (tp · L)⌉", put_in, even, "B")
    if replicated is not None:
        mixing = []
    extra = copies.beyond_share(model, where, mixing, stage.start, stage.stop)
    if replicated is not None:
        extra.append(("", replicated))
    if not any(number for _, number in extra):
        return weights.Rows(even, (*rows.steps, step), tuple(letters))
    copied = kept.numbers((name, number, 0) for name, number in extra)
    copied = {fmt: number for fmt, number in copied.items() if number}
    more = weights.rows_of("P_copied", kept, copied)
    letters.append(Symbol("P_copied", "held beyond the even share", sum(copied.values()), "params"))
    size = even + more.size
    total = Step("its share and the copies", f"{even} + {more.size}", size, "B")
    return weights.Rows(size, (*rows.steps, step, *more.steps, total), tuple(letters))
