"""Run a test's body in Triton's interpreter, in a process of its own.

The interpreter is chosen when triton is first imported, for the whole process, and cannot be undone
there. So the bodies run in one that is started with TRITON_INTERPRET=1 and lives as long as the
tests; each is still a test of its own here.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from tests.conftest import absent


@functools.cache
def _process() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=_one_thread)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)  # tensors of a few kilobytes


@contextmanager
def _surroundings() -> Iterator[None]:
    """What the process inherits, which the first submission starts: the interpreter, and nothing of
    this one's main module, which it would run again. A page that was tested before may stand there.
    """
    before, main = os.environ.get("TRITON_INTERPRET"), sys.modules["__main__"]
    os.environ["TRITON_INTERPRET"] = "1"
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        if before is None:
            del os.environ["TRITON_INTERPRET"]
        else:
            os.environ["TRITON_INTERPRET"] = before


def require_triton() -> None:
    for package in ("torch", "triton"):
        if importlib.util.find_spec(package) is None:
            absent(package, "pip install -r requirements.txt")


def interpreted(body: Callable[..., None]) -> Callable[..., None]:
    """The test, run there. Its arguments must be picklable; an AssertionError comes back."""

    @functools.wraps(body)
    def test(**arguments: Any) -> None:
        require_triton()
        with _surroundings():
            future = _process().submit(_run, body.__module__, body.__name__, arguments)
        future.result()

    return test


def _run(module: str, name: str, arguments: dict[str, Any]) -> None:
    getattr(importlib.import_module(module), name).__wrapped__(**arguments)


def end_process() -> None:
    if _process.cache_info().currsize:
        _process().shutdown()
