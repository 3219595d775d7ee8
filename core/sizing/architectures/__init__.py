"""A model's `config.json` → its geometry and exact parameter counts (`ModelSpec`).

The kind of architecture decides how fields are read; the numbers come from the fields alone, never
from a model's name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from core.sizing import checks
from core.sizing.architectures import (
    decoder,
    gemma,
    locate,
    mixed,
    quantisation,
    statespace,
    unlisted,
)
from core.sizing.architectures.decoder import Model
from core.sizing.architectures.families import FAMILIES
from core.sizing.architectures.fields import Fields
from core.sizing.architectures.summary import summary
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec, ParameterPart, Placed, Quantised
from core.sizing.parameters import NOTHING, Count

BUILDERS: dict[str, Callable[[Fields], Model]] = {
    "geometry": unlisted.geometry,
    "mamba": statespace.mamba,
    "falcon_mamba": statespace.mamba,
    "mamba2": statespace.mamba2,
    "falcon_h1": statespace.falcon_h1,
    "nemotron_h": statespace.nemotron_h,
    "zamba": statespace.zamba,
    "zamba2": statespace.zamba2,
    "gemma3n_text": gemma.gemma3n,
    "gemma4_text": gemma.gemma4,
    "mimo_v2_flash": mixed.mimo,
    "longcat_flash": mixed.longcat,
    "dbrx": mixed.dbrx,
    "opt": mixed.opt,
    "mpt": mixed.mpt,
    "chatglm": mixed.chatglm,
    "openelm": mixed.openelm,
    "nemotron-nas": mixed.nas,
}
"""Kinds that are more than a family of the common decoder."""

_DTYPES = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8",
}


def supported() -> list[str]:
    """Every `model_type` whose parameters are counted exactly."""
    return sorted(FAMILIES.keys() | (BUILDERS.keys() - {"geometry"}))


def model_from_config(config: object, name: str = "config", source: str = "") -> ModelSpec:
    """The model that a parsed `config.json` describes; a nested `text_config` is the one sized.

    The `model_type` "geometry" is ours: a model of which only what it caches is stated, with no
    parameters counted. name, source: for display. Raises SizingError with the field's path:
    missing, of the wrong type, out of bounds, or at odds with another field.
    """
    found = locate.language_model(config)
    fields, kind = found.fields, found.kind
    if kind in BUILDERS:
        model = BUILDERS[kind](fields)
    elif kind in FAMILIES:
        model = decoder.build(fields, FAMILIES[kind])
    else:
        model = unlisted.build(fields, kind, (*supported(), *locate.SAME_KIND))
    return _spec(model, found, name, source)


def _spec(model: Model, found: locate.Found, name: str, source: str) -> ModelSpec:
    fields = found.fields
    counts = {
        part: sum((share.total for share in shares), NOTHING)
        for part, shares in model.parts.items()
    }
    total = sum(counts.values(), NOTHING)
    if total.total > checks.LARGEST:
        raise SizingError(fields.path, "makes more than 2⁶³ parameters")
    counted = not model.params_note
    position = fields.whole_or_none(
        "max_position_embeddings",
        "n_positions",
        "max_seq_len",
        "seq_length",
        "model_max_length",
        "max_context_length",
    )
    stated = (
        fields.raw("dtype", "torch_dtype")
        or found.outer.get("dtype")
        or found.outer.get("torch_dtype")
    )
    unknown = [
        f"{fields.at(field)} is not known here and was not taken into account"
        for field in fields.unknown()
    ]
    parts = tuple(
        ParameterPart(
            part, count.total, count.active, count.matmul, count.vectors, _placed(model, part)
        )
        for part, count in counts.items()
        if counted
    )
    published = quantisation.read(fields.data, found.outer, parts)
    spec = ModelSpec(
        name=name,
        architecture=found.kind,
        layers=tuple(model.layers),
        hidden_size=model.hidden,
        vocab_size=model.vocab,
        max_position=position,
        tied_embeddings=model.tied,
        params=total.total if counted else None,
        active_params=total.active if counted else None,
        matmul_params=total.matmul if counted else None,
        params_note=model.params_note,
        parts=parts,
        checkpoint_dtype=_DTYPES.get(str(stated)),
        quantised=published,
        warnings=(*model.warnings, *found.warnings, *unknown),
        notes=(*found.notes, *_quantised(published), *model.notes, *fields.notes),
        source=source,
    )
    return replace(spec, fields={**summary(spec), **model.facts})


def _quantised(published: Quantised | None) -> tuple[str, ...]:
    if published is None:
        return ()
    return (f"the published weights are quantised ({published.method})",)


def _placed(model: Model, part: str) -> tuple[Placed, ...]:
    """Where a part's parameters are, the last layer by its number; kinds that are in the same
    layers together."""
    last = len(model.layers) - 1
    out: dict[tuple[tuple[int, ...], bool], Count] = {}
    for share in model.parts[part]:
        layers = tuple(last if layer < 0 else layer for layer in share.layers)
        key = layers, share.once
        out[key] = out.get(key, NOTHING) + share.count
    return tuple(
        Placed(count.total, layers, count.vectors, once) for (layers, once), count in out.items()
    )


__all__ = ["BUILDERS", "SizingError", "model_from_config", "supported"]
