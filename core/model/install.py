"""Putting a model's directory into place: whole or not at all, and errors that a person can mend.

A model is made in a work directory beside its target, which is moved into place as the last act: an
interrupted or failed installation leaves nothing half done. A lock file lets one process at a time
make a model; the others wait, and find it done.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.model.errors import ModelFetchError

_WORK = ".making-"  # in the names of work directories
_CHOOSE = "choose another place with KV_SCOPE_CACHE"


@contextmanager
def work_directory(target: Path) -> Iterator[Path]:
    """A fresh directory beside `target`; what stands in its `model` in the end becomes `target`."""
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}{_WORK}", dir=target.parent))
    try:
        yield work
        if target.exists():  # an older directory steps aside, and goes with the work directory
            os.replace(target, work / "old")
        os.replace(work / "model", target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def remove_leftovers(target: Path) -> None:
    """Work directories of processes that were killed; for use under the target's lock."""
    for path in target.parent.iterdir():
        if path.name.startswith(f".{target.name}{_WORK}"):
            shutil.rmtree(path, ignore_errors=True)


def check_disk_space(name: str, num_bytes: int, work: Path) -> None:
    """Raises ModelFetchError if the disk has less than num_bytes left."""
    free = shutil.disk_usage(work).free
    if free < num_bytes:
        raise ModelFetchError(
            f"not enough disk space for {name}: {num_bytes / 1e6:.0f} MB are needed in "
            f"{work.parent}, {free / 1e6:.0f} MB are free. Free some, or {_CHOOSE}"
        )


@contextmanager
def plain_errors(name: str, num_bytes: int, root: Path) -> Iterator[None]:
    """Turn what the system raises into a ModelFetchError. num_bytes: needed below `root`."""
    try:
        yield
    except OSError as error:
        where = f"{root} ({_CHOOSE})"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ModelFetchError(
                f"the disk is full: {name} needs up to {num_bytes / 1e6:.0f} MB in {where}"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise ModelFetchError(f"cannot write to {where}: {error.strerror}") from error
        raise ModelFetchError(f"{where} cannot be used: {error.strerror or error}") from error
