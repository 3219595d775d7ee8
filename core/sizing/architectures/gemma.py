"""Gemma 3n and Gemma 4: layers that share another's keys and values, and heads that differ by kind.

The last num_kv_shared_layers compute queries only and attend over the keys and values of the last
layer of their own kind (sliding or full) before them.
"""

from __future__ import annotations

from core.sizing import checks
from core.sizing.architectures import attention, decoder, feedforward, windows
from core.sizing.architectures.attention import Heads
from core.sizing.architectures.decoder import Model
from core.sizing.architectures.fields import Fields
from core.sizing.architectures.traits import Family
from core.sizing.errors import SizingError
from core.sizing.geometry import Layer, SharedKV
from core.sizing.parameters import Count, experts, linear, vector

_FAMILY = Family(norms=4, qkv_bias="attention_bias", o_bias="attention_bias", window="every")


def gemma3n(fields: Fields) -> Model:
    """Gemma 3n: besides, four parallel residual streams (AltUp), a low-rank residual (LAuReL) and
    an embedding of its own for every layer."""
    model = decoder.start(fields)
    hidden, layers = model.hidden, decoder.layer_count(fields)
    kinds = _kinds(fields, layers, every=5)
    heads = attention.read_heads(fields, _FAMILY, hidden)
    _attention(fields, model, kinds, dict.fromkeys(kinds, heads), keys_are_values=False)
    for i, width in enumerate(_widths(fields, layers)):
        model.add("MLP", feedforward.mlp(hidden, width, True), (i,))
    streams, rank = fields.whole("altup_num_inputs"), fields.whole("laurel_rank")
    fields.skip("altup_active_idx", "altup_coef_clip", "altup_correct_scale")
    altup = vector(2 * hidden) + linear(streams, streams + streams**2) + linear(hidden, streams)
    laurel = linear(hidden, rank) + linear(rank, hidden) + vector(hidden)
    model.add("AltUp and LAuReL", altup + laurel, range(layers))
    ends = decoder.FIRST + decoder.LAST  # into the streams, and out of them
    model.add("AltUp and LAuReL", linear(hidden, hidden) * (streams - 1), ends)
    _per_layer_inputs(fields, model, layers)
    _norms(model, layers)
    return model


def gemma4(fields: Fields) -> Model:
    """Gemma 4: full-attention layers have wider heads, and in some sizes fewer KV heads, whose
    values are their keys before position is put in; experts beside the MLP in one size."""
    model = decoder.start(fields)
    hidden, layers = model.hidden, decoder.layer_count(fields)
    kinds = _kinds(fields, layers, every=6)
    if kinds[-1] != windows.FULL:
        kinds[-1] = windows.FULL  # the architecture's own rule
    local = attention.read_heads(fields, _FAMILY, hidden)
    same = fields.flag("attention_k_eq_v")
    heads = {windows.SLIDING: local, windows.FULL: _global_heads(fields, local, same)}
    shared = _attention(fields, model, kinds, heads, keys_are_values=same)
    width = fields.whole("intermediate_size")
    double = fields.flag("use_double_wide_mlp")
    model.facts["d_ff"] = width
    for i in range(layers):
        wide = 2 * width if double and i >= layers - shared else width
        model.add("MLP", feedforward.mlp(hidden, wide, True), (i,))
    if fields.flag("enable_moe_block"):
        one, router = _experts(fields, model)
        model.add("experts", one, range(layers))
        model.add("router", router, range(layers))
    fields.skip("num_experts", "top_k_experts", "moe_intermediate_size")
    _per_layer_inputs(fields, model, layers)
    _norms(model, layers)
    model.add("scales of layers", vector(1), range(layers))
    return model


def _norms(model: Model, layers: int) -> None:
    """Before and after each half of a layer, and a final one."""
    model.add("norms", vector(4 * model.hidden), range(layers))
    model.add("norms", vector(model.hidden), decoder.LAST)


def _kinds(fields: Fields, layers: int, every: int) -> list[str]:
    given = windows.listed(fields, layers)
    if given is None:
        return [windows.SLIDING if (i + 1) % every else windows.FULL for i in range(layers)]
    for i, kind in enumerate(given):
        if kind not in (windows.FULL, windows.SLIDING):
            raise SizingError(
                f"{fields.at('layer_types')}[{i}]", "must be full_attention or sliding_attention"
            )
    return given


def _global_heads(fields: Fields, local: Heads, same: bool) -> Heads:
    """Heads of the full-attention layers. A file that was saved again lists them per layer."""
    override = _override(fields)
    kv = fields.whole_or_none("num_global_key_value_heads") or override.get("num_key_value_heads")
    dim = fields.whole_or_none("global_head_dim") or override.get("head_dim") or 512
    kv = kv if kv and same else local.num_kv_heads
    attention.check_groups(fields, local.num_heads, kv, "num_global_key_value_heads")
    return Heads(local.num_heads, kv, dim, dim)


def _override(fields: Fields) -> dict[str, int]:
    table = fields.inner("per_layer_config")
    if table is None:
        return {}
    rows = [row for row in table.data.values() if isinstance(row, dict)]
    out: dict[str, int] = {}
    for row in rows:
        for name, value in row.items():
            known = out.setdefault(
                name, checks.whole(value, f"{table.path}.{name}"[:80], 1, 1 << 16)
            )
            if known != value:
                raise SizingError(table.path, f"gives full-attention layers different {name}")
    return out


def _attention(
    fields: Fields,
    model: Model,
    kinds: list[str],
    heads: dict[str, Heads],
    keys_are_values: bool,
) -> int:
    """Layers and projections; returns how many layers share another's keys and values."""
    layers, hidden = len(kinds), model.hidden
    shared = fields.whole("num_kv_shared_layers", default=0, minimum=0)
    if shared >= layers:
        raise SizingError(
            fields.at("num_kv_shared_layers"), f"is {shared}, but there are {layers} layers"
        )
    first = layers - shared
    owners = {kind: i for i, kind in enumerate(kinds[:first])}
    for i, kind in enumerate(kinds):
        one = heads[kind]
        full = one.layer(windows.window(fields, kind))
        if i < first:
            model.layers.append(full)
            values = not (keys_are_values and kind == windows.FULL)
            model.add("attention", _projections(fields, hidden, one, 1 + values), (i,))
        else:
            if kind not in owners:
                raise SizingError(
                    fields.at("num_kv_shared_layers"),
                    f"leaves no {kind} layer whose keys and values layer {i} could share",
                )
            cache = SharedKV(owners[kind])
            model.layers.append(Layer(cache, one.num_heads, one.key_dim, one.value_dim))
            model.add("attention", _projections(fields, hidden, one, 0), (i,))
    return shared


def _projections(fields: Fields, hidden: int, heads: Heads, kv_matrices: int) -> Count:
    bias, dim = fields.flag("attention_bias"), heads.key_dim
    count = linear(hidden, heads.query_width, bias) + linear(heads.query_width, hidden, bias)
    count += linear(hidden, heads.num_kv_heads * dim, bias) * kv_matrices
    return count + vector(2 * dim if kv_matrices else dim)


def _widths(fields: Fields, layers: int) -> list[int]:
    value = fields.raw("intermediate_size")
    if isinstance(value, list):
        return fields.wholes("intermediate_size", layers, minimum=1) or []
    return [fields.whole("intermediate_size")] * layers


def _per_layer_inputs(fields: Fields, model: Model, layers: int) -> None:
    """A further embedding table with a row part for every layer, and its way into the layer."""
    width = fields.whole("hidden_size_per_layer_input", default=0, minimum=0)
    rows = fields.whole("vocab_size_per_layer_input", default=model.vocab)
    if not width:
        return
    model.add("per-layer embedding", vector(rows * layers * width), decoder.FIRST)
    gate = linear(model.hidden, width) + linear(width, model.hidden) + vector(model.hidden)
    model.add("per-layer inputs", gate, range(layers))
    into = linear(model.hidden, layers * width) + vector(width)
    model.add("per-layer inputs", into, decoder.FIRST)


def _experts(fields: Fields, model: Model) -> tuple[Count, Count]:
    """Beside each layer's MLP, with norms of their own; and their router."""
    hidden = model.hidden
    number = fields.whole("num_experts")
    visited = fields.whole("top_k_experts", "num_experts_per_tok")
    if visited > number:
        raise SizingError(fields.at("top_k_experts"), f"is {visited}, of {number} experts")
    width = fields.whole("moe_intermediate_size")
    model.facts.update({**feedforward.facts(width, number, visited), **model.facts})
    one = feedforward.mlp(hidden, width, True)
    router = linear(hidden, number) + vector(hidden + number)
    return experts(number, visited, one) + vector(3 * hidden), router
