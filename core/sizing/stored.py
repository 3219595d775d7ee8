"""In what formats a model's weights are kept: one, or several, with their scales.

Wherever a function takes the format of weights, it takes a name ("bf16", "q4_k"), "checkpoint" for
what the config's quantization_config says, or an object:

    {"format": "int4", "parts": {"output head": "bf16"}, "vectors": "bf16",
     "group_size": 128, "scale_bytes": 2, "zero_bytes": 0.5}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from core.sizing import checks, formats, units
from core.sizing.errors import SizingError
from core.sizing.formats import FORMATS, Format
from core.sizing.geometry import ModelSpec

CHECKPOINT = "checkpoint"
"""The name of the format, or formats, that the model's config says it is published in."""

SIXTEEN = FORMATS["bf16"]

Amount = tuple[str, int, int]
"""A part of a model: its name, its parameters in matrices, and those in none."""


@dataclass(frozen=True)
class Stored:
    """main: the format of all that is not named. apart: parts of the model in another one.
    vectors: of norms, biases and tables that are looked up, in whatever part; None: as their part.
    group_size: numbers of a quantised matrix to one scale and one zero point; None: scales are too
    few to count, or not known. scale, zero: bytes of one. published: whether this is what the
    config says. notes: what is to be said of it.
    """

    main: Format
    apart: tuple[tuple[str, Format], ...] = ()
    vectors: Format | None = None
    group_size: int | None = None
    scale: Fraction = Fraction(2)
    zero: Fraction = Fraction(0)
    published: bool = False
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """ "fp8", or "mxfp4 and bf16": the main one first."""
        others = {fmt.name: None for _, fmt in self.apart}
        if self.vectors is not None:
            others[self.vectors.name] = None
        return " and ".join(dict.fromkeys((self.main.name, *others)))

    @cached_property
    def _format_of(self) -> dict[str, Format]:
        return dict(self.apart)

    @cached_property
    def _one_scale(self) -> Fraction:
        return self.scale + self.zero

    @property
    def plain(self) -> bool:
        """Whether all weights are in one format."""
        return not self.apart and self.vectors is None

    def numbers(self, amounts: Iterable[Amount]) -> dict[Format, int]:
        """How many parameters are in each format, the main one first."""
        main, apart, of_vectors = self.main, self._format_of, self.vectors
        out: dict[Format, int] = {main: 0}
        bare = 0
        for name, matrices, vectors in amounts:
            fmt = apart.get(name, main)
            if of_vectors is None:
                matrices += vectors
            else:
                bare += vectors
            if matrices:
                out[fmt] = out.get(fmt, 0) + matrices
        if of_vectors is not None and bare:
            out[of_vectors] = out.get(of_vectors, 0) + bare
        return out

    def of_total(self, model: ModelSpec | None, total: int) -> dict[Format, int]:
        """The same for the whole model: in the main format is what the other parts leave."""
        if self.plain:
            return {self.main: total}
        out = self.numbers(amounts(model))
        known = sum(out.values())
        out[self.main] += total - known
        if out[self.main] < 0:
            apart = known - out[self.main]
            raise SizingError("params", f"{total:,} are fewer than the parts apart have: {apart:,}")
        return out

    def scales_of(self, numbers: Mapping[Format, int]) -> int:
        """Bytes of the scales beside so many parameters."""
        if self.group_size is None:
            return 0
        quantised = sum(number for fmt, number in numbers.items() if needs_scales(fmt))
        each, groups = self._one_scale, -(-quantised // self.group_size)
        return -(-groups * each.numerator // each.denominator)

    def size(self, numbers: Mapping[Format, int]) -> int:
        """Bytes of so many parameters, scales included."""
        whole = sum(formats.bytes_of(number, fmt) for fmt, number in numbers.items())
        return whole + self.scales_of(numbers)


WeightDtype = str | Mapping[str, Any] | Stored
"""What a function accepts as the format of weights."""

_FIELDS = ("format", "parts", "vectors", "group_size", "scale_bytes", "zero_bytes")


def of(
    dtype: WeightDtype,
    model: ModelSpec | None = None,
    path: str = "dtype",
    *,
    embedding_dtype: str | None = None,
    part_dtypes: Mapping[str, str] | None = None,
    group_size: int | None = None,
    scale_bytes: float | None = None,
    zero_bytes: float | None = None,
) -> Stored:
    """The checked formats; what is named beside dtype stands above what it says itself.

    Raises SizingError at `path`, at the object's field, or at the name of the further input.
    """
    if isinstance(dtype, Stored):
        out = dtype
    elif isinstance(dtype, Mapping):
        out = _object(dtype, model, path)
    elif isinstance(dtype, str) and dtype.strip().lower() == CHECKPOINT:
        out = checkpoint(model, path)
    else:
        out = Stored(formats.get(dtype, path, (CHECKPOINT,)))
    apart = dict(out.apart)
    if embedding_dtype is not None:
        fmt = formats.get(embedding_dtype, "embedding_dtype")
        apart.update(dict.fromkeys(_tables(model), fmt))
    if part_dtypes is not None:
        apart.update(_parts(part_dtypes, model, "part_dtypes"))
    if apart != dict(out.apart):
        out = replace(out, apart=tuple(apart.items()))
    if group_size is not None or (scale_bytes, zero_bytes) != (None, None):
        out = _with_scales(out, model, "", group_size, scale_bytes, zero_bytes)
    return out


def checkpoint(model: ModelSpec | None, path: str = "dtype") -> Stored:
    """As the model's config says that it is published; 16 bits if it says nothing."""
    if model is None:
        raise SizingError(path, f"{CHECKPOINT!r} needs a model whose config says what it is")
    found = model.quantised
    if found is None:
        return Stored(SIXTEEN, published=True)
    if found.dtype is None:
        return Stored(SIXTEEN, published=True, notes=found.notes)
    main, notes = FORMATS[found.dtype], found.notes
    if not model.parts:
        notes += (f"which parts are not in {main.name} is not known here: all are counted in it",)
    return Stored(
        main,
        tuple((part.name, SIXTEEN) for part in model.parts if part.name not in found.parts),
        SIXTEEN if model.parts else None,
        found.group_size,
        units.exact(found.scale_bytes, path),
        units.exact(found.zero_bytes, path),
        published=True,
        notes=notes,
    )


def amounts(model: ModelSpec | None) -> tuple[Amount, ...]:
    """Every part of a model that is known."""
    if model is None or model.parts:
        return () if model is None else model.amounts
    if model.vocab_size and model.hidden_size:
        tables = 1 if model.tied_embeddings else 2
        return ((_ENDS, tables * model.vocab_size * model.hidden_size, 0),)
    return ()


_ENDS = "embedding and head"


def needs_scales(fmt: Format) -> bool:
    """Whether scales lie beside the numbers."""
    return fmt.quantised and not fmt.own_scales


def _tables(model: ModelSpec | None) -> list[str]:
    """Embedding tables and the output head."""
    names = [name for name, *_ in amounts(model)]
    found = [name for name in names if "embedding" in name or name == "output head"]
    if not found:
        raise SizingError("embedding_dtype", "needs a model whose vocabulary and width are known")
    return found


def _parts(given: object, model: ModelSpec | None, path: str) -> dict[str, Format]:
    if not isinstance(given, Mapping):
        raise SizingError(path, 'must be an object, as in {"experts": "mxfp4"}')
    known = [part.name for part in model.parts] if model is not None else []
    out = {}
    for name, fmt in given.items():
        where = f"{path}.{name}"
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "its parts are not known"
            raise SizingError(where, f"is no part of the model: {has}")
        out[str(name)] = formats.get(fmt, where)
    return out


def _object(given: Mapping[str, Any], model: ModelSpec | None, path: str) -> Stored:
    for field in given:
        if field not in _FIELDS:
            known = ", ".join(_FIELDS)
            raise SizingError(f"{path}.{field}", f"is no field of a weight format; known: {known}")
    if "format" not in given:
        raise SizingError(f"{path}.format", "is missing: the format of all that is not named")
    out = Stored(formats.get(given["format"], f"{path}.format"))
    if given.get("parts") is not None:
        parts = _parts(given["parts"], model, f"{path}.parts")
        out = replace(out, apart=tuple(parts.items()))
    if given.get("vectors") is not None:
        out = replace(out, vectors=formats.get(given["vectors"], f"{path}.vectors"))
    scales = [given.get(name) for name in ("group_size", "scale_bytes", "zero_bytes")]
    return _with_scales(out, model, f"{path}.", *scales) if scales != [None] * 3 else out


def _with_scales(
    out: Stored,
    model: ModelSpec | None,
    path: str,
    group_size: object,
    scale_bytes: object,
    zero_bytes: object,
) -> Stored:
    if group_size is not None:
        used = {out.main, *(fmt for _, fmt in out.apart)}
        if not any(map(needs_scales, used)):
            why = "carries its own scales" if out.main.own_scales else "is not quantised"
            raise SizingError(f"{path}group_size", f"{out.main.name} {why}")
        group = checks.whole(group_size, f"{path}group_size", 1, 2**20)
        out = replace(out, group_size=group)
    if scale_bytes is not None:
        one = checks.number(scale_bytes, f"{path}scale_bytes", 0, 8, above=True)
        out = replace(out, scale=units.exact(one, f"{path}scale_bytes"))
    if zero_bytes is not None:
        one = checks.number(zero_bytes, f"{path}zero_bytes", 0, 8)
        out = replace(out, zero=units.exact(one, f"{path}zero_bytes"))
    return out
