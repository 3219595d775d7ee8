"""Bytes of the weights: exact, from the config's parameter count, or nominal, from the card's.

Memory is that of all parameters, experts included, whatever one token visits. Quantised checkpoints
keep scales beside their matrices, and most keep some parts wider: the embedding and the head in 16
bits, or everything but the experts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from core.sizing import checks, formats, layout, units
from core.sizing.errors import SizingError
from core.sizing.formats import Format
from core.sizing.geometry import KVHeads, Latent, ModelSpec
from core.sizing.layout import Layout
from core.sizing.result import CONVENTION, Result, Step, Symbol, symbols

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
    dtype: str = "bf16",
    count: str = "exact",
    params: float | None = None,
    out: str = "B",
    embedding_dtype: str | None = None,
    part_dtypes: Mapping[str, str] | None = None,
    group_size: int | None = None,
    scale_bytes: float = 2,
    zero_bytes: float = 0,
) -> Result:
    """Bytes of all weights.

    count: "exact" by the config, "nominal" by the model's card; params overrides either.
    out: the unit of the value. embedding_dtype: the format of embedding and head, if another.
    part_dtypes: of other parts of the model (`ModelSpec.parts`), as in {"experts": "mxfp4"}.
    group_size: numbers of a quantised matrix to one scale, of scale_bytes, and one zero point, of
    zero_bytes (0.5: packed in 4 bits); None if there are too few scales to count.
    """
    checks.choice(out, "out", tuple(units.SIZES))
    total, letter = _params(model, count, params)
    pieces = _pieces(model, total, dtype, embedding_dtype, part_dtypes)
    main, apart = pieces[0], pieces[1:]
    steps = [_bytes_step("(P − the parts below)" if apart else "P", main)]
    steps += [_bytes_step(piece.name, piece) for piece in apart]
    letters = [
        letter,
        Symbol("b", f"bytes per number in {main.fmt.name}", main.fmt.bytes_per_element, "B"),
        *(Symbol(p.name, f"kept in {p.fmt.name}", p.params, "params") for p in apart),
    ]
    notes: list[str] = []
    if group_size is not None:
        step, more = _scale_step(pieces, group_size, scale_bytes, zero_bytes)
        steps.append(step)
        letters += more
    elif any(_needs_scales(piece.fmt) for piece in pieces):
        notes.append("without scales: give group_size for a checkpoint that has one per group")
    size = int(sum(step.value for step in steps))
    if len(steps) > 1:
        steps.append(Step("sum", " + ".join(f"{s.value}" for s in steps), size, "B"))
    value: int | float = size
    if out != "B":
        factor = units.SIZES[out]
        value = units.plain(Fraction(size) / factor)
        steps.append(Step(f"in {out}", f"{size} / ({factor})", value, out))
    if any(piece.fmt.own_scales for piece in pieces):
        notes.append("real files keep norms, and rows that do not fill blocks, in wider formats")
    notes.append(units.both(size))
    return Result(
        value,
        out,
        tuple(letters),
        tuple(steps),
        scope="model",
        notes=tuple(notes),
        source=model.source if model is not None else "",
    )


def weight_bytes_per_gpu(
    model: ModelSpec,
    dtype: str = "bf16",
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
    scale_bytes: float = 2,
    zero_bytes: float = 0,
) -> Result:
    """Bytes of weights on the fullest GPU of a tp × pp replica.

    Weights divide evenly, but for what a GPU holds beyond its even share: the projections to KV
    heads that are copied past their number, and with attention_dp the attention's weights, which
    every group holds again; both counted from the config. replicated_params: what is to be counted
    instead of the latter, per GPU.
    """
    where = layout.of(tp, pp, 1, attention_dp, stages)
    layout.check(model, where)
    whole = weight_bytes(
        model,
        dtype,
        count,
        params,
        "B",
        embedding_dtype,
        part_dtypes,
        group_size,
        scale_bytes,
        zero_bytes,
    )
    assert isinstance(whole.value, int)
    steps, letters = _even_share(model, where, whole.value)
    notes = list(whole.notes[:-1])
    extra, more = _copied(model, where, replicated_params)
    notes += more
    if extra:
        even = int(steps[0].value)
        part = Piece("P_copied", extra, formats.get(dtype))
        steps.append(_bytes_step("P_copied", part))
        steps.append(Step("sum", f"{even} + {steps[1].value}", even + int(steps[1].value), "B"))
        letters.append(Symbol("P_copied", "held beyond the even share", extra, "params"))
    if where.pp > 1:
        notes.append("stages are taken as alike: the embedding and the head lie on the end ones")
    value = int(steps[-1].value)
    return Result(
        value,
        "B",
        (*whole.symbols, *letters),
        (*whole.steps, *steps),
        scope="gpu",
        notes=(*notes, units.both(value)),
        basis=CONVENTION if where.pp > 1 else whole.basis,
        source=whole.source,
    )


@dataclass(frozen=True, slots=True)
class Piece:
    """Parameters that are kept in one format."""

    name: str
    params: int
    fmt: Format


def _pieces(
    model: ModelSpec | None,
    total: int,
    dtype: str,
    embedding_dtype: str | None,
    part_dtypes: Mapping[str, str] | None,
) -> list[Piece]:
    """What is kept in `dtype`, then the parts that are not."""
    fmt = formats.get(dtype)
    apart: dict[str, Piece] = {}
    if embedding_dtype is not None:
        other = formats.get(embedding_dtype, "embedding_dtype")
        for name, number in _tables(model).items():
            apart[name] = Piece(name, number, other)
    if part_dtypes is not None:
        if not isinstance(part_dtypes, Mapping):
            raise SizingError("part_dtypes", 'must be an object, as in {"experts": "mxfp4"}')
        sizes = {part.name: part.params for part in model.parts} if model is not None else {}
        for name, given in part_dtypes.items():
            path = f"part_dtypes.{name}"
            if name not in sizes:
                known = f"it has {', '.join(sizes)}" if sizes else "its parts are not known"
                raise SizingError(path, f"is no part of the model: {known}")
            apart[name] = Piece(name, sizes[name], formats.get(given, path))
    rest = total - sum(piece.params for piece in apart.values())
    if rest < 0:
        raise SizingError("params", f"{total:,} are fewer than the parts named have together")
    same = sum(piece.params for piece in apart.values() if piece.fmt == fmt)
    return [Piece("", rest + same, fmt), *(p for p in apart.values() if p.fmt != fmt)]


def _tables(model: ModelSpec | None) -> dict[str, int]:
    """Embedding tables and the output head."""
    parts = model.parts if model is not None else ()
    found = {
        part.name: part.params
        for part in parts
        if "embedding" in part.name or part.name == "output head"
    }
    if not found and model is not None and model.vocab_size and model.hidden_size:
        tables = 1 if model.tied_embeddings else 2
        found = {"embedding and head": tables * model.vocab_size * model.hidden_size}
    if not found:
        raise SizingError("embedding_dtype", "needs a model whose vocabulary and width are known")
    return found


def _params(model: ModelSpec | None, count: str, params: float | None) -> tuple[int, Symbol]:
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


def _bytes_step(letter: str, piece: Piece) -> Step:
    """number · b, in whole blocks."""
    number, fmt = piece.params, piece.fmt
    size = formats.bytes_of(number, fmt)
    b = "b" if not piece.name or piece.name == "P_copied" else f"{fmt.b}"
    if number % fmt.block_elements:
        blocks = f"⌈{number} / {fmt.block_elements}⌉ · {fmt.block_bytes}"
        return Step(f"⌈{letter} / block size⌉ · bytes per block", blocks, size, "B")
    return Step(f"{letter} · {b}", f"{number} · {fmt.b}", size, "B")


def _needs_scales(fmt: Format) -> bool:
    return fmt.quantised and not fmt.own_scales


def _scale_step(
    pieces: list[Piece], group_size: int, scale_bytes: float, zero_bytes: float
) -> tuple[Step, tuple[Symbol, ...]]:
    group = checks.whole(group_size, "group_size", 1, 2**20)
    checks.number(scale_bytes, "scale_bytes", 0, 8, above=True)
    checks.number(zero_bytes, "zero_bytes", 0, 8)
    scaled = [piece for piece in pieces if _needs_scales(piece.fmt)]
    if not scaled:
        fmt = pieces[0].fmt
        why = "carries its own scales" if fmt.own_scales else "is not quantised"
        raise SizingError("group_size", f"{fmt.name} {why}")
    scale, zero = units.exact(scale_bytes, "scale_bytes"), units.exact(zero_bytes, "zero_bytes")
    number = sum(piece.params for piece in scaled)
    groups = -(-number // group)
    total = groups * (scale + zero)
    return (
        Step(
            "⌈⌈P_q / g⌉ · (s + z)⌉",
            f"⌈⌈{number} / {group}⌉ · ({units.plain(scale)} + {units.plain(zero)})⌉",
            -(-total.numerator // total.denominator),
            "B",
        ),
        symbols(
            ("P_q", "quantised parameters", number, "params"),
            ("g", "numbers to a scale", group, "numbers"),
            ("s", "one scale", units.plain(scale), "B"),
            ("z", "one zero point", units.plain(zero), "B"),
        ),
    )


def _even_share(model: ModelSpec, where: Layout, whole: int) -> tuple[list[Step], list[Symbol]]:
    """What one GPU holds if all weights divide; of stages that differ, the longest."""
    letters = list(
        symbols(
            ("W", "all weights", whole, "B"),
            ("tp", "tensor parallel", where.tp, "GPUs"),
            ("pp", "pipeline stages", where.pp, "stages"),
        )
    )
    if not where.stages:
        even = -(-whole // where.gpus_per_replica)
        return [
            Step("⌈W / (tp · pp)⌉", f"⌈{whole} / ({where.tp} · {where.pp})⌉", even, "B")
        ], letters
    longest, total = max(where.stages), model.num_layers
    letters += symbols(
        ("L_stage", "layers of the longest stage", longest, "layers"),
        ("L", "layers", total, "layers"),
    )
    return [
        Step(
            "⌈W · L_stage / (tp · L)⌉",
            f"⌈{whole} · {longest} / ({where.tp} · {total})⌉",
            -(-whole * longest // (where.tp * total)),
            "B",
        )
    ], letters


def _copied(model: ModelSpec, where: Layout, replicated: int | None) -> tuple[int, tuple[str, ...]]:
    """Parameters that one GPU holds beyond its even share, and what is to be said of them."""
    notes: list[str] = []
    extra = _copied_projections(model, where)
    if extra:
        notes.append(f"{-(-extra // 1):,} parameters of K and V projections are on each GPU again")
    if replicated is not None:
        extra += checks.whole(replicated, "replicated_params")
    elif where.attention_dp > 1:
        attention = sum(part.params for part in model.parts if part.name == "attention")
        again = attention * (Fraction(1, where.head_split) - Fraction(1, where.tp)) / where.pp
        extra += again
        notes.append(
            f"{-(-again // 1):,} parameters of attention are on each GPU beside its even share"
            if again
            else "each attention group holds the attention's weights again: name them in "
            "replicated_params, or this is too low"
        )
    if where.head_split > 1 and any(
        isinstance(layer.cache, Latent) for layer, _ in model.layer_groups
    ):
        notes.append("MLA's down-projections are on every GPU; they are taken as divided here")
    return int(-(-extra // 1)), tuple(notes)


def _copied_projections(model: ModelSpec, where: Layout) -> Fraction:
    """Parameters of K and V projections that one GPU holds beyond its part of the heads."""
    split, extra = where.head_split, Fraction(0)
    for layer, count in model.layer_groups:
        cache = layer.cache
        if isinstance(cache, KVHeads) and split > cache.num_kv_heads:
            beyond = 1 - Fraction(cache.num_kv_heads, split)
            extra += count * beyond * model.hidden_size * (cache.key_dim + cache.value_dim)
    return extra / where.pp
