"""A cache's format in words, and the layers of a link: what is what is the engine's own reading
of a `kv_dtype` (`core.kv_spec`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.kv_spec import MODEL, KVSpec

FORMATS = {"fp8_e4m3": "FP8 E4M3", "int8": "INT8", "int4": "INT4"}
SCALES = {
    "per_token_head": "each token and head",
    "per_head_static": "each head, fixed",
    "per_tensor": "a whole layer, fixed",
}
CALIBRATIONS = {
    "text": "on a sample text",
    "first_step": "on the first step's tokens",
    "one": "not at all: scale 1",
}
APART = {"int4": "INT4", "int8": "INT8", MODEL: "the model's own"}
"""What layers can be kept in that are not in the cache's format."""
OWN = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
"""The sizing library's names of what a model computes in."""

_SPAN = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")


def spans(text: str, layers: int) -> list[int] | None:
    """The layers that "0-3,28-29" names, sorted; None if it is no such list, or names one that the
    model does not have."""
    out: set[int] = set()
    for piece in text.split(","):
        found = _SPAN.fullmatch(piece.strip())
        if found is None:
            return None
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < layers:
            return None
        out.update(range(first, last + 1))
    return sorted(out)


def written(layers: list[int]) -> str:
    """Layers as "0-3,28-29"."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def spec(kv_dtype: str | Mapping[str, Any]) -> KVSpec:
    """The format as the engine reads it: two spellings of one format are equal. Raises
    KVScopeError, or KeyError, TypeError or ValueError for what no engine could have been given."""
    found = KVSpec.of(kv_dtype)
    apart = tuple(one for one in found.layers if one[1] != found.form)
    return replace(found, layers=apart)


def own_name(dtype: str) -> str:
    """A model's dtype for people: "BF16"."""
    return OWN.get(dtype, dtype).upper()


def short(found: KVSpec) -> str:
    """The format's name alone: "INT8", or "INT4 / INT8" where layers differ."""
    names = dict.fromkeys((found.form, *(form for _, form in found.layers)))
    return " / ".join(FORMATS.get(name, "own") for name in names)


def title(found: KVSpec, own: str) -> str:
    """For people: "INT8, a scale for each token and head". own: the name of the model's dtype."""
    if found.scale is None:
        return own
    said = f"{FORMATS.get(found.form, own)}, a scale for {SCALES[found.scale]}"
    if found.calibration not in (None, "text"):
        said += f", calibrated {CALIBRATIONS[found.calibration]}"
    for form in dict.fromkeys(form for _, form in found.layers):
        those = [index for index, one in found.layers if one == form]
        plural = "s" if len(those) > 1 else ""
        said += f"; {FORMATS.get(form, own)} in layer{plural} {written(those)}"
    return said
