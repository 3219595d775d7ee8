"""FLOP per byte of a model's step: where its matrices and its attention stand on a roofline.

A step's matrices do 2 · P · T FLOPs on weights that are read once for all T tokens, so prefill and
decode are one line: a prompt of 256 tokens stands where 256 sequences that decode do. Attention of
a prompt is another matter than attention of a decode step (`traffic`): each key and value moves
once and meets all later queries, so its intensity grows with the prompt.

Activations are not counted, nor the scores, which no kernel of the FlashAttention kind writes.
"""

from __future__ import annotations

from core.sizing import checks
from core.sizing.compute import attention_symbols, prompt_attention
from core.sizing.geometry import ModelSpec
from core.sizing.kv import kv_bytes_per_token
from core.sizing.kv_format import KVDtype
from core.sizing.result import Result, Step, symbols
from core.sizing.stored import WeightDtype
from core.sizing.text import num
from core.sizing.traffic import attention_alone, decode_weight_bytes, kv_read


def arithmetic_intensity_matrices(
    model: ModelSpec, batch: int, dtype: WeightDtype = "bf16", count: str = "active"
) -> Result:
    """FLOP per byte of all the model's matrices in a step of `batch` tokens: 2 · P · B / W.

    batch: sequences in decode, all tokens of the step in prefill. For a dense model with b bytes a
    weight this is 2 · B / b; a mixture of experts reads more of them the more tokens there are, so
    it stays lower.
    """
    read = decode_weight_bytes(model, dtype, batch, count)
    params = next(row.value for row in read.symbols if row.symbol == "P")
    assert isinstance(params, int) and read.value
    flops = 2 * params * batch
    value = flops / read.value
    return Result(
        value,
        "FLOP/B",
        (*read.symbols, *symbols(("W", "weights read", read.value, "B"))),
        (
            *read.steps,
            Step("2 · P · B", f"2 · {params} · {batch}", flops, "FLOP"),
            Step("2 · P · B / W", f"{flops} / {num(read.value)}", value, "FLOP/B"),
        ),
        scope="model",
        notes=(*read.notes, "weights alone: activations and cache are not counted"),
        basis=read.basis,
    )


def arithmetic_intensity_attention_prefill(
    model: ModelSpec, tokens: int, computed: int = 0, dtype: KVDtype = "bf16"
) -> Result:
    """FLOP per byte of a prompt's attention: `tokens` tokens behind `computed` cached ones.

    Each key and value moves once: those of the prompt are written, the cached ones read. None for a
    model without attention over cached tokens.
    """
    tokens = checks.whole(tokens, "tokens", 1)
    computed = checks.whole(computed, "computed")
    flops, pairs = prompt_attention(model, tokens, computed)
    read = kv_read(attention_alone(model), computed, dtype) if computed else 0
    each = kv_bytes_per_token(model, dtype).value
    assert isinstance(each, int)
    moved = read + tokens * each
    if not flops or not moved:
        return Result(None, "FLOP/B", notes=("no layer attends to cached tokens",))
    value = flops / moved
    return Result(
        value,
        "FLOP/B",
        (
            *attention_symbols(model, "expanded"),
            *symbols(
                ("N", "tokens", tokens),
                ("C", "cached", computed),
                ("R", "cache read of those", read, "B"),
                ("M", "bytes that one token keeps", each, "B"),
            ),
        ),
        (
            Step("F = Σ a · pairs of query and key", pairs, flops, "FLOP"),
            Step("R + N · M", f"{read} + {tokens} · {each}", moved, "B"),
            Step("F / (R + N · M)", f"{flops} / {moved}", value, "FLOP/B"),
        ),
        scope="model",
    )
