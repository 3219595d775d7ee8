"""Bytes of the weights: exact, from the config's parameter count, or nominal, from the card's.

Memory is that of all parameters, experts included, whatever one token visits. Quantised checkpoints
keep scales beside their matrices, and most keep the embedding and the head in 16 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    value = {
        "total": model.params,
        "active": model.active_params,
        "matmul": model.matmul_params,
    }[which]
    if value is None:
        raise SizingError("model", _unknown(model, f"{which} number of parameters"))
    return Result(value, "params", scope="model", notes=model.notes, source=model.source)


def weight_bytes(
    model: ModelSpec | None = None,
    dtype: str = "bf16",
    count: str = "exact",
    params: float | None = None,
    out: str = "B",
    embedding_dtype: str | None = None,
    group_size: int | None = None,
    scale_bytes: float = 2,
    zero_bytes: float = 0,
) -> Result:
    """Bytes of all weights.

    count: "exact" by the config, "nominal" by the model's card; params overrides either.
    out: the unit of the value. embedding_dtype: the format in which embedding and head are kept, if
    it is another. group_size: numbers of a quantised matrix to one scale, of scale_bytes, and one
    zero point, of zero_bytes (0.5: packed in 4 bits); None if the scales are too few to count.
    """
    fmt = formats.get(dtype)
    if out not in units.SIZES:
        checks.choice(out, "out", tuple(units.SIZES))
    total, rows = _params(model, count, params)
    steps: list[Step] = []
    matrices = total
    if embedding_dtype is not None:
        apart = formats.get(embedding_dtype, "embedding_dtype")
        embedding = _embedding_params(model, total)
        matrices -= embedding
        steps.append(_bytes_step("P_emb", "b_emb", embedding, apart))
        rows += symbols(
            ("P_emb", "embedding and head", embedding, "params"),
            ("b_emb", f"bytes per parameter in {apart.name}", apart.bytes_per_element, "B"),
        )
    steps.insert(0, _bytes_step("(P − P_emb)" if steps else "P", "b", matrices, fmt))
    if group_size is not None:
        steps.append(_scale_step(matrices, fmt, group_size, scale_bytes, zero_bytes))
    size = int(sum(step.value for step in steps))
    if len(steps) > 1:
        steps.append(Step("sum", " + ".join(f"{s.value}" for s in steps), size, "B"))
    value: int | float = size
    if out != "B":
        value = units.plain(Fraction(size) / units.SIZES[out])
        steps.append(Step(f"in {out}", f"{size} / {units.SIZES[out]}", value, out))
    notes = [units.both(size)]
    if fmt.quantised and not fmt.own_scales and group_size is None:
        notes.append("without scales: give group_size for a checkpoint that has one per group")
    if fmt.block_elements > 1 and matrices % fmt.block_elements:
        notes.append("the last block is counted whole; real files keep norms and odd rows wider")
    return Result(
        value,
        out,
        (*rows, Symbol("b", f"bytes per parameter in {fmt.name}", fmt.bytes_per_element, "B")),
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
    group_size: int | None = None,
    scale_bytes: float = 2,
    zero_bytes: float = 0,
) -> Result:
    """Bytes of weights on the fullest GPU of a tp × pp replica.

    All weights divide evenly, but for what each GPU needs whole: the projections to KV heads that
    are copied past their number (counted from the geometry), and what replicated_params names
    beyond that, per GPU (with attention_dp: the attention's weights that each group holds again).
    """
    where = layout.of(tp, pp, 1, attention_dp, stages)
    layout.check(model, where)
    whole = weight_bytes(
        model, dtype, count, params, "B", embedding_dtype, group_size, scale_bytes, zero_bytes
    )
    assert isinstance(whole.value, int)
    fmt, gpus = formats.get(dtype), where.gpus_per_replica
    share = Fraction(whole.value, gpus)
    letters = symbols(
        ("W", "all weights", whole.value, "B"),
        ("tp", "tensor parallel", where.tp, "GPUs"),
        ("pp", "pipeline stages", where.pp, "stages"),
    )
    formula, numbers = "⌈W / (tp · pp)⌉", f"⌈{whole.value} / ({where.tp} · {where.pp})⌉"
    if where.stages:
        # The longest stage holds its layers' part of the whole.
        longest = max(where.stages)
        share = Fraction(whole.value * longest, where.tp * model.num_layers)
        formula = "⌈W · L_stage / (tp · L)⌉"
        numbers = f"⌈{whole.value} · {longest} / ({where.tp} · {model.num_layers})⌉"
        letters += symbols(
            ("L_stage", "layers of the longest stage", longest, "layers"),
            ("L", "layers", model.num_layers, "layers"),
        )
    even = -(-share.numerator // share.denominator)
    steps = [Step(formula, numbers, even, "B")]
    copied = _copied_projections(model, where)
    extra = copied + checks.whole(replicated_params or 0, "replicated_params")
    if extra:
        steps.append(_bytes_step("P_copied", "b", extra, fmt))
        steps.append(Step("sum", f"{even} + {steps[1].value}", even + int(steps[1].value), "B"))
    notes = list(whole.notes[1:])
    if copied:
        notes.append(f"{copied:,} parameters of K and V projections are on each GPU again")
    if where.pp > 1:
        notes.append("stages are taken as alike: the embedding and the head lie on the end ones")
    if where.attention_dp > 1 and not replicated_params:
        notes.append(
            "each attention group holds the attention's weights again: name them in "
            "replicated_params, or this is too low"
        )
    elif where.head_split > 1 and any(
        isinstance(layer.cache, Latent) for layer, _ in model.layer_groups
    ):
        notes.append("MLA's down-projections are on every GPU; they are taken as divided here")
    value = int(steps[-1].value)
    notes.append(units.both(value))
    return Result(
        value,
        "B",
        (*whole.symbols, *letters),
        (*whole.steps, *steps),
        scope="gpu",
        notes=tuple(notes),
        basis=CONVENTION if where.pp > 1 else whole.basis,
        source=whole.source,
    )


def _params(
    model: ModelSpec | None, count: str, params: float | None
) -> tuple[int, tuple[Symbol, ...]]:
    checks.choice(count, "count", COUNTS)
    if params is not None:
        total = checks.whole(params, "params", 1)
        return total, symbols(("P", "parameters, as given", total, "params"))
    if model is None:
        raise SizingError("model", "is missing: give a model, or a number of parameters in params")
    if count == "nominal":
        if model.nominal_params is None:
            raise SizingError("count", f"{model.name} has no nominal number of parameters")
        total = checks.whole(model.nominal_params, "model.nominal_params", 1)
        return total, symbols(("P", "parameters by the model's card", total, "params"))
    if model.params is None:
        raise SizingError("count", _unknown(model, "exact number of parameters"))
    return model.params, symbols(("P", "parameters by the config", model.params, "params"))


def _unknown(model: ModelSpec, what: str) -> str:
    why = f": {model.params_note}" if model.params_note else ""
    hint = "; its nominal number can be used" if model.nominal_params else ""
    return f"the {what} of {model.name} is not known{why}{hint}"


def _embedding_params(model: ModelSpec | None, total: int) -> int:
    if model is None or not (model.vocab_size and model.hidden_size):
        raise SizingError("embedding_dtype", "needs a model whose vocabulary and width are known")
    tables = 1 if model.tied_embeddings else 2
    return min(total, tables * model.vocab_size * model.hidden_size)


def _bytes_step(letter: str, b: str, number: int, fmt: Format) -> Step:
    """number · b, in whole blocks."""
    size = formats.bytes_of(number, fmt)
    if number % fmt.block_elements:
        blocks = f"⌈{number} / {fmt.block_elements}⌉ · {fmt.block_bytes}"
        return Step(f"⌈{letter} / block⌉ · bytes of a block", blocks, size, "B")
    return Step(f"{letter} · {b}", f"{number} · {fmt.b}", size, "B")


def _scale_step(
    matrices: int, fmt: Format, group_size: int, scale_bytes: float, zero_bytes: float
) -> Step:
    if fmt.own_scales or not fmt.quantised:
        why = "carries its own scales" if fmt.own_scales else "is not quantised"
        raise SizingError("group_size", f"{fmt.name} {why}")
    group = checks.whole(group_size, "group_size", 1, 2**20)
    checks.number(scale_bytes, "scale_bytes", 0, 8, above=True)
    checks.number(zero_bytes, "zero_bytes", 0, 8)
    each = units.exact(scale_bytes, "scale_bytes") + units.exact(zero_bytes, "zero_bytes")
    groups = -(-matrices // group)
    total = groups * each
    return Step(
        "⌈P / g⌉ · (s + z)",
        f"{groups} · {units.plain(each)}",
        -(-total.numerator // total.denominator),
        "B",
    )


def _copied_projections(model: ModelSpec, where: Layout) -> int:
    """Parameters of K and V projections that one GPU holds beyond its even share."""
    split, extra = where.head_split, Fraction(0)
    if split == 1:
        return 0
    for layer, count in model.layer_groups:
        cache = layer.cache
        if isinstance(cache, KVHeads) and split > cache.num_kv_heads:
            beyond = 1 - Fraction(cache.num_kv_heads, split)
            extra += count * beyond * model.hidden_size * (cache.key_dim + cache.value_dim)
    extra /= where.pp
    return -(-extra.numerator // extra.denominator)
