"""A cache's format as the page, the engine and the sizing library know it.

The engine takes a name ("int8_per_token_head") or an object with `calibration`; the library takes
the object without it, and with the bytes of a scale. Both count the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

FORMATS = {"fp8_e4m3": "FP8 E4M3", "int8": "INT8", "int4": "INT4"}
SCALES = {
    "per_token_head": "each token and head",
    "per_head_static": "each head, fixed",
    "per_tensor": "a layer's K, one its V, fixed",
}
FIXED = ("per_head_static", "per_tensor")
CALIBRATIONS = {
    "text": "on a sample text",
    "first_step": "on the first step's tokens",
    "one": "not at all: scale 1",
}
APART = {"int8": "INT8", "model": "the model's own"}
"""What layers can be kept in that are not in the cache's format."""
SCALE_BYTES = 4
"""Of a scale in this engine: float32."""

NAMED: dict[str, Json] = {
    "fp8": {"format": "fp8_e4m3", "scale": "per_tensor", "calibration": "text"},
    "fp8_per_token_head": {"format": "fp8_e4m3", "scale": "per_token_head"},
    "int8_per_token_head": {"format": "int8", "scale": "per_token_head"},
}
"""What the engine's names stand for."""
MODEL = "model"

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


def normal(kv_dtype: str | Mapping[str, Any]) -> Json | str:
    """The one way in which two spellings of a format are equal: "model", or an object with every
    field that counts, each layer apart by its number."""
    if kv_dtype == MODEL:
        return MODEL
    given = dict(NAMED[kv_dtype] if isinstance(kv_dtype, str) else kv_dtype)
    out = {"format": given["format"], "scale": given.get("scale", "per_token_head")}
    if out["scale"] in FIXED:
        out["calibration"] = given.get("calibration", "text")
    apart: Json = {}
    for span, value in given.get("layers", {}).items():
        name = value["format"] if isinstance(value, Mapping) else value
        for layer in spans(span, 1000) or ():
            if name != out["format"]:
                apart[str(layer)] = name
    return {**out, "layers": apart}


def key(kv_dtype: str | Mapping[str, Any]) -> str:
    """The same text for the same format."""
    return json.dumps(normal(kv_dtype), sort_keys=True)


def read(text: str) -> str | Json:
    """The format behind a `key`."""
    found: str | Json = json.loads(text)
    return found


def as_sized(kv_dtype: str | Mapping[str, Any], own: str) -> str | Json:
    """The format for the sizing library. own: the name of the model's own dtype, e.g. "bf16"."""
    found = normal(kv_dtype)
    if isinstance(found, str):
        return own
    if found["format"] == MODEL:
        return own
    return {
        "format": found["format"],
        "scale": found["scale"],
        "scale_bytes": SCALE_BYTES,
        "layers": {at: own if name == MODEL else name for at, name in found["layers"].items()},
    }


def short(kv_dtype: str | Mapping[str, Any]) -> str:
    """The format's name alone: "INT8", or "INT4 / INT8" where layers differ."""
    found = normal(kv_dtype)
    if isinstance(found, str):
        return "own"
    names = dict.fromkeys((found["format"], *found["layers"].values()))
    return " / ".join(FORMATS.get(name, "own") for name in names)


def title(kv_dtype: str | Mapping[str, Any], own: str) -> str:
    """For people: "INT8, a scale for each token and head". own: the model's own dtype."""
    found = normal(kv_dtype)
    if isinstance(found, str):
        return own.upper()
    said = f"{FORMATS[found['format']]}, a scale for {SCALES[found['scale']]}"
    if found.get("calibration", "text") != "text":
        said += f", calibrated {CALIBRATIONS[found['calibration']]}"
    layers = found["layers"]
    for name in dict.fromkeys(layers.values()):
        those = [int(at) for at, one in layers.items() if one == name]
        kept = own.upper() if name == MODEL else FORMATS[name]
        said += f"; {kept} in layer{'s' if len(those) > 1 else ''} {written(sorted(those))}"
    return said
