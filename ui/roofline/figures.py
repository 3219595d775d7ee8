"""All modelled figures of the page for one place, from the sizing library; the same place costs
nothing."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from core.sizing import catalog, gpus, stored
from core.sizing.geometry import KVHeads
from core.sizing.gpus import GpuSpec
from core.sizing.intensity import (
    arithmetic_intensity_attention_prefill,
    arithmetic_intensity_matrices,
)
from core.sizing.result import Result
from core.sizing.roofline import attainable_flops, compute_dtype, ridge_point
from core.sizing.saturation import batch_to_saturate
from core.sizing.step_time import decode_step_time, prefill_time
from core.sizing.traffic import arithmetic_intensity_attention_decode
from core.sizing.units import both
from core.sizing.weights import weight_bytes
from ui.roofline.place import DTYPES, Place
from ui.sizing.place import KV_FORMATS, WEIGHT_FORMATS
from ui.sizing.shown import Json, figure

TRAIL = tuple(4**power for power in range(7))
"""Tokens in a step, 1 to 4,096, at which the matrices' way over the chart is marked."""


@dataclass(frozen=True)
class Roof:
    """One GPU in one precision. sixteen: the precision in which it computes attention."""

    name: str
    gpu: GpuSpec
    dtype: str
    sixteen: str

    @property
    def short(self) -> str:
        return f"{short_title(self.gpu)}, {DTYPES[self.dtype]}"


_MAKERS = re.compile(r"^(NVIDIA|AMD) (GeForce |Instinct )?")
_MEMORY = re.compile(r" \d+ GB$")


@cache
def _short_titles() -> dict[str, str]:
    """GPU → its name without its maker, and without its memory where no other shares the rest."""
    plain = {name: _MAKERS.sub("", gpus.get(name).title.split(" (")[0]) for name in gpus.names()}
    alike = Counter(_MEMORY.sub("", title) for title in plain.values())
    return {
        name: title if alike[_MEMORY.sub("", title)] > 1 else _MEMORY.sub("", title)
        for name, title in plain.items()
    }


def short_title(gpu: GpuSpec) -> str:
    """The name of a GPU of the table, as short as it can be told from the others."""
    return _short_titles()[gpu.name]


@lru_cache(maxsize=64)
def roof(name: str) -> Roof:
    gpu_name, _, dtype = name.partition(":")
    gpu = gpus.get(gpu_name)
    return Roof(name, gpu, dtype, compute_dtype(gpu, "bf16", "gpu")[0])


def sparse_ridge(name: str) -> float | None:
    """The ridge that a data sheet's sparse peak would give; None where it names none."""
    on = roof(name)
    peak = on.gpu.sparse_peaks.get(on.dtype)
    if peak is None:
        return None
    value = ridge_point(replace(on.gpu, peaks={on.dtype: peak}), on.dtype).value
    return None if value is None else float(value)


def heads(model: str) -> tuple[int, int]:
    """(query heads, KV heads) of a model whose layers are alike."""
    layer = catalog.get(model).layers[0]
    assert isinstance(layer.cache, KVHeads)
    return layer.num_query_heads, layer.cache.num_kv_heads


@dataclass(frozen=True)
class Point:
    """A kind of work on the first roof. at: FLOP per byte, reaches: FLOP/s there, both of the
    library; reaches is None where the model has no such work."""

    id: str
    label: str
    dtype: str
    at: Result
    reaches: Result | None


@lru_cache(maxsize=256)
def _points(model: str, w: str, kv: str, lead: str, b: int, ctx: int, n: int) -> tuple[Point, ...]:
    spec, on = catalog.get(model), roof(lead)
    found = (
        ("decode-matrices", "decode, matrices", arithmetic_intensity_matrices(spec, b, w)),
        (
            "decode-attention",
            "decode, attention",
            arithmetic_intensity_attention_decode(spec, kv, ctx),
        ),
        ("prefill-matrices", "prefill, matrices", arithmetic_intensity_matrices(spec, n, w)),
        (
            "prefill-attention",
            "prefill, attention",
            arithmetic_intensity_attention_prefill(spec, n, 0, kv),
        ),
    )
    out = []
    for name, label, at in found:
        dtype = on.sixteen if name.endswith("attention") else on.dtype
        reaches = None if at.value is None else attainable_flops(on.gpu, float(at.value), dtype)
        out.append(Point(name, label, dtype, at, reaches))
    return tuple(out)


def points(place: Place) -> tuple[Point, ...]:
    """The four kinds of work of the place, on its first roof."""
    return _points(place.model, place.w, place.kv, place.roofs[0], place.b, place.ctx, place.n)


@lru_cache(maxsize=128)
def trail(model: str, w: str, lead: str) -> tuple[tuple[int, float, float], ...]:
    """(tokens in the step, FLOP per byte, FLOP/s) of the matrices on a roof."""
    spec, on = catalog.get(model), roof(lead)
    out = []
    for tokens in TRAIL:
        at = float(arithmetic_intensity_matrices(spec, tokens, w).value or 0)
        out.append((tokens, at, float(attainable_flops(on.gpu, at, on.dtype).value or 0)))
    return tuple(out)


@lru_cache(maxsize=256)
def _saturates(model: str, w: str, name: str) -> Result:
    on = roof(name)
    return batch_to_saturate(catalog.get(model), on.gpu, w, on.dtype)


@lru_cache(maxsize=512)
def _times(
    model: str, w: str, kv: str, name: str, b: int, ctx: int, n: int
) -> tuple[Result, Result]:
    spec, on = catalog.get(model), roof(name)
    return (
        decode_step_time(spec, on.gpu, 1, b, ctx, w, kv, compute=on.dtype),
        prefill_time(spec, n, on.gpu, 1, on.dtype, weights=w),
    )


def of_roof(place: Place, name: str) -> dict[str, Result]:
    """A roof's ridge, how many tokens reach it, and the least times of this place's steps."""
    on = roof(name)
    decode, prefill = _times(place.model, place.w, place.kv, name, place.b, place.ctx, place.n)
    return {
        "ridge": ridge_point(on.gpu, on.dtype),
        "tokens that reach the ridge": _saturates(place.model, place.w, name),
        "least time of a decode step": decode,
        "least time of the prefill": prefill,
    }


def roof_part(place: Place, name: str) -> Json:
    """A roof as the browser draws it, with its figures."""
    on = roof(name)
    found = {what: figure(one, f"{what}, {on.short}") for what, one in of_roof(place, name).items()}
    return {
        "id": name,
        "short": on.short,
        "flops": on.gpu.peaks[on.dtype],
        "bytes": on.gpu.bandwidth,
        **dict(zip(("ridge", "saturates", "decode", "prefill"), found.values(), strict=True)),
    }


def point_part(point: Point) -> Json:
    reaches = point.reaches
    return {
        "id": point.id,
        "label": point.label,
        "dtype": DTYPES.get(point.dtype, point.dtype.upper()),
        "at": figure(point.at, f"intensity, {point.label}"),
        "reaches": None if reaches is None else figure(reaches, f"at most, {point.label}"),
        "bound": "" if reaches is None else reaches.notes[0].removeprefix("bound by "),
    }


_BITS = {"bf16": 16, "fp8": 8, "int8": 8, "fp4": 4, "int4": 4}


def asides(place: Place) -> list[str]:
    """What the figures take for granted: a roof narrower than the weights are stored."""
    stored_as = stored.of(place.w, catalog.get(place.model)).main
    narrow = [
        roof(name).short
        for name in place.roofs
        if _BITS[roof(name).dtype] < int(8 * stored_as.bytes_per_element)
    ]
    if not narrow:
        return []
    return [
        f"{' and '.join(narrow)}: weights are stored in {stored_as.name.upper()}, and rounded "
        "before they are multiplied."
    ]


def modelled(place: Place) -> Json:
    """{roofs, points, trail, title, formats, notes} of the place."""
    entry = catalog.entries()[place.model]
    spec, lead = catalog.get(place.model), roof(place.roofs[0])
    notes = [*spec.warnings]
    if spec.params is not None:
        size = weight_bytes(spec, place.w).value or 0
        if size > lead.gpu.visible_bytes:
            notes.append(
                f"The weights take {both(size)}, more than one {short_title(lead.gpu)} has: "
                "the points are those of one GPU that had the room."
            )
    return {
        "title": entry.title,
        "formats": f"weights {WEIGHT_FORMATS[place.w]}, KV {KV_FORMATS[place.kv]}",
        "roofs": [roof_part(place, name) for name in place.roofs],
        "points": [point_part(point) for point in points(place)],
        "trail": [list(row) for row in trail(place.model, place.w, place.roofs[0])],
        "notes": notes,
        "asides": asides(place),
    }
