"""The format of a KV cache: of its keys, its values, its scales, and of layers that differ.

Wherever a function takes the cache's `dtype`, it takes a name ("bf16", "q8_0"), one of the named
layouts below ("int8_per_token_head"), or an object:

    {"format": "int4", "scale": "per_group", "group_size": 64, "scale_bytes": 2,
     "value": "int8", "layers": {"0": "bf16", "60-79": "int8"}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from core.sizing import checks, formats, scales
from core.sizing.errors import SizingError
from core.sizing.formats import Format
from core.sizing.scales import NO_SCALES, Scales


@dataclass(frozen=True, slots=True)
class KVFormat:
    """key, value: of K and of V (a latent is kept as `key`). scales: beside them.
    rope: of MLA's rotary key, if it is not quantised with the latent. indexer: of the keys of a
    sparse-attention indexer, by default as `key`. state: of fixed state whose width the model does
    not set, by default as `key` if that is not quantised, else bf16: engines quantise caches, not
    states.
    layers: (index, K's format, V's format) of the layers that differ.
    """

    key: Format
    value: Format
    scales: Scales = NO_SCALES
    rope: Format | None = None
    indexer: Format | None = None
    state: Format | None = None
    layers: tuple[tuple[int, Format, Format], ...] = ()

    @property
    def name(self) -> str:
        pair = self.key.name if self.key == self.value else f"{self.key.name}/{self.value.name}"
        return f"{pair}, {len(self.layers)} layers apart" if self.layers else pair

    @property
    def state_format(self) -> Format:
        if self.state is not None:
            return self.state
        return formats.FORMATS["bf16"] if self.key.quantised else self.key

    def of_layer(self, index: int) -> tuple[Format, Format]:
        """K's and V's format in one layer."""
        for i, key, value in self.layers:
            if i == index:
                return key, value
        return self.key, self.value


KVDtype = str | Mapping[str, Any] | KVFormat
"""What a function accepts as the cache's dtype."""


def _token_head(name: str, scale_bytes: int) -> KVFormat:
    fmt = formats.FORMATS[name]
    return KVFormat(fmt, fmt, Scales(scales.PER_TOKEN_HEAD, scale_bytes))


_FP8, _BF16 = formats.FORMATS["fp8"], formats.FORMATS["bf16"]
_INDEXER = formats.FORMATS["fp8_g128"]
LAYOUTS = {
    # Names and widths of vLLM's --kv-cache-dtype (2026): v1/kv_cache_interface.py counts fp32
    # scales for 8 bits, its Triton cache kernel packs an fp16 one for 4; FlashMLA's sparse layout
    # is 512 fp8 numbers, 4 fp32 scales and 64 bf16 rotary numbers, 656 bytes in all; the keys of
    # an indexer lie beside it in fp8, 128 numbers with a 4-byte scale.
    "fp8_per_token_head": _token_head("fp8", 4),
    "int8_per_token_head": _token_head("int8", 4),
    "int4_per_token_head": _token_head("int4", 2),
    "fp8_ds_mla": KVFormat(
        _FP8, _FP8, Scales(scales.PER_GROUP, 4, 0, 128), rope=_BF16, indexer=_INDEXER
    ),
}

_KEYS = ("format", "value", "scale", "scale_bytes", "zero_bytes", "group_size")
_APART = ("rope", "indexer", "state")


def of(dtype: KVDtype, path: str = "dtype") -> KVFormat:
    """The checked format. Raises SizingError at `path`, or at the object's field."""
    if isinstance(dtype, str):
        return _named(dtype, path)
    if isinstance(dtype, KVFormat):
        return dtype
    if not isinstance(dtype, Mapping):
        raise SizingError(path, f"must be the name of a format, not {type(dtype).__name__}")
    for field in dtype:
        if field not in (*_KEYS, *_APART, "layers"):
            known = ", ".join((*_KEYS, *_APART, "layers"))
            raise SizingError(f"{path}.{field}", f"is not a field of a KV format; known: {known}")
    if "format" not in dtype:
        raise SizingError(f"{path}.format", "is missing: the format of the keys, as in fp8")
    base = _named(dtype["format"], f"{path}.format")
    if "value" in dtype:
        base = replace(base, value=formats.get(dtype["value"], f"{path}.value"))
    if "scale" in dtype:
        base = with_scales(
            replace(base, scales=NO_SCALES),
            scales.of(
                dtype["scale"],
                dtype.get("scale_bytes", 2),
                dtype.get("zero_bytes", 0),
                dtype.get("group_size"),
                f"{path}.",
            ),
            f"{path}.",
        )
    else:
        for field in ("scale_bytes", "zero_bytes", "group_size"):
            if field in dtype:
                raise SizingError(f"{path}.{field}", "needs `scale`: how the scales are laid out")
    rope, indexer, state = (
        formats.get(dtype[field], f"{path}.{field}") if field in dtype else getattr(base, field)
        for field in _APART
    )
    layers = _layers(dtype.get("layers", {}), f"{path}.layers")
    return replace(base, rope=rope, indexer=indexer, state=state, layers=layers)


def with_scales(fmt: KVFormat, what: Scales, path: str = "") -> KVFormat:
    """The format with scales. Refused if neither K nor V can have any."""
    if what.kind != scales.NONE and not (_can_scale(fmt.key) or _can_scale(fmt.value)):
        why = "carries its own scales" if fmt.key.own_scales else "is not quantised"
        raise SizingError(f"{path}scale", f"{fmt.key.name} {why}: it has no {what.kind} scales")
    return replace(fmt, scales=what)


def _can_scale(fmt: Format) -> bool:
    return fmt.quantised and not fmt.own_scales


@lru_cache(maxsize=256)
def _plain(name: str, path: str) -> KVFormat:
    if name in LAYOUTS:
        return LAYOUTS[name]
    fmt = formats.get(name, path, LAYOUTS)
    return KVFormat(fmt, fmt)


def _named(name: object, path: str) -> KVFormat:
    if not isinstance(name, str):
        raise SizingError(path, f"must be the name of a format, not {type(name).__name__}")
    return _plain(name, path)


def _layers(given: object, path: str) -> tuple[tuple[int, Format, Format], ...]:
    """{"0": "bf16", "60-79": "int8"}, both ends included, or a list with one format per layer."""
    out: dict[int, tuple[Format, Format]] = {}
    if isinstance(given, list | tuple):
        for index, name in enumerate(given):
            fmt = _named(name, f"{path}[{index}]")
            out[index] = fmt.key, fmt.value
    elif isinstance(given, Mapping):
        for span, name in given.items():
            fmt = _named(name, f"{path}.{span}")
            for index in _span(span, path):
                if index in out:
                    raise SizingError(f"{path}.{span}", f"layer {index} is named twice")
                out[index] = fmt.key, fmt.value
    else:
        raise SizingError(path, 'must be an object such as {"0": "bf16", "60-79": "int8"}')
    return tuple((index, *pair) for index, pair in sorted(out.items()))


def _span(span: object, path: str) -> range:
    text = str(span)
    first, dash, last = text.partition("-")
    if not (first.isascii() and first.isdigit() and len(first) < 6) or (
        dash and not (last.isascii() and last.isdigit() and len(last) < 6)
    ):
        raise SizingError(f"{path}.{text[:40]}", "must be a layer's index or a span such as 60-79")
    start = int(first)
    stop = checks.whole(int(last) if dash else start, f"{path}.{text}", start, 99_999)
    return range(start, stop + 1)
