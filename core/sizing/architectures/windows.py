"""Which layers keep every token, and which at most a window of them."""

from __future__ import annotations

from core.sizing.architectures.families import Family
from core.sizing.architectures.fields import Fields
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
            raise SizingError(
                f"{fields.at(name)}[{i}]",
                f"{str(word)[:40]!r} is not a known kind of layer; known: {', '.join(sorted(KNOWN))}",
            )
        out.append(kind)
    return out


def kinds(fields: Fields, family: Family, layers: int) -> list[str]:
    """The kind of each layer: as `layer_types` says, else by the architecture's own rule."""
    given = listed(fields, layers)
    rule = _RULES[family.window](fields, family, layers)
    return rule if given is None else given


def window(fields: Fields, kind: str) -> int | None:
    """How many tokens a layer of this kind keeps; None if all of them."""
    if kind == SLIDING:
        return fields.whole("sliding_window", "attention_window_size", "sliding_window_size")
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
    return [SLIDING if i >= first and fields.raw("sliding_window") else FULL for i in range(layers)]


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


_RULES = {
    "none": _none,
    "all": _all,
    "all_if": _all_if,
    "qwen": _qwen,
    "qwen_plain": _qwen_plain,
    "every": _every,
    "cwm": _cwm,
    "chunked": _chunked,
}
