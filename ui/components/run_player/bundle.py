"""Joins the component's ES modules into the one script that Streamlit takes.

Streamlit serves an inline component as a single module and offers no place for imports between
files. The files stay ordinary modules, so that node can load them in tests; here they are put one
after another, each after what it imports, with the import and export words taken off. All top-level
names therefore share one scope, and a name used twice is refused at once.
"""

from __future__ import annotations

import re
from pathlib import Path

_IMPORT = re.compile(r'^import\s*\{[^}]*\}\s*from\s*"(\.{1,2}/[\w./-]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)
_NAME = re.compile(
    r"^(?:export )?(?:default )?(?:async )?(?:function\*?|class|const|let|var) (\w+)", re.MULTILINE
)


def bundle(folder: Path, entry: str = "main.js") -> str:
    """The source of `entry` and of all it imports, as one module."""
    parts: list[str] = []
    seen: set[Path] = set()
    names: dict[str, str] = {}

    def add(path: Path) -> None:
        if path in seen:
            return
        seen.add(path)
        source = path.read_text(encoding="utf-8")
        for needed in _IMPORT.findall(source):
            add((path.parent / needed).resolve())
        for defined in _NAME.findall(source):
            if defined in names:
                raise ValueError(
                    f"{defined} is defined in {names[defined]} and again in {path.name}"
                )
            names[defined] = path.name
        body = _EXPORT.sub("", _IMPORT.sub("", source))
        if re.search(r"^import\b", body, re.MULTILINE):
            raise ValueError(f"{path.name}: only named imports from files beside it can be joined")
        parts.append(f"// --- {path.name}\n{_slim(body)}\n")

    add((folder / entry).resolve())
    return "\n".join(parts)


def _slim(source: str) -> str:
    """Without indentation, empty lines and lines of comment: every visitor waits for the rest.

    A file with a template over several lines stays as it is: its spaces may be part of a text.
    """
    lines = [line.strip() for line in source.splitlines()]
    lines = [line for line in lines if line and not line.startswith("//")]
    whole = any(line.count("`") % 2 for line in lines)
    return source.strip() if whole else "\n".join(lines)


def stylesheet(*files: Path) -> str:
    """The style sheets one after another."""
    return "\n".join(f.read_text(encoding="utf-8") for f in files)
