"""Show the code: the engine's own source, read from its file and never run."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from functools import cache

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
    """The source of e.g. ``"core.kv.manager:KVCacheManager.allocate_slots"``; None: not there.

    Nothing is imported: the engine's modules may need torch, which the app must not load.
    """
    module, _, attribute = target.partition(":")
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return None
    found: ast.AST = ast.parse(text)
    for name in attribute.split("."):
        inside = [one for one in ast.iter_child_nodes(found) if getattr(one, "name", "") == name]
        if not inside:
            return None
        found = inside[-1]
    if not isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return None
    first = min([found.lineno, *(one.lineno for one in found.decorator_list)])
    source = "\n".join(text.splitlines()[first - 1 : found.end_lineno])
    shown = path.relative_to(ROOT).as_posix()
    return Snippet(attribute, shown, first, inspect.cleandoc(f"\n{source}"))
