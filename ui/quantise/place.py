"""What a link to the page on quantised caches can say, and the safe way back from one.

    ?fmt=int8 &scale=per_tensor &cal=first_step     the cache's format, its scales, where from
    &apart=0-3,28-29 &to=model                      layers that are kept in another format
    &own=eJyr…                                      the reader's prompt, packed
    ?level=… &at=scales                             the lesson's text, below

Whatever cannot be read is left out and named in one sentence; the rest of the link counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from core.kv_spec import PER_TOKEN_HEAD, KVSpec
from ui import links
from ui.kit import address
from ui.quantise import formats

LAYERS = 30
"""Layers of the model that the page runs."""
MAX_CHARS, MAX_BYTES = 400, 600
"""Of a prompt: a byte is a token at worst, and prompt and answer must fit the pool."""


@dataclass(frozen=True)
class Place:
    """cal: where fixed scales come from. apart: layers in the format `to`, "" for none. prompt: the
    reader's, "" for the page's own."""

    fmt: str = "int8"
    scale: str = "per_token_head"
    cal: str = "text"
    apart: str = ""
    to: str = "int8"
    prompt: str = ""

    def kv_dtype(self) -> dict[str, Any]:
        """The format as the engine takes it."""
        out: dict[str, Any] = {"format": self.fmt, "scale": self.scale}
        if self.scale != PER_TOKEN_HEAD:
            out["calibration"] = self.cal
        if self.apart:
            out["layers"] = dict.fromkeys(self.apart.split(","), self.to)
        return out

    @property
    def spec(self) -> KVSpec:
        """The format, read."""
        return formats.spec(self.kv_dtype())


DEFAULT = Place()
EXAMPLES = {
    "int8": ("INT8, fine scales", Place()),
    "fp8": ("FP8, fine scales", Place(fmt="fp8_e4m3")),
    "fp8-tensor": ("FP8, one fixed scale", Place(fmt="fp8_e4m3", scale="per_tensor")),
    "fp8-one": ("FP8, scale 1", Place(fmt="fp8_e4m3", scale="per_tensor", cal="one")),
    "int8-tensor": ("INT8, one fixed scale", Place(scale="per_tensor")),
    "int4": ("INT4, fine scales", Place(fmt="int4")),
    "int4-tensor": ("INT4, one fixed scale", Place(fmt="int4", scale="per_tensor")),
    "inner": ("INT8, inner layers in INT4", Place(apart="10-19", to="int4")),
    "outer": ("INT8, outer layers in INT4", Place(apart="0-4,25-29", to="int4")),
}
"""Name → title and place: where the controls can be set at one stroke."""

OTHER = {"int4": "int8"}
"""What layers apart are kept in at first, if not in INT4."""
NAMES = ("fmt", "scale", "cal", "apart", "to", "own")
_FIELD = {"own": "prompt"}
_CHOICES = {
    "fmt": formats.FORMATS,
    "scale": formats.SCALES,
    "cal": formats.CALIBRATIONS,
    "to": formats.APART,
}


def prompt_of(text: object) -> str | None:
    """A prompt as it can be run; None if it cannot."""
    if not isinstance(text, str):
        return None
    try:
        fits = len(text) <= MAX_CHARS and len(text.encode()) <= MAX_BYTES
    except UnicodeEncodeError:  # half a surrogate pair
        return None
    return text.strip() if fits else None


def _own(raw: str) -> str | None:
    try:
        loaded = json.loads(links.unpack(raw))
    except (links.LinkError, ValueError, RecursionError):
        return None
    return prompt_of(loaded.get("prompt")) if isinstance(loaded, dict) else None


def value_of(name: str, raw: str) -> Any:
    """The value of one parameter, or None if it cannot be what the page can show."""
    if name == "own":
        return _own(raw) or None
    if name == "apart":
        found = formats.spans(raw, LAYERS) if len(raw) <= 99 else None
        return formats.written(found) if found else None
    return raw if raw in _CHOICES[name] else None


def read(params: Mapping[str, str]) -> tuple[Place, str | None]:
    """What the address asks for, and a sentence about what it asks in vain."""
    found, notice = address.sort(params, NAMES, value_of)
    return _whole(Place(**{_FIELD.get(name, name): value for name, value in found.items()})), notice


def _whole(place: Place) -> Place:
    """Without what has no meaning: a calibration of scales that are not fixed, layers apart in the
    format of all the others."""
    if place.scale == PER_TOKEN_HEAD:
        place = replace(place, cal=DEFAULT.cal)
    if not place.apart:
        return replace(place, to=DEFAULT.to)
    return replace(place, to=OTHER.get(place.fmt, "int4")) if place.to == place.fmt else place


def taken(place: Place, sent: object) -> Place:
    """The place after a control of the instrument was moved; what it cannot say is not taken."""
    if not isinstance(sent, dict):
        return place
    example = sent.get("example")
    if isinstance(example, str) and example in EXAMPLES:
        return replace(EXAMPLES[example][1], prompt=place.prompt)
    found: dict[str, Any] = {}
    for name, raw in sent.items():
        if name == "apart" and raw == "":
            found["apart"] = ""
        elif name == "prompt":
            prompt = prompt_of(raw)
            if prompt is not None:
                found["prompt"] = prompt
        elif name in _CHOICES or name == "apart":
            value = value_of(name, raw) if isinstance(raw, str) else None
            found |= {name: value} if value is not None else {}
    return _whole(replace(place, **found))


def written(place: Place) -> dict[str, str]:
    """The place as parameters of the address, without what is as by default."""
    out: dict[str, str] = {}
    for one in fields(place):
        value = getattr(place, one.name)
        if value == getattr(DEFAULT, one.name):
            continue
        if one.name == "prompt":
            packed = links.pack({"prompt": value})
            if packed is not None:
                out["own"] = packed
        else:
            out[one.name] = value
    return out
