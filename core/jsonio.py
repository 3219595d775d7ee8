"""Reading JSON from people and networks: strict, bounded, and clear when it fails.

Standard `json` accepts NaN and lets a duplicate key win silently. Here each of these is one error,
and so are bytes that are not UTF-8 and nesting deeper than the interpreter can follow.
"""

from __future__ import annotations

import json
import math
from importlib import resources
from typing import Any

import jsonschema_rs

from core.errors import InputFileError


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise InputFileError(f"the key {key!r} appears twice in one object")
        out[key] = value
    return out


def _no_constant(name: str) -> Any:
    raise InputFileError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise InputFileError(f"the number {text[:40]} is too large")
    return value


def _integer(text: str) -> int:
    if len(text) > 40:  # also keeps clear of CPython's limit on converting long digit strings
        raise InputFileError(f"the number {text[:20]}… is too large")
    return int(text)


def loads(data: bytes | str) -> Any:
    """Parse JSON. Raises InputFileError for anything that is not strict JSON in UTF-8."""
    if isinstance(data, bytes):
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            raise InputFileError(f"not UTF-8 text: byte {exc.start} is invalid") from None
    else:
        text = data
    try:
        return json.loads(
            text,
            object_pairs_hook=_no_duplicates,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
    except RecursionError:
        raise InputFileError("nested too deeply") from None
    except json.JSONDecodeError as exc:
        raise InputFileError(
            f"not JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}"
        ) from None


def load_schema(name: str) -> dict[str, Any]:
    """One of the schemas that ship with the code, e.g. ``scenario-1``."""
    text = resources.files("core.trace").joinpath("schema", f"{name}.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def validator(name: str) -> Any:
    """A compiled validator of a schema that ships with the code."""
    return jsonschema_rs.validator_for(load_schema(name))


def said(error: jsonschema_rs.ValidationError) -> str:
    """A validator's message, with all choices where one had to be made: it names two of them."""
    options = getattr(error.kind, "options", None)
    if options is None:
        return str(error.message)
    given, *choices = (json.dumps(one, ensure_ascii=False) for one in (error.instance, *options))
    return f"{given} is not one of {', '.join(choices)}"


def keys(data: Any, path: list[Any]) -> list[Any]:
    """A validator's path with an object's keys as they are: it gives "0" as the number 0."""
    out: list[Any] = []
    for part in path:
        if isinstance(data, dict):
            if part not in data:
                alike = (key for key in data if key.isdecimal() and int(key) == part)
                part = next(alike, str(part))
            data = data.get(part)
        else:
            data = data[part] if isinstance(data, list) else None
        out.append(part)
    return out


def format_path(parts: list[Any]) -> str:
    """``["requests", 1, "n"]`` → ``requests[1].n``."""
    out = ""
    for part in parts:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            out += f".{part}" if out else str(part)
    return out
