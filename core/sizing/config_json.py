"""Reading a `config.json` from a person: bounded in size and depth, strict, with the field's path.

A key that appears twice, NaN and Infinity are refused: each hides a mistake, and `json` alone would
let the last key win. `core.jsonio` refuses the same; here the field's path is told as well.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from core.sizing.errors import SizingError

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
"""No published config.json is larger than 100 kB or nests deeper than 8."""


def read(source: Path | str | bytes, path: str = "config") -> dict[str, Any]:
    """The object in a config.json.

    source: the file, as a Path or its name; or its bytes. path: what errors call it.
    Raises SizingError: cannot be read, too large, too deep, not strict JSON, not an object.
    """
    data = source if isinstance(source, bytes) else _file(Path(source), path)
    if len(data) > MAX_BYTES:
        raise SizingError(path, f"is larger than {MAX_BYTES:,} bytes, too large for a config.json")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SizingError(path, f"is not UTF-8 text: byte {error.start} is invalid") from None
    return parse(text, path)


def parse(text: str, path: str = "config") -> dict[str, Any]:
    """As `read`, of text that is already there."""
    if len(text) > MAX_BYTES:
        raise SizingError(path, f"is larger than {MAX_BYTES:,} characters")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_Pairs,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
    except RecursionError:
        raise SizingError(path, f"nests deeper than {MAX_DEPTH} levels") from None
    except json.JSONDecodeError as error:
        raise SizingError(
            path, f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    if not isinstance(value, _Pairs):
        raise SizingError(path, "must hold one JSON object, as config.json does")
    return _object(value, path, 0)


def _file(file: Path, path: str) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise SizingError(path, f"{str(file)[:200]} cannot be read: {reason}") from None


class _Pairs(list[tuple[str, Any]]):
    """An object before its keys are checked: paths are known from the outside in only."""


class _Refused:
    """A number that JSON or sense does not allow; refused once its path is known."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _no_constant(name: str) -> _Refused:
    return _Refused(f"{name} is not a JSON number")


def _finite(text: str) -> float | _Refused:
    value = float(text)
    return _Refused(f"the number {text[:40]} is too large") if math.isinf(value) else value


def _integer(text: str) -> int | _Refused:
    if len(text) > 40:  # also keeps clear of CPython's limit on converting long digit strings
        return _Refused(f"the number {text[:20]}… is too large")
    return int(text)


def _plain(value: Any, path: str, depth: int) -> Any:
    """Dicts and lists, once nothing in them is refused."""
    if isinstance(value, _Refused):
        raise SizingError(path, value.reason)
    if depth > MAX_DEPTH:
        raise SizingError(path[:60], f"nests deeper than {MAX_DEPTH} levels")
    if isinstance(value, _Pairs):
        return _object(value, path, depth)
    if isinstance(value, list):
        return [_plain(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    return value


def _object(pairs: _Pairs, path: str, depth: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        where = f"{path}.{key[:60]}"
        if key in out:
            raise SizingError(where, "appears twice in one object; which one is meant?")
        out[key] = _plain(value, where, depth + 1)
    return out
