"""What all commands share: printing, and checking arguments."""

from __future__ import annotations

import argparse
import json
from typing import Any


def print_json(value: Any) -> None:
    """JSON on standard output, keys in their own order."""
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def positive(text: str) -> int:
    """An argument that is a whole number from 1 on."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value
