"""What all commands share: printing, and checking arguments."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from core.errors import KVScopeError


def print_json(value: Any) -> None:
    """JSON on standard output, keys in their own order."""
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def positive(text: str) -> int:
    """An argument that is a whole number from 1 on."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def json_argument(text: str, path: str) -> dict[str, Any]:
    """A JSON object from the command line; `-` reads it from standard input. Bounded and strict."""
    if text == "-":
        return json_file(text, path)
    from core.sizing import config_json

    return config_json.parse(text, path)


def json_file(source: str, path: str) -> dict[str, Any]:
    """A JSON object from a file, or from standard input (`-`). Bounded and strict."""
    from core.sizing import config_json
    from core.sizing.errors import SizingError

    limit = config_json.MAX_BYTES
    try:
        if source == "-":
            data = sys.stdin.buffer.read(limit + 1) if sys.stdin else b""
        else:
            with Path(source).open("rb") as file:
                data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise SizingError(path, f"{source[:200]} cannot be read: {reason}") from None
    if len(data) > limit:
        raise SizingError(path, f"is larger than {limit:,} bytes")
    return config_json.read(data, path)


def add_gpu_options(parser: argparse.ArgumentParser) -> None:
    """Options of `core.model.load_runner.GpuSettings`."""
    parser.add_argument(
        "--gpu-memory-utilization",
        type=float,
        metavar="SHARE",
        help="on a GPU: as many blocks as fit into this share of its memory, 0 … 1",
    )
    parser.add_argument(
        "--enforce-eager", action="store_true", help="on a GPU: no CUDA graphs, for decode steps"
    )


def add_cache_options(parser: argparse.ArgumentParser) -> None:
    """What the KV cache stores, and in how many bytes."""
    parser.add_argument(
        "--kv-dtype",
        type=_kv_dtype,
        default="model",
        metavar="FORMAT",
        help="fp8, fp8_per_token_head, int8_per_token_head, or a JSON object (core/kv_spec.py)",
    )
    parser.add_argument(
        "--kv-cache-memory-bytes",
        type=positive,
        metavar="BYTES",
        help="of the KV pool: as many blocks as they hold",
    )


def _kv_dtype(text: str) -> Any:
    if not text.lstrip().startswith("{"):
        return text
    try:
        return json_argument(text, "kv_dtype")
    except KVScopeError as error:  # argparse says nothing of an error of a kind it does not know
        raise argparse.ArgumentTypeError(str(error)) from None


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
