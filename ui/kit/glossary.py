"""The words of the field: `[[block table]]` in a lesson gets its definition on hover and focus.

[[KV heads]]            a term, or another form of one
[[block table|table]]   a term under another word
"""

from __future__ import annotations

import html
import json
import re
from functools import cache

from ui.paths import LESSONS

_TERM = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]|]+))?\]\]")


@cache
def definitions() -> dict[str, str]:
    """Every term, and every other form of it, with its definition."""
    loaded = json.loads((LESSONS / "glossary.json").read_text(encoding="utf-8"))
    out: dict[str, str] = {}
    for term, entry in loaded.items():
        for form in (term, *entry.get("also", [])):
            out[form] = entry["is"]
    return out


def terms(markdown: str) -> list[str]:
    """The terms that a text names, in order."""
    return [found.group(1).strip() for found in _TERM.finditer(markdown)]


def marked(markdown: str) -> str:
    """The text with every term turned into an element that carries its definition.

    The result holds HTML; lessons are files of the course and no visitor's. Raises KeyError for a
    term that the glossary does not have.
    """

    def element(found: re.Match[str]) -> str:
        term, shown = found.group(1).strip(), (found.group(2) or found.group(1)).strip()
        meaning = definitions()[term]
        return (
            f'<span class="kv-term" tabindex="0">{html.escape(shown)}'
            f'<span class="kv-def" role="tooltip">{html.escape(meaning)}</span></span>'
        )

    return _TERM.sub(element, markdown)
