"""Reads single fields of a parsed `config.json`: the type and range are checked, absurdity refused.

Every function raises ModelConfigError with the field's name and its value.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from core.model.errors import ModelConfigError

MAX_CONFIG_BYTES = 1 << 20

# Upper limits on sizes, well above any published model: a damaged file must end in an error here,
# not in an allocation of terabytes further on.
LIMITS = {
    "vocab_size": 1 << 22,
    "hidden_size": 1 << 17,
    "intermediate_size": 1 << 20,
    "num_hidden_layers": 1 << 10,
    "num_attention_heads": 1 << 12,
    "num_key_value_heads": 1 << 12,
    "head_dim": 1 << 12,
    "max_position_embeddings": 1 << 24,
    "original_max_position_embeddings": 1 << 24,
    "sliding_window": 1 << 24,
    "max_window_layers": 1 << 10,
}


def read_json_object(path: Path, max_bytes: int = MAX_CONFIG_BYTES) -> dict[str, Any]:
    """A JSON object from a file of bounded size. Raises ModelConfigError."""
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise ModelConfigError(f"{path.name} cannot be read: {error.strerror or error}") from error
    if len(data) > max_bytes:
        raise ModelConfigError(f"{path.name} is larger than {max_bytes:,} bytes")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelConfigError(f"{path.name} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelConfigError(f"{path.name} must hold a JSON object")
    return value


def short(value: Any) -> str:
    """A value as an error message shows it: never more than 60 characters of it."""
    return f"{value!r:.60}"


def size(raw: dict[str, Any], field: str, default: int | None = None, smallest: int = 1) -> int:
    """An integer in smallest … LIMITS[field]; null and absent give the default, if there is one."""
    value = raw.get(field)
    if value is None:
        value = default
    if value is None:
        raise ModelConfigError(f"config.json: {field} is missing")
    if isinstance(value, bool) or not isinstance(value, int):
        raise ModelConfigError(f"config.json: {field} must be an integer, not {short(value)}")
    if not smallest <= value <= LIMITS[field]:
        raise ModelConfigError(
            f"config.json: {field} is {short(value)}; it must be in {smallest} … {LIMITS[field]:,}"
        )
    return value


def number(raw: dict[str, Any], field: str, default: float | None, where: str = "") -> float:
    """A number in 1e-20 … 1e12; absent gives the default. where: of the object, for errors."""
    value = raw.get(field, default)
    if value is None and field not in raw:
        raise ModelConfigError(f"config.json: {where}{field} is missing")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1e-20 < value < 1e12:
        raise ModelConfigError(
            f"config.json: {where}{field} must be a positive number, not {short(value)}"
        )
    return float(value)


def flag(raw: dict[str, Any], field: str, default: bool = False) -> bool:
    """true or false; absent gives the default."""
    value = raw.get(field, default)
    if not isinstance(value, bool):
        raise ModelConfigError(f"config.json: {field} must be true or false, not {short(value)}")
    return value


def token_ids(raw: dict[str, Any], field: str) -> tuple[int, ...]:
    """One token id or a list of them."""
    value = raw.get(field)
    ids = [] if value is None else value if isinstance(value, list) else [value]
    for item in ids:
        if isinstance(item, bool) or not isinstance(item, int) or item < 0:
            raise ModelConfigError(f"config.json: {field} must hold token ids, not {short(item)}")
    return tuple(ids)


def dtype_name(raw: dict[str, Any]) -> str:
    """`dtype`, or as older files spell it `torch_dtype`."""
    name = raw.get("dtype", raw.get("torch_dtype")) or "float32"
    if name not in ("float32", "float16", "bfloat16"):
        raise ModelConfigError(f"config.json: dtype {short(name)} is not supported")
    return str(name)
