"""Which layers keep every token, and which at most a window of them."""

from __future__ import annotations

from core.sizing import checks
from core.sizing.architectures.fields import Fields
from core.sizing.architectures.traits import Family
from core.sizing.errors import SizingError

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
LINEAR, CONV, HYBRID, INDEXED = "linear_attention", "conv", "hybrid", "indexed_attention"

SPELLINGS = {
    "attention": FULL,
    "mamba": LINEAR,
    "mamba2": LINEAR,
    "recurrent": LINEAR,
    "local_attention": SLIDING,
    "global_attention": FULL,
    "deepseek_sparse_attention": INDEXED,
}
"""Older names of layer types."""

KNOWN = frozenset((FULL, SLIDING, CHUNKED, LINEAR, CONV, HYBRID, INDEXED))


def listed(fields: Fields, layers: int, name: str = "layer_types") -> list[str] | None:
    """The config's own list of layer types, one per layer, in today's names; None without one."""
    given = fields.items(name, layers)
    if given is None:
        return None
    out = []
    for i, word in enumerate(given):
        kind = SPELLINGS.get(word, word) if isinstance(word, str) else word
        if kind not in KNOWN:
            known = ", ".join(sorted(KNOWN))
            raise SizingError(
                f"{fields.at(name)}[{i}]",
                f"{str(word)[:40]!r} is not a known kind of layer; known: {known}",
            )
        out.append(kind)
    return out


def kinds(fields: Fields, family: Family, layers: int) -> list[str]:
    """The kind of each layer: as `layer_types` says, else by the architecture's own rule.

    Where both are written down, they must agree.
    """
    given = listed(fields, layers) or listed(fields, layers, "layers_block_type")
    rule = _RULES[family.window](fields, family, layers)
    if given is None:
        return rule
    for name in _PATTERNS:
        if fields.data.get(name) is not None and name in fields.read and given != rule:
            i = next(
                i for i, pair in enumerate(zip(given, rule, strict=True)) if len(set(pair)) > 1
            )
            raise SizingError(
                f"{fields.at('layer_types')}[{i}]",
                f"is {given[i]}, but {name} makes layer {i} {rule[i]}",
            )
    if family.window in ("qwen", "all_if") and SLIDING in given:
        _must_slide(fields, given.index(SLIDING))
    return given


_PATTERNS = (
    "sliding_window_pattern",
    "global_attn_every_n_layers",
    "full_attention_interval",
    "layer_group_size",
    "linear_attn_config",
    "attn_layer_period",
    "attn_layer_indices",
    "full_attn_idxs",
    "attn_type_list",
)
"""Fields that say in another way what `layer_types` says."""


def _must_slide(fields: Fields, layer: int) -> None:
    if fields.data.get("use_sliding_window") is False:
        raise SizingError(
            f"{fields.at('layer_types')}[{layer}]",
            f"is {SLIDING}, but use_sliding_window is false",
        )


def window(fields: Fields, kind: str) -> int | None:
    """How many tokens a layer of this kind keeps; None if all of them."""
    if kind == SLIDING:
        size = fields.whole("sliding_window", "attention_window_size", "window_size")
        both_ways = fields.raw("use_bidirectional_attention") in (True, "all")
        return size // 2 + 1 if both_ways else size
    if kind == CHUNKED:
        return fields.whole("attention_chunk_size")
    return None


def _none(fields: Fields, family: Family, layers: int) -> list[str]:
    return [FULL] * layers


def _all(fields: Fields, family: Family, layers: int) -> list[str]:
    """Every layer slides once a window is given (Mistral 7B v0.1)."""
    return [SLIDING if fields.raw("sliding_window") else FULL] * layers


def _all_if(fields: Fields, family: Family, layers: int) -> list[str]:
    fields.skip("max_window_layers")
    slides = fields.flag("use_sliding_window") and fields.raw("sliding_window")
    return [SLIDING if slides else FULL] * layers


def _qwen(fields: Fields, family: Family, layers: int) -> list[str]:
    """From layer max_window_layers on, if use_sliding_window: below it attention is full."""
    first = fields.whole("max_window_layers", default=layers, minimum=0)
    if not fields.flag("use_sliding_window"):
        fields.skip("sliding_window")
        return [FULL] * layers
    return [SLIDING if i >= first and fields.raw("sliding_window") else FULL for i in range(layers)]


def _qwen_plain(fields: Fields, family: Family, layers: int) -> list[str]:
    first = fields.whole("max_window_layers", default=layers, minimum=0)
    slides = fields.raw("sliding_window")
    return [SLIDING if i >= first and slides else FULL for i in range(layers)]


def _every(fields: Fields, family: Family, layers: int) -> list[str]:
    """Every n-th layer is full, the others slide: 1 : 1 in Gemma 2, 5 : 1 in Gemma 3."""
    pattern = fields.raw("sliding_window_pattern", "global_attn_every_n_layers")
    if fields.raw("sliding_window") is None:
        return [FULL] * layers
    if isinstance(pattern, str):  # "LLLG": L local, G global
        if not pattern or set(pattern) - {"L", "G"}:
            raise SizingError(fields.at("sliding_window_pattern"), "must be made of L and G")
        letters = [pattern[i % len(pattern)] for i in range(layers)]
        return [SLIDING if letter == "L" else FULL for letter in letters]
    every = fields.whole(
        "sliding_window_pattern", "global_attn_every_n_layers", default=family.every
    )
    return [SLIDING if (i + 1) % every else FULL for i in range(layers)]


def _cwm(fields: Fields, family: Family, layers: int) -> list[str]:
    """The first of every four is full."""
    return [SLIDING if i % family.every else FULL for i in range(layers)]


def _chunked(fields: Fields, family: Family, layers: int) -> list[str]:
    """Layers with rotary positions attend within a chunk, those without to everything (Llama 4)."""
    every = fields.whole("no_rope_layer_interval", default=4)
    rotary = fields.wholes("no_rope_layers") or [int((i + 1) % every != 0) for i in range(layers)]
    if len(rotary) != layers:
        raise SizingError(
            fields.at("no_rope_layers"), f"has {len(rotary)} entries for {layers} layers"
        )
    chunk = fields.raw("attention_chunk_size")
    return [CHUNKED if turned and chunk else FULL for turned in rotary]


def _interval(fields: Fields, family: Family, layers: int) -> list[str]:
    """Every n-th layer is full attention, the others linear (Qwen3-Next)."""
    every = fields.whole("full_attention_interval", "layer_group_size", default=family.every)
    return [LINEAR if (i + 1) % every else FULL for i in range(layers)]


def _kimi(fields: Fields, family: Family, layers: int) -> list[str]:
    """Lists of layers, counted from 1, in the published file."""
    inner = fields.inner("linear_attn_config")
    full = inner.wholes("full_attn_layers", minimum=1) if inner else None
    if inner is None or full is None:
        return [FULL if i and i % family.every == 0 else LINEAR for i in range(layers)]
    linear = inner.wholes("kda_layers", minimum=1) or []
    if sorted(full + linear) != list(range(1, layers + 1)):
        raise SizingError(
            inner.at("full_attn_layers"), f"and kda_layers do not name each of {layers} layers once"
        )
    return [FULL if i + 1 in full else LINEAR for i in range(layers)]


def _jamba(fields: Fields, family: Family, layers: int) -> list[str]:
    period = fields.whole("attn_layer_period")
    offset = fields.whole("attn_layer_offset", minimum=0)
    if offset >= period:
        raise SizingError(
            fields.at("attn_layer_offset"), f"{offset} must be below attn_layer_period {period}"
        )
    return [FULL if i % period == offset else LINEAR for i in range(layers)]


def _indices(fields: Fields, family: Family, layers: int) -> list[str]:
    """The layers with attention are listed; the others are of the other kind."""
    other = CONV if family.mixer == "short_conv" else LINEAR
    chosen = fields.wholes("attn_layer_indices") or fields.wholes("full_attn_idxs")
    if chosen is None:
        return [FULL if other == CONV else LINEAR] * layers
    if any(i >= layers for i in chosen):
        name = "attn_layer_indices" if fields.has("attn_layer_indices") else "full_attn_idxs"
        raise SizingError(fields.at(name), f"names layer {max(chosen)} of {layers}, from 0")
    return [FULL if i in chosen else other for i in range(layers)]


def _linear(fields: Fields, family: Family, layers: int) -> list[str]:
    return [LINEAR] * layers


def _olmo_hybrid(fields: Fields, family: Family, layers: int) -> list[str]:
    kinds = [FULL if i % 4 == 3 else LINEAR for i in range(layers)]
    return kinds if FULL in kinds else [*kinds[:-1], FULL]


def _minimax(fields: Fields, family: Family, layers: int) -> list[str]:
    """attn_type_list: 1 for full attention; without it, every second layer (M2: all of them)."""
    marks = fields.wholes("attn_type_list", layers)
    if marks is None and not family.mixer:
        return [FULL] * layers
    if marks is None:
        return [FULL if (i + 1) % 2 else LINEAR for i in range(layers)]
    return [FULL if mark else LINEAR for mark in marks]


def _griffin(fields: Fields, family: Family, layers: int) -> list[str]:
    """A pattern of block types, repeated."""
    pattern = fields.items("block_types") or ["recurrent"]
    known = {"recurrent": LINEAR, "attention": SLIDING}
    for i, word in enumerate(pattern):
        if word not in known:
            raise SizingError(f"{fields.at('block_types')}[{i}]", "must be recurrent or attention")
    return [known[pattern[i % len(pattern)]] for i in range(layers)]


def _gpt_neo(fields: Fields, family: Family, layers: int) -> list[str]:
    """attention_types: pairs of a pattern and how often it is repeated."""
    out: list[str] = []
    for i, pair in enumerate(fields.items("attention_types") or [[["global", "local"], layers]]):
        where = f"{fields.at('attention_types')}[{i}]"
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], list):
            raise SizingError(where, "must be a list of kinds and how often it is repeated")
        words = [{"global": FULL, "local": SLIDING}.get(str(word), "") for word in pair[0]]
        if "" in words:
            raise SizingError(where, "must hold global and local only")
        out += words * checks.whole(pair[1], f"{where}[1]", 1, layers)
    given = fields.has("attention_types")
    fields.skip("attention_layers")
    if given and len(out) != layers:
        raise SizingError(fields.at("attention_types"), f"makes {len(out)} layers, not {layers}")
    return out[:layers]


_RULES = {
    "gpt_neo": _gpt_neo,
    "none": _none,
    "all": _all,
    "all_if": _all_if,
    "qwen": _qwen,
    "qwen_plain": _qwen_plain,
    "every": _every,
    "cwm": _cwm,
    "chunked": _chunked,
    "interval": _interval,
    "kimi": _kimi,
    "jamba": _jamba,
    "indices": _indices,
    "linear": _linear,
    "olmo_hybrid": _olmo_hybrid,
    "minimax": _minimax,
    "griffin": _griffin,
}
