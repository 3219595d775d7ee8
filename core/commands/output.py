"""Printing, in one way for all commands."""

from __future__ import annotations

import json
from typing import Any


def print_json(value: Any) -> None:
    """JSON on standard output, keys in their own order."""
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
