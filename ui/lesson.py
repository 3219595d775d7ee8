"""The words of a page: one Markdown file, cut into named sections.

    # Title
    > The objective, one sentence.
    ## a-name
    Text of the section called "a-name".

Pages place sections; they hold no prose of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ui.paths import LESSONS


@dataclass(frozen=True, slots=True)
class Lesson:
    """title, objective, and the sections by name."""

    title: str
    objective: str
    sections: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.sections[name]


def parse(text: str) -> Lesson:
    """Cut a lesson file. Raises ValueError when it has no title or no objective."""
    title, objective = "", ""
    sections: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.splitlines():
        if line.startswith("# ") and not title:
            title = line[2:].strip()
        elif line.startswith("> ") and current is None:
            objective = f"{objective} {line[2:].strip()}".strip()
        elif line.startswith("## "):
            current = sections.setdefault(line[3:].strip(), [])
        elif current is not None:
            current.append(line)
    if not title or not objective:
        raise ValueError("a lesson begins with '# Title' and '> objective'")
    return Lesson(title, objective, {k: "\n".join(v).strip() for k, v in sections.items()})


@cache
def load(name: str) -> Lesson:
    """The lesson of a page, e.g. ``load("block_pool")``."""
    return parse((LESSONS / f"{name}.md").read_text(encoding="utf-8"))
