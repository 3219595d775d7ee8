"""A GGUF file of the user's own, as a model: converted once, into the cache or where it is told.

The cache knows a file by its path, size and time of change: reading a file of many gigabytes only
to name it would cost what the cache saves. A file that has changed is converted again, and takes
its predecessor's place.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from filelock import FileLock

from core.model.cache import (
    MANIFEST,
    Progress,
    check_manifest,
    manifest_source,
    models_dir,
    write_manifest,
)
from core.model.errors import ModelFileError, ModelNotFound
from core.model.install import (
    check_disk_space,
    plain_errors,
    remove_leftovers,
    work_directory,
)

CONVERTER = 1
"""Raised when a conversion comes to write something else: what was converted before is old then."""

_BESIDE_WEIGHTS = 64 << 20  # bytes left for the tokenizer and the rest


def converted(source: Path, progress: Progress | None = None) -> Path:
    """The cached model directory of a GGUF file; converts it if that was not done yet.

    progress: called with ("convert", done, total) in bytes. Raises ModelNotFound, ModelFileError
    for a damaged or unsupported file, ModelFetchError if the cache cannot be written.
    """
    origin = _origin(source)
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", source.stem).strip(".") or "model"
    digest = hashlib.sha256(str(source.resolve()).encode("utf-8", "surrogateescape")).hexdigest()
    target = models_dir() / "gguf" / f"{stem[:80]}-{digest[:10]}"
    if _is_current(target, origin):
        return target
    root = target.parent
    with plain_errors(f"converting {source.name}", 0, root):
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{target.name}.lock"):
            if not _is_current(target, origin):
                remove_leftovers(target)
                _convert(source, origin, target, progress)
    return target


def convert_to(source: Path, target: Path, progress: Progress | None = None) -> None:
    """Convert a GGUF file into a directory that is not there yet, or empty. Raises as `converted`,
    and ModelFileError if the directory holds anything."""
    origin = _origin(source)
    with plain_errors(f"converting {source.name}", 0, target.parent):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise ModelFileError(f"{target} is there already and not an empty directory")
        target.parent.mkdir(parents=True, exist_ok=True)
        _convert(source, origin, target, progress)


def _convert(source: Path, origin: dict[str, Any], target: Path, progress: Progress | None) -> None:
    from core.model.convert import convert, converted_bytes  # imports the gguf package

    num_bytes = converted_bytes(source) + _BESIDE_WEIGHTS
    with (
        plain_errors(f"converting {source.name}", num_bytes, target.parent),
        work_directory(target) as work,
    ):
        check_disk_space(source.name, num_bytes, work)
        model = work / "model"
        model.mkdir()
        sha256 = convert(source, model, progress or (lambda stage, done, total: None))
        if _origin(source) != origin:
            raise ModelFileError(f"{source} was changed while it was being converted")
        write_manifest(model, target.name, origin, {"model.safetensors": sha256})


def _origin(source: Path) -> dict[str, Any]:
    """What a file is known by."""
    try:
        if not source.is_file():
            raise ModelNotFound(f"there is no file {str(source)!r:.200}")
        status = source.stat()
    except OSError as error:
        raise ModelNotFound(
            f"{str(source)!r:.200} cannot be read: {error.strerror or error}"
        ) from error
    return {
        "file": source.name,
        "bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "converter": CONVERTER,
    }


def _is_current(target: Path, origin: dict[str, Any]) -> bool:
    if not (target / MANIFEST).is_file():
        return False
    try:
        check_manifest(target)
        return bool(manifest_source(target) == origin)
    except ModelFileError:
        return False
