"""Geometry by its short names, n_layers, n_kv_heads, d_head …: beside a model, it must agree.

A file of cases that repeats a model's numbers is checked against the config instead of being
believed or ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from core.sizing import checks
from core.sizing.errors import SizingError
from core.sizing.geometry import KVHeads, Latent, ModelSpec


class _Differs(Exception):
    """The field has one value in some layers and another in others."""


def _one(values: Iterable[int]) -> int | None:
    distinct = set(values)
    if len(distinct) > 1:
        raise _Differs
    return distinct.pop() if distinct else None


def _heads(model: ModelSpec) -> list[KVHeads]:
    return [layer.cache for layer, _ in model.layer_groups if isinstance(layer.cache, KVHeads)]


def _latents(model: ModelSpec) -> list[Latent]:
    return [layer.cache for layer, _ in model.layer_groups if isinstance(layer.cache, Latent)]


def _windows(model: ModelSpec) -> list[tuple[int, int]]:
    """(window, how many layers), of the layers that have one."""
    return [
        (layer.cache.window, count)
        for layer, count in model.layer_groups
        if isinstance(layer.cache, KVHeads | Latent) and layer.cache.window is not None
    ]


_READ: dict[str, Callable[[ModelSpec], int | None]] = {
    "n_layers": lambda model: model.num_layers,
    "n_heads": lambda model: _one(
        layer.num_query_heads for layer, _ in model.layer_groups if layer.num_query_heads
    ),
    "n_kv_heads": lambda model: _one(cache.num_kv_heads for cache in _heads(model)),
    "d_head": lambda model: _one(
        dim for cache in _heads(model) for dim in (cache.key_dim, cache.value_dim)
    ),
    "d_head_k": lambda model: _one(cache.key_dim for cache in _heads(model)),
    "d_head_v": lambda model: _one(cache.value_dim for cache in _heads(model)),
    "d_latent": lambda model: _one(cache.latent_dim for cache in _latents(model)),
    "d_rope": lambda model: _one(cache.rope_dim for cache in _latents(model)),
    "window": lambda model: _one(window for window, _ in _windows(model)),
    "n_local_layers": lambda model: sum(count for _, count in _windows(model)),
    "d_model": lambda model: model.hidden_size,
    "vocab": lambda model: model.vocab_size,
    "max_position": lambda model: model.max_position,
}
_ALIASES = {"n_q_heads": "n_heads", "vocab_size": "vocab"}
_ONLY_NAMED = ("d_ff", "n_experts", "n_active_experts")
"""Known to `ModelSpec.fields` alone."""

NAMES = (*_READ, *_ALIASES, *_ONLY_NAMED, "params", "attention")


def check_agreement(model: ModelSpec, stated: Mapping[str, Any], path: str) -> None:
    """Refuse a stated field that the model does not have, or has with another value."""
    for name, value in stated.items():
        where = f"{path}.{name}" if path else name
        if name == "attention":
            _check_attention(model, value, where)
            continue
        if value is not None:
            value = checks.whole(value, where)
        has = _values(model, _ALIASES.get(name, name), where)
        if value not in has:
            said = "none" if value is None else f"{value}"
            known = " or ".join("none" if one is None else f"{one}" for one in has)
            raise SizingError(where, f"says {said}, but {model.name} has {known}")


def _values(model: ModelSpec, name: str, where: str) -> tuple[float | None, ...]:
    """What the model may be said to have: one value, or the exact and the nominal count."""
    if name == "params":
        counts = tuple(n for n in (model.params, model.nominal_params) if n is not None)
        return counts or (None,)
    try:
        value = _READ[name](model) if name in _READ else None
    except _Differs:
        raise SizingError(where, f"differs from layer to layer in {model.name}") from None
    if value is None:
        known = model.fields.get(name)
        value = known if isinstance(known, int) else None
    return (value,)


def _check_attention(model: ModelSpec, stated: object, where: str) -> None:
    """ "mha", "GQA + sliding window": the kinds, whatever their case and hyphens."""
    if not isinstance(stated, str):
        raise SizingError(where, f"must be a word, not {checks.shown(stated)}")
    known = f"{model.fields.get('attention', '')}"
    if _kinds(stated) != _kinds(known) and _kinds(stated) != _kinds(known.split("+")[0]):
        raise SizingError(where, f"says {stated[:40]}, but {model.name} has {known or 'none'}")


def _kinds(text: str) -> set[str]:
    return {part.replace("-", " ").strip().lower() for part in text.split("+")}
