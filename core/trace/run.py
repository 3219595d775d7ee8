"""Runs: what comes out of the engine, and the files that hold them.

A run is a header and one record per step (`schema/run-1.json`). Files are gzip JSON, written in one
piece and read with limits, so that a damaged, truncated or hostile file is one clear error.
"""

from __future__ import annotations

import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from core import jsonio
from core.errors import InputFileError, RunError, ScenarioError
from core.scenario import Scenario
from core.trace import reducer
from core.version import VERSION

Json = dict[str, Any]

MAX_COMPRESSED_BYTES = 64 * 1024 * 1024
MAX_BYTES = 128 * 1024 * 1024


@dataclass(slots=True)
class Run:
    """A scenario's run: LIVE, RECORDED or SIMULATED, all alike.

    header: scenario with defaults, label, source (device, dtype, model), versions, revision,
    recorded_at, host, prompts (token ids by request), token_text (display text by token id),
    eos_token_ids, kv_bytes_per_token, kv_cache_bytes (what the pool's tensors take; None without a
    model), kv_format (what a quantised cache stores; absent otherwise), sliding_window (tokens that
    every layer of the model sees; None: all). steps: JSON records. results: by sequence.
    """

    header: Json
    steps: list[Json]
    results: Json = field(default_factory=dict)

    @property
    def scenario(self) -> Scenario:
        return Scenario.from_dict(self.header["scenario"])

    def to_dict(self) -> Json:
        return {
            "schema": "run/1",
            "header": self.header,
            "steps": self.steps,
            "results": self.results,
        }

    def to_bytes(self) -> bytes:
        """The file's content. Equal runs give equal bytes: no time stamp in the gzip header."""
        text = json.dumps(self.to_dict(), separators=(",", ":"), ensure_ascii=False)
        # A lone surrogate (only a foreign file has one) becomes its JSON escape.
        return gzip.compress(text.encode("utf-8", "backslashreplace"), compresslevel=9, mtime=0)

    def write(self, path: str | Path) -> None:
        """Write a run file; an interrupted or failed write leaves the old file as it was.

        Raises InputFileError (no such folder, no permission, disk full).
        """
        _write_whole(Path(path), self.to_bytes())

    def states(self) -> Iterator[Json]:
        """The state after each step, from the events alone. Raises RunError."""
        return reducer.states(self.header, self.steps)


def check_writable(path: str | Path) -> None:
    """Find out before a long run whether its file can be written. Raises InputFileError."""
    target = Path(path).resolve()
    folder = target if target.is_dir() else target.parent
    if target.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputFileError(f"cannot write {path}: no file can be made in {folder}")


def _write_whole(path: Path, data: bytes) -> None:
    target = path.resolve()  # a link stays a link: what it points to is replaced
    temporary: str | None = None
    try:
        if target.exists() and not target.is_file():  # a pipe or a device cannot be replaced
            target.write_bytes(data)
            return
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp's 0600 would keep others from reading it
        os.replace(temporary, target)
        temporary = None
    except OSError as exc:
        raise InputFileError(f"cannot write {path}: {exc.strerror or exc}") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def output_tokens(run: Run) -> dict[str, list[int]]:
    """The tokens that each sequence has in the end."""
    tokens: dict[str, list[int]] = {}
    for record in run.steps:
        for event in record["events"]:
            if event["type"] == "token_sampled":
                tokens.setdefault(event["sequence"], []).append(event["token"])
            elif event["type"] == "forked" and event.get("copies_outputs"):
                first, *twins = event["sequences"]
                for twin in twins:
                    tokens[twin] = list(tokens.get(first, ()))
    return tokens


def make_header(
    *,
    scenario: Json,
    label: str,
    source: Json,
    prompts: dict[str, list[int]],
    token_text: dict[int, str],
    eos_token_ids: list[int],
    kv_bytes_per_token: int | None,
    kv_cache_bytes: int | None,
    kv_format: Json | None,
    sliding_window: int | None,
) -> Json:
    """A run's header; says where, when and by which code it was made."""
    versions = {"kv_scope": VERSION, "python": platform.python_version()}
    torch = sys.modules.get("torch")  # never imported here: a simulation must not load it
    if torch is not None:
        versions["torch"] = torch.__version__
    return {
        "scenario": scenario,
        "label": label,
        "source": source,
        "versions": versions,
        "revision": revision(),
        "recorded_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "host": host(),
        "prompts": prompts,
        "token_text": {str(token): text for token, text in token_text.items()},
        "eos_token_ids": eos_token_ids,
        "kv_bytes_per_token": kv_bytes_per_token,
        "kv_cache_bytes": kv_cache_bytes,
        **({} if kv_format is None else {"kv_format": kv_format}),
        "sliding_window": sliding_window,
    }


@cache
def host() -> Json:
    """The kind of machine, not its name."""
    cpu = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"os": f"{platform.system()} {platform.machine()}", "cpu": cpu, "cores": cores}


@cache
def revision() -> str | None:
    """The code's git revision, with + where files differ from it; None outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        head = _git(root, "rev-parse", "--short=7", "HEAD")
        changed = _git(
            root, "status", "--porcelain", "--untracked-files=no", "--", "core", "kernels"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments],
        capture_output=True,
        text=True,
        timeout=5,
        check=True,
    )
    return done.stdout.strip()


def read_run(path: str | Path) -> Run:
    """Read a run file. Raises RunError, with the file's name and one sentence."""
    name = Path(path).name
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_COMPRESSED_BYTES + 1)
    except OSError as exc:
        raise RunError(f"cannot read {path}: {exc.strerror or exc}") from None
    try:
        return parse_run(data)
    except RunError as exc:
        raise RunError(f"{name}: {exc}") from None


def parse_run(data: bytes, max_bytes: int = MAX_BYTES) -> Run:
    """A run from a file's bytes (gzip or plain JSON). Raises RunError.

    max_bytes: limit on the size after decompression; no more than that is ever held.
    """
    if len(data) > MAX_COMPRESSED_BYTES:
        raise RunError(f"more than {MAX_COMPRESSED_BYTES:,} bytes")
    if data[:2] == b"\x1f\x8b":
        data = _decompress(data, max_bytes)
    elif len(data) > max_bytes:
        raise RunError(f"more than {max_bytes:,} bytes")
    try:
        content = jsonio.loads(data)
    except InputFileError as exc:
        raise RunError(f"not a run: {exc}") from None
    return run_from_dict(content)


def _decompress(data: bytes, max_bytes: int) -> bytes:
    stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        out = stream.decompress(data, max_bytes + 1)
    except zlib.error:
        raise RunError("damaged: the compressed data cannot be read") from None
    if len(out) > max_bytes:
        raise RunError(f"more than {max_bytes:,} bytes after decompression")
    if not stream.eof:
        raise RunError("truncated: the compressed data ends too early")
    if stream.unused_data:
        raise RunError("damaged: something follows the compressed data")
    return out


@cache
def _validator() -> Any:
    return jsonio.validator("run-1")


def run_from_dict(content: Any) -> Run:
    """Check a run's JSON content. Raises RunError."""
    if not isinstance(content, dict) or content.get("schema") != "run/1":
        version = content.get("schema") if isinstance(content, dict) else None
        raise RunError(f'not a run: its schema is {str(version)[:40]!r}, not "run/1"')
    try:
        _validator().validate(content)
    except jsonschema_rs.ValidationError as error:
        path = jsonio.format_path(jsonio.keys(content, list(error.instance_path)))
        raise RunError(f"not a valid run: {path}: {str(error.message)[:200]}") from None
    except (ValueError, TypeError, OverflowError) as exc:  # not representable as JSON at all
        raise RunError(f"not a run: {exc}") from None
    header = dict(content["header"])
    try:
        header["scenario"] = Scenario.from_dict(header["scenario"]).to_dict()
    except ScenarioError as exc:
        raise RunError(f"not a valid run: header.scenario.{exc}") from None
    for index, record in enumerate(content["steps"]):
        if record["step"] != index:
            raise RunError(f"not a valid run: steps[{index}] says that it is step {record['step']}")
    return Run(header, content["steps"], content.get("results", {}))
