"""Show the code: the engine's own source, read from where it runs."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ui.paths import ROOT


@dataclass(frozen=True, slots=True)
class Snippet:
    """path: relative to the project. line: where the source starts."""

    name: str
    path: str
    line: int
    source: str


@cache
def snippet(target: str) -> Snippet | None:
    """The source of e.g. ``"core.kv.manager:KVCacheManager.allocate_slots"``; None: not there."""
    module_name, _, attribute = target.partition(":")
    try:
        found: object = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
        source, line = inspect.getsourcelines(found)  # type: ignore[arg-type]
        file = inspect.getsourcefile(found)  # type: ignore[arg-type]
    except (ImportError, AttributeError, OSError, TypeError):
        return None
    if file is None:
        return None
    path = Path(file).resolve()
    shown = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return Snippet(attribute, shown, line, inspect.cleandoc("\n" + "".join(source)))
