"""Which safetensors files make up a checkpoint, and which tensors are in which. No torch.

Only headers are read here, never more of one than its file can hold.
"""

from __future__ import annotations

import json
from pathlib import Path

from core.model.config_fields import read_json_object, short
from core.model.errors import ModelConfigError, ModelFileError

INDEX = "model.safetensors.index.json"

_MAX_HEADER_BYTES = 64 << 20
_MAX_INDEX_BYTES = 64 << 20

_MALFORMED = (UnicodeDecodeError, json.JSONDecodeError, RecursionError, AttributeError, TypeError,
              LookupError)  # fmt: skip


def weight_files(directory: Path) -> list[Path]:
    """The files that are read: `model.safetensors`, else those that the index lists, else all.

    In that order, as transformers does: a repository may carry the same weights twice. Raises
    ModelFileError if there are none, or if one that the index lists is absent.
    """
    whole = directory / "model.safetensors"
    if whole.is_file():
        return [whole]
    if (directory / INDEX).is_file():
        files = [directory / name for name in sorted(set(_weight_map(directory).values()))]
        for path in files:
            if not path.is_file():
                raise ModelFileError(f"{INDEX} lists {path.name}, which is not in {directory.name}")
        return files
    files = sorted(directory.glob("*.safetensors"))
    if not files:
        raise ModelFileError(f"{directory.name} holds no .safetensors file")
    return files


def tensor_files(directory: Path) -> dict[str, Path]:
    """Tensor name → its file. Raises ModelFileError if a file is damaged, if a tensor is in two,
    or if the index and the files disagree."""
    file_of: dict[str, Path] = {}
    files = weight_files(directory)
    for path in files:
        for name in check_safetensors(path):
            if name in file_of:
                raise ModelFileError(
                    f"the tensor {name!r:.80} is in two files, {file_of[name].name} and {path.name}"
                )
            file_of[name] = path
    if files != [directory / "model.safetensors"] and (directory / INDEX).is_file():
        for name, file in _weight_map(directory).items():
            if name not in file_of or file_of[name].name != file:
                raise ModelFileError(
                    f"{INDEX} says that the tensor {name!r:.80} is in {file}, but it is not"
                )
    return file_of


def check_safetensors(path: Path) -> list[str]:
    """The names in a safetensors file whose header and length agree. Raises ModelFileError.

    Reads only the header, and never more than the file holds, whatever the length field says.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _MAX_HEADER_BYTES):
                raise ModelFileError(
                    f"{path.name} is damaged or truncated: {size:,} bytes cannot hold its header"
                )
            names, data_bytes = _parse_header(file.read(length))
    except OSError as error:
        raise ModelFileError(f"{path.name} cannot be read: {error.strerror or error}") from error
    except _MALFORMED as error:
        raise ModelFileError(f"{path.name} has a damaged header") from error
    if 8 + length + data_bytes != size:
        raise ModelFileError(
            f"{path.name} is truncated or damaged: its header describes "
            f"{8 + length + data_bytes:,} bytes, the file has {size:,}"
        )
    return names


def _parse_header(text: bytes) -> tuple[list[str], int]:
    """Tensor names, and where the last tensor's bytes end. Raises one of _MALFORMED."""
    header = json.loads(text)
    header.pop("__metadata__", None)
    if not header:
        raise LookupError("no tensors")
    ends = [entry["data_offsets"][1] for entry in header.values()]
    if not all(isinstance(end, int) for end in ends):
        raise TypeError("data_offsets")
    return list(header), max(ends)


def _weight_map(directory: Path) -> dict[str, str]:
    """The index's tensor name → file name. Raises ModelFileError."""
    try:
        value = read_json_object(directory / INDEX, _MAX_INDEX_BYTES).get("weight_map")
    except ModelConfigError as error:
        raise ModelFileError(str(error)) from error
    if not isinstance(value, dict) or not value:
        raise ModelFileError(f"{INDEX} has no weight_map")
    for file in value.values():
        # Names are joined to the directory: none may lead out of it.
        if (
            not isinstance(file, str)
            or Path(file).name != file
            or not file.endswith(".safetensors")
        ):
            raise ModelFileError(f"{INDEX} names {short(file)}, which is no .safetensors file name")
    return value
