"""What a link to the KV sizing page can say, and the safe way back from one.

    ?model=llama-3.1-70b &gpu=h100-sxm5 &gpus=8        the deployment
    &own=eJyr…                                         a config.json of one's own, instead of model
    &adp=8                                             attention groups: each has its own sequences
    &kv=fp8 &w=checkpoint &ctx=4096 &n=64              formats, tokens of a sequence, sequences
    &max=32768 &bs=16                                  what a contiguous cache reserves; block size
    &of=gpu                                            the bar: of all GPUs, or of one
    &vs=deepseek-v3,gemma-3-27b                        models drawn beside it

Whatever cannot be read is left out and named in one sentence; the rest of the link counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from core.sizing import catalog, config_json, gpus
from core.sizing.errors import SizingError
from ui import links
from ui.kit import address
from ui.sizing.mine import kept

KV_FORMATS = {
    "bf16": "BF16",
    "fp8": "FP8",
    "fp8_per_token_head": "FP8, scale a head",
    "int8_per_token_head": "INT8, scale a head",
    "int4_per_token_head": "INT4, scale a head",
    "fp32": "FP32",
}
WEIGHT_FORMATS = {
    "checkpoint": "as published",
    "bf16": "BF16",
    "fp8": "FP8",
    "int4": "INT4",
}
GPU_COUNTS = (1, 2, 4, 8, 16)
MOST_TOKENS, MOST_SEQUENCES, MOST_BLOCK, MOST_BESIDE = 1 << 20, 4096, 256, 4


@dataclass(frozen=True)
class Place:
    """The page's controls. own: the text of a config.json, "" for a model of the catalogue. most:
    tokens that a contiguous cache reserves for a sequence, 0: as many as the model allows. of: what
    the bar shows, "all" GPUs or one "gpu". adp: groups of the GPUs, which attend each for
    sequences of its own; 1: all split the heads of every sequence."""

    model: str = "llama-3.1-70b"
    own: str = ""
    gpu: str = "h100-sxm5"
    gpus: int = 8
    adp: int = 1
    kv: str = "bf16"
    w: str = "checkpoint"
    ctx: int = 4096
    n: int = 64
    most: int = 0
    bs: int = 16
    of: str = "all"
    vs: tuple[str, ...] = ("hypothetical-70b-mha", "deepseek-v3", "gemma-3-27b")


DEFAULT = Place()
WORKED = Place(model="llama-3-70b", gpu="h100-sxm5", gpus=8, w="bf16", ctx=4096, n=64)
"""The lesson's example: Llama 3 70B on eight H100."""

EXAMPLES = {
    "start": ("As the page began", DEFAULT),
    "worked": ("70B on 8 × H100", WORKED),
    "small": (
        "8B on one RTX 4090",
        Place(model="llama-3.1-8b", gpu="rtx-4090", gpus=1, w="fp8", ctx=8192, n=8),
    ),
    "long": ("One prompt of 128K tokens", Place(ctx=131_072, n=1)),
    "latent": (
        "DeepSeek-V3 on 8 × H200",
        Place(model="deepseek-v3", gpu="h200-sxm", ctx=8192, n=64, vs=("llama-3.1-70b",)),
    ),
    "apart": (
        "DeepSeek-V3, attention apart",
        Place(model="deepseek-v3", gpu="h200-sxm", adp=8, ctx=8192, n=64, vs=("llama-3.1-70b",)),
    ),
    "window": (
        "Gemma 3 27B, windows",
        Place(model="gemma-3-27b", gpus=2, ctx=32_768, n=16, vs=("qwen3-32b",)),
    ),
}
"""Name → title and place: where the controls can be set at one stroke."""

NAMES = ("model", "own", "gpu", "gpus", "adp", "kv", "w", "ctx", "n", "max", "bs", "of", "vs")
_FIELD = {"max": "most"}
_LIMITS = {
    "ctx": (1, MOST_TOKENS),
    "n": (1, MOST_SEQUENCES),
    "max": (1, MOST_TOKENS),
    "bs": (1, MOST_BLOCK),
}


def _number(name: str, raw: str) -> int | None:
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 8):
        return None
    low, high = _LIMITS[name]
    return int(raw) if low <= int(raw) <= high else None


def _beside(raw: str) -> tuple[str, ...] | None:
    wanted = tuple(dict.fromkeys(part for part in raw.split(",") if part))
    fits = len(wanted) <= MOST_BESIDE and all(name in catalog.entries() for name in wanted)
    return wanted if fits else None


def own_config(text: str) -> dict[str, Any]:
    """The object in a pasted config.json. Raises SizingError with the field's path."""
    return config_json.parse(text)


def _own(raw: str) -> str | None:
    try:
        text = links.unpack(raw)
        own_config(text)
    except (links.LinkError, SizingError):
        return None
    return text


def value_of(name: str, raw: str) -> Any:
    """The value of one parameter, or None if it cannot be what the page can show."""
    if name in _LIMITS:
        return _number(name, raw)
    if name in ("gpus", "adp"):
        return int(raw) if raw in {str(count) for count in GPU_COUNTS} else None
    if name == "vs":
        return _beside(raw)
    if name == "own":
        return _own(raw)
    known: dict[str, Any] = {
        "model": catalog.entries(),
        "gpu": gpus.names(),
        "kv": KV_FORMATS,
        "w": WEIGHT_FORMATS,
        "of": ("all", "gpu"),
    }
    return raw if raw in known[name] else None


def read(params: Mapping[str, str]) -> tuple[Place, str | None]:
    """What the address asks for, and a sentence about what it asks in vain."""
    found, notice = address.sort(params, NAMES, value_of)
    return _whole(Place(**{_FIELD.get(name, name): value for name, value in found.items()})), notice


def _whole(place: Place) -> Place:
    """The place with no more groups than GPUs."""
    return replace(place, adp=min(place.adp, place.gpus))


def taken(place: Place, sent: object) -> Place:
    """The place after a control of the instrument was moved; what it cannot say is not taken."""
    if not isinstance(sent, dict):
        return place
    example = sent.get("example")
    if isinstance(example, str) and example in EXAMPLES:
        return EXAMPLES[example][1]
    found: dict[str, Any] = {}
    for name, raw in sent.items():
        if isinstance(name, str) and name in NAMES and name != "own" and isinstance(raw, str):
            if name == "max" and raw == "0":
                found["most"] = 0
            elif (value := value_of(name, raw)) is not None:
                found[_FIELD.get(name, name)] = value
    if "model" in found:  # one of the catalogue takes the place of one's own
        found["own"] = ""
    return _whole(replace(place, **found))


@kept(1, lambda text: text)
def _packed(text: str) -> str | None:
    try:
        return links.pack(json.loads(text))
    except UnicodeEncodeError:  # half a surrogate pair, which no address can carry
        return None


def written(place: Place) -> dict[str, str] | None:
    """The place as parameters of the address, without what is as by default. None: the config is
    too long for a link."""
    out: dict[str, str] = {}
    for one in fields(place):
        value = getattr(place, one.name)
        if value == getattr(DEFAULT, one.name):
            continue
        name: str = "max" if one.name == "most" else one.name
        if one.name == "own":
            packed = _packed(value)
            if packed is None:
                return None
            out["own"] = packed
        else:
            out[name] = ",".join(value) if isinstance(value, tuple) else str(value)
    if "own" in out:
        out.pop("model", None)
    return out


def as_inputs(place: Place) -> dict[str, Any]:
    """The place as it is exported. A config of one's own stays out: it is somebody's file."""
    inputs = asdict(place)
    inputs["own"] = bool(place.own)
    inputs["vs"] = list(place.vs)
    return inputs
