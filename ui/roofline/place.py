"""What a link to the roofline page can say, and the safe way back from one.

    ?model=llama-3.1-8b &w=bf16 &kv=bf16          the model, and the formats it is kept in
    &roofs=h100-sxm5:bf16,rtx-4090:fp8            up to four roofs; points on the first
    &b=32 &ctx=4096 &n=2048                       sequences and context in decode, tokens in prefill
    &run=batch_1_to_32 &steps=9,12-15             a recorded run, and steps of it
    &view=own                                     the axes: around all, or the measured points

Whatever cannot be read is left out and named in one sentence; the rest of the link counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from core.sizing import catalog, gpus
from ui.kit import address
from ui.roofline import measured
from ui.sizing.place import KV_FORMATS, MOST_SEQUENCES, MOST_TOKENS, WEIGHT_FORMATS

DTYPES = {"bf16": "BF16", "fp8": "FP8", "int8": "INT8", "fp4": "FP4", "int4": "INT4"}
"""Precisions of matrix units that are offered. FP16 has the peak of BF16 on all of them."""
MOST_ROOFS, LONGEST_STEPS = 4, 400
VIEWS = ("all", "own")


@dataclass(frozen=True)
class Place:
    """The page's controls. roofs: "gpu:dtype", the first one carries the points. run: a recorded
    run. steps: those of it that are selected, as ranges; those it does not have are none."""

    model: str = "llama-3.1-8b"
    w: str = "bf16"
    kv: str = "bf16"
    roofs: tuple[str, ...] = (
        "h100-sxm5:bf16",
        "h100-sxm5:fp8",
        "a100-sxm4-80:bf16",
        "rtx-4090:bf16",
    )
    b: int = 32
    ctx: int = 4096
    n: int = 2048
    run: str = "batch_1_to_32"
    steps: str = ""
    view: str = "all"


DEFAULT = Place()

EXAMPLES = {
    "start": ("As the page began", DEFAULT),
    "one": ("One sequence decodes", replace(DEFAULT, b=1)),
    "ridge": ("A batch at the ridge", replace(DEFAULT, b=296)),
    "mha": ("No groups: Llama 2 7B", replace(DEFAULT, model="llama-2-7b")),
    "latent": (
        "A latent: DeepSeek-V3",
        replace(DEFAULT, model="deepseek-v3", w="fp8", roofs=("h200-sxm:fp8", "h200-sxm:bf16")),
    ),
    "int4": (
        "INT4 weights, computed in BF16",
        replace(DEFAULT, w="int4", roofs=("rtx-4090:bf16", "h100-sxm5:bf16")),
    ),
}
"""Name → title and place: where the controls can be set at one stroke. The run stays."""

NAMES = tuple(one.name for one in fields(Place))
_LIMITS = {
    "b": (1, MOST_SEQUENCES),
    "ctx": (1, MOST_TOKENS),
    "n": (1, MOST_TOKENS),
}


def roof_names() -> tuple[str, ...]:
    """Every "gpu:dtype" that can be chosen, in the order of the library's table."""
    return tuple(
        f"{name}:{dtype}"
        for name in gpus.names()
        for dtype in DTYPES
        if dtype in gpus.get(name).peaks
    )


def _number(name: str, raw: str) -> int | None:
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 8):
        return None
    low, high = _LIMITS[name]
    return int(raw) if low <= int(raw) <= high else None


def _roofs(raw: str) -> tuple[str, ...] | None:
    wanted = tuple(dict.fromkeys(raw.split(",")))
    known = roof_names()
    return wanted if len(wanted) <= MOST_ROOFS and all(one in known for one in wanted) else None


def _steps(raw: str) -> str | None:
    fits = re.fullmatch(r"[0-9]{1,6}(-[0-9]{1,6})?(,[0-9]{1,6}(-[0-9]{1,6})?)*", raw, re.ASCII)
    return raw if fits and len(raw) <= LONGEST_STEPS else None


def value_of(name: str, raw: str) -> Any:
    """The value of one parameter, or None if it cannot be what the page can show."""
    if name in _LIMITS:
        return _number(name, raw)
    if name == "roofs":
        return _roofs(raw)
    if name == "steps":
        return _steps(raw)
    known: dict[str, Any] = {
        "model": catalog.entries(),
        "w": WEIGHT_FORMATS,
        "kv": KV_FORMATS,
        "view": VIEWS,
        "run": measured.names(),
    }
    return raw if raw in known[name] else None


def read(params: Mapping[str, str]) -> tuple[Place, str | None]:
    """What the address asks for, and a sentence about what it asks in vain."""
    found, notice = address.sort(params, NAMES, value_of)
    return replace(DEFAULT, **found), notice


def taken(place: Place, sent: object) -> Place:
    """The place after a control of the instrument was moved; what it cannot say is not taken."""
    if not isinstance(sent, dict):
        return place
    if isinstance(sent.get("example"), str) and sent["example"] in EXAMPLES:
        example = EXAMPLES[sent["example"]][1]
        return replace(example, run=place.run, steps=place.steps)
    found: dict[str, Any] = {}
    for name, raw in sent.items():
        if name not in NAMES or not isinstance(raw, str):
            continue
        if name == "steps" and not raw:
            found[name] = ""
        elif (value := value_of(name, raw)) is not None:
            found[name] = value
    if found.get("run", place.run) != place.run:  # another run has steps of its own
        found = {"steps": "", **found}
    return replace(place, **found)


def written(place: Place) -> dict[str, str]:
    """The place as parameters of the address, without what is as by default."""
    out: dict[str, str] = {}
    for name in NAMES:
        value = getattr(place, name)
        if value != getattr(DEFAULT, name):
            out[name] = ",".join(value) if isinstance(value, tuple) else str(value)
    return out
