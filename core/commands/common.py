"""What all commands share: printing, and checking arguments."""

from __future__ import annotations

import argparse
import json
import sys
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


class ProgressLine:
    """Progress on standard error: a percentage on a terminal, else a line for each stage."""

    def __init__(self) -> None:
        self._shown: tuple[str, int] | None = None

    def report(self, stage: str, done: int, total: int) -> None:
        """done of total bytes of a stage."""
        percent = min(100, 100 * done // total) if total else 0
        if (stage, percent) == self._shown:
            return
        new_stage = self._shown is None or self._shown[0] != stage
        self._shown = (stage, percent)
        if sys.stderr.isatty():
            size = f"{total / 1e6:,.0f} MB" if total else ""
            start = "\n" if new_stage else "\r"
            print(f"{start}{stage} {percent:3d} % {size}", end="", file=sys.stderr, flush=True)
        elif new_stage:
            print(f"{stage} …", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Close the line on a terminal."""
        if self._shown is not None and sys.stderr.isatty():
            print(file=sys.stderr)


def prepare_model(model: str) -> None:
    """Convert a GGUF file now, with progress; anything else is left to whoever loads it."""
    if model.lower().endswith(".gguf"):
        from core.model.cache import load_path

        line = ProgressLine()
        load_path(model, progress=line.report)
        line.end()
