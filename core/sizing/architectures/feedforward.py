"""The feed-forward half of a layer: one MLP, or a mixture of experts."""

from __future__ import annotations

import math

from core.sizing import checks
from core.sizing.architectures.attention import trait
from core.sizing.architectures.fields import MOST, Fields
from core.sizing.architectures.traits import Experts, Family
from core.sizing.errors import SizingError
from core.sizing.parameters import NOTHING, Count, experts, linear, vector

_COUNT_NAMES = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_VISITED_NAMES = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk")
"""The same two numbers under the names of different authors."""


def mlp(hidden: int, width: int, gated: bool, bias: bool = False) -> Count:
    """gate, up and down; without a gate, up and down."""
    up = linear(hidden, width, bias)
    return (up + up if gated else up) + linear(width, hidden, bias)


def dense_width(fields: Fields, family: Family, hidden: int) -> int:
    if family.experts:
        return fields.whole(family.experts.dense_width)
    if family.width_rule:
        return _WIDTHS[family.width_rule](fields)
    names = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
    if family.width_times:
        return fields.whole(*names, default=family.width_times * hidden)
    return fields.whole(*names)


def mixture(fields: Fields, family: Family, hidden: int) -> tuple[Count, Count, dict[str, object]]:
    """Of one layer: experts with shared experts, router; and what they are, under short names."""
    kind = family.experts
    assert kind is not None
    number, visited = expert_numbers(fields, kind)
    width = _alike(fields, kind.width)
    bias = kind.expert_bias or trait(fields, family.mlp_bias)
    out = experts(number, visited, mlp(hidden, width, kind.gated, bias))
    router = linear(hidden, number) if kind.router else NOTHING
    if trait(fields, kind.router_bias):
        router += vector(number)
    out += _shared(fields, family, hidden, width)
    return out, router, facts(width, number, visited)


def _alike(fields: Fields, *names: str, minimum: int = 1) -> int:
    """A whole number, or a list that gives each layer the same (Hunyuan), or both, which agree."""
    listed = [name for name in names if isinstance(fields.data.get(name), list)]
    if not listed:
        return fields.whole(*names, minimum=minimum)
    fields.skip(*names)
    found: int | None = None
    for name in (name for name in names if fields.data.get(name) is not None):
        path, value = fields.at(name), fields.data[name]
        if name in listed:
            if not value or any(one != value[0] for one in value):
                raise SizingError(
                    path, "differs by layer; only the same number in all is understood"
                )
            path, value = f"{path}[0]", value[0]
        one = checks.whole(value, path, minimum, MOST)
        if found not in (None, one):
            raise SizingError(path, f"says {one}, but {listed[0]} and others say {found}")
        found = one
    assert found is not None  # there is a list, and it is not empty
    return found


def facts(width: int, number: int, visited: int) -> dict[str, object]:
    """A mixture of experts under short names. d_ff is an expert's width until a dense layer's."""
    return {"d_ff": width, "d_expert": width, "n_experts": number, "n_active_experts": visited}


def expert_numbers(fields: Fields, kind: Experts) -> tuple[int, int]:
    """How many experts there are, and how many of them a token visits."""
    number = _alike(fields, kind.count, *_COUNT_NAMES)
    visited = _alike(fields, kind.visited, *_VISITED_NAMES)
    if visited > number:
        raise SizingError(
            fields.at(kind.visited),
            f"is {visited:,}, but there are only {number:,} experts ({kind.count})",
        )
    return number, visited


def skip_experts(fields: Fields, kind: Experts) -> None:
    """Fields of experts that no layer of this model has."""
    fields.skip(*_COUNT_NAMES, *_VISITED_NAMES, kind.count, kind.visited, kind.width)
    fields.skip(*(name for name in (kind.shared, kind.shared_width) if name))


def _shared(fields: Fields, family: Family, hidden: int, width: int) -> Count:
    kind = family.experts
    assert kind is not None
    if kind.shared:
        stated = fields.raw(kind.shared) is not None
        width *= _alike(fields, kind.shared, minimum=0) if stated else kind.shared_default
    elif kind.shared_width:
        width = fields.whole(kind.shared_width, default=0, minimum=0)
    else:
        return NOTHING
    if not width:
        return NOTHING
    out = mlp(hidden, width, kind.gated, trait(fields, family.mlp_bias))
    return out + linear(hidden, 1) if kind.gate else out


def sparse_layers(fields: Fields, kind: Experts, layers: int) -> list[bool]:
    """For each layer whether it has experts."""
    given = fields.items("mlp_layer_types", layers)
    if given is not None:
        for i, word in enumerate(given):
            if word not in ("sparse", "dense"):
                raise SizingError(f"{fields.at('mlp_layer_types')}[{i}]", "must be sparse or dense")
        _RULES[kind.which](fields, layers)  # so that its fields count as read
        return [word == "sparse" for word in given]
    return _RULES[kind.which](fields, layers)


def _all(fields: Fields, layers: int) -> list[bool]:
    return [True] * layers


def _first_dense(fields: Fields, layers: int) -> list[bool]:
    """The first k layers are dense (DeepSeek-V2); or `moe_layer_freq`: a step, or a list."""
    freq = fields.raw("moe_layer_freq")
    first = fields.whole("first_k_dense_replace", default=0, minimum=0)
    if isinstance(freq, list):
        marks = fields.wholes("moe_layer_freq", layers) or []
        return [bool(mark) for mark in marks]
    step = fields.whole("moe_layer_freq", default=1)
    return [i >= first and i % step == 0 for i in range(layers)]


def _qwen(fields: Fields, layers: int) -> list[bool]:
    step = fields.whole("decoder_sparse_step", default=1)
    dense = set(fields.wholes("mlp_only_layers") or ())
    return [i not in dense and (i + 1) % step == 0 for i in range(layers)]


def _interleaved(fields: Fields, layers: int) -> list[bool]:
    """Llama 4: every n-th layer, or those listed."""
    step = fields.whole("interleave_moe_layer_step", default=1)
    chosen = fields.wholes("moe_layers")
    if chosen is None:
        return [(i + 1) % step == 0 for i in range(layers)]
    return [i in set(chosen) for i in range(layers)]


def _ernie(fields: Fields, layers: int) -> list[bool]:
    first = fields.whole("moe_layer_start_index", default=0, minimum=0)
    last = fields.raw("moe_layer_end_index")
    last = layers - 1 if last in (None, -1) else fields.whole("moe_layer_end_index", minimum=0)
    step = fields.whole("moe_layer_interval", default=1)
    return [first <= i <= last and (i + 1) % step == 0 for i in range(layers)]


def _num_dense(fields: Fields, layers: int) -> list[bool]:
    first = fields.whole("num_dense_layers", default=0, minimum=0)
    return [i >= first for i in range(layers)]


def _jamba(fields: Fields, layers: int) -> list[bool]:
    period = fields.whole("expert_layer_period")
    offset = fields.whole("expert_layer_offset", minimum=0)
    several = fields.whole("num_experts", default=1) > 1
    return [several and i % period == offset for i in range(layers)]


def _if_any(fields: Fields, layers: int) -> list[bool]:
    """Without experts, what is called shared is the layers' MLP (Granite 4.0 H)."""
    return [fields.whole("num_local_experts", default=0, minimum=0) > 0] * layers


def _lfm2_width(fields: Fields) -> int:
    """Two thirds of what is stated, times a factor, rounded up to a multiple."""
    width = fields.whole("block_ff_dim", "intermediate_size")
    factor = fields.number("block_ffn_dim_multiplier", 1.0)
    multiple = fields.whole("block_multiple_of")
    if not fields.flag("block_auto_adjust_ff_dim", default=True):
        return width
    return multiple * math.ceil(int(factor * int(2 * width / 3)) / multiple)


def _half_width(fields: Fields) -> int:
    return fields.whole("intermediate_size", minimum=2) // 2


_WIDTHS = {"lfm2": _lfm2_width, "half": _half_width}

_RULES = {
    "all": _all,
    "first_dense": _first_dense,
    "qwen": _qwen,
    "interleaved": _interleaved,
    "ernie": _ernie,
    "num_dense": _num_dense,
    "jamba": _jamba,
    "if_any": _if_any,
}
