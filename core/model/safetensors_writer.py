"""Writes a safetensors file one tensor after another, so that memory stays bounded.

The `safetensors` package writes from a dictionary that holds the whole model. Format: 8 bytes
little endian with the header's length, a JSON header padded with spaces to a multiple of 8, then
the tensors' bytes. Source: the safetensors README.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

Rows = Iterable[npt.NDArray[np.float32]]


def to_bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Round float32 to bfloat16, to nearest and ties to even; the bits, as uint16.

    bfloat16 is the upper half of a float32. Adding 0x7FFF plus the lowest kept bit before cutting
    rounds correctly, a carry into the exponent included. Finite values only.
    """
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    bias = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return ((bits + bias) >> np.uint32(16)).astype("<u2")


def write_bfloat16(
    path: Path, tensors: list[tuple[str, tuple[int, ...], Rows]]
) -> Iterator[tuple[str, int, str | None]]:
    """Write (name, shape, rows of float32) as bfloat16.

    Yields (name, bytes written so far, None) after each tensor, and last ("", bytes, sha256).
    Raises OSError (a full disk), ValueError if a tensor's rows do not fill its shape.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape, _ in tensors:
        num_bytes = 2 * int(np.prod(shape, dtype=np.int64))
        header[name] = {
            "dtype": "BF16",
            "shape": list(shape),
            "data_offsets": [offset, offset + num_bytes],
        }
        offset += num_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    written = 0
    with path.open("wb") as file:

        def put(piece: bytes) -> None:
            nonlocal written
            file.write(piece)
            digest.update(piece)
            written += len(piece)

        put(len(text).to_bytes(8, "little") + text)
        for name, shape, rows in tensors:
            end = written + 2 * int(np.prod(shape, dtype=np.int64))
            for piece in rows:
                put(to_bfloat16(piece).tobytes())
            if written != end:
                raise ValueError(f"{name}: the rows do not fill the shape {shape}")
            yield name, written, None
        file.flush()
    yield "", written, digest.hexdigest()
