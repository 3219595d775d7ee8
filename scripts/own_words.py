"""Whether the course says anything in somebody else's words.

    python scripts/own_words.py SOURCE.txt [SOURCE.txt …]

Prints every run of eight words that lessons/ or quiz/ shares with a source, where it stands, and
exits with 1 if there is one. Case and punctuation do not count; a name like num_kv_heads is a word.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUN = 8
_WORD = re.compile(r"\w+(?:['’.]\w+)*")
_QUOTED = ("lessons/claims.json",)
"""What quotes a source on purpose, sentence by sentence, and credits it."""


def words(text: str) -> list[str]:
    """The words of a text, as they are compared."""
    return [word.lower().replace("’", "'") for word in _WORD.findall(text)]


def runs(text: str) -> dict[tuple[str, ...], int]:
    """Every run of eight words with its place, the first where it comes twice."""
    found = words(text)
    out: dict[tuple[str, ...], int] = {}
    for i in range(len(found) - RUN + 1):
        out.setdefault(tuple(found[i : i + RUN]), i)
    return out


def shared(text: str, sources: dict[str, set[tuple[str, ...]]]) -> Iterator[tuple[str, str]]:
    """(source, words) of every longest stretch that a text shares with a source."""
    found = words(text)
    for name, known in sources.items():
        i = 0
        while i + RUN <= len(found):
            if tuple(found[i : i + RUN]) not in known:
                i += 1
                continue
            end = i + RUN
            while end < len(found) and tuple(found[end - RUN + 1 : end + 1]) in known:
                end += 1
            yield name, " ".join(found[i:end])
            i = end


def texts(root: Path) -> Iterator[tuple[str, str]]:
    """(file, text) of all that the course says: Markdown as it is, of JSON every string."""
    for folder in ("lessons", "quiz"):
        for file in sorted((root / folder).rglob("*")):
            name = file.relative_to(root).as_posix()
            if name in _QUOTED or file.suffix not in (".md", ".json"):
                continue
            content = file.read_text(encoding="utf-8")
            yield (
                name,
                content if file.suffix == ".md" else "\n".join(_strings(json.loads(content))),
            )


def _strings(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        for value in content.values():
            yield from _strings(value)
    elif isinstance(content, list):
        for value in content:
            yield from _strings(value)


def main(arguments: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Find runs of eight words shared with a text.")
    parser.add_argument("source", nargs="+", type=Path, help="a text that must not be copied")
    asked = parser.parse_args(arguments)
    try:
        sources = {
            str(path): set(runs(path.read_text(encoding="utf-8", errors="replace")))
            for path in asked.source
        }
    except OSError as error:
        print(f"error: {error.filename} cannot be read: {error.strerror}", file=sys.stderr)
        return 2
    count = 0
    for name, text in texts(root):
        for source, run in shared(text, sources):
            print(f"{name}: {source}: {run}")
            count += 1
    print(f"{count} shared run{'s' if count != 1 else ''} of {RUN} words or more")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
