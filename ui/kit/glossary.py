"""The words of the field: `[[block table]]` in a lesson gets its definition on hover and focus.

[[KV heads]]            a term, or another form of one
[[block table|table]]   a term under another word

One term a file, lessons/glossary/SLUG.md:

    # block table
    also: block tables
    see: block_pool

    The list of a sequence's blocks in the order of its tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from ui.paths import LESSONS

FOLDER = LESSONS / "glossary"
_TERM = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]|]+))?\]\]")


@dataclass(frozen=True, slots=True)
class Term:
    """slug: the file's name. also: its other forms. see: the page that teaches it, or ""."""

    slug: str
    name: str
    also: tuple[str, ...]
    see: str
    meaning: str


def parse(slug: str, text: str) -> Term:
    """A term's file. Raises ValueError where it is not one."""
    head, _, meaning = text.strip().partition("\n\n")
    first, *more = head.splitlines() or [""]
    fields = dict(line.split(": ", 1) for line in more if ": " in line)
    if not first.startswith("# ") or not meaning or fields.keys() - {"also", "see"}:
        raise ValueError(f"glossary/{slug}.md: '# term', 'also:', 'see:', an empty line, a meaning")
    forms = (form.strip() for form in fields.get("also", "").split(","))
    return Term(
        slug,
        first[2:].strip(),
        tuple(form for form in forms if form),
        fields.get("see", "").strip(),
        " ".join(meaning.split()),
    )


@cache
def entries() -> tuple[Term, ...]:
    """Every term, in alphabetical order."""
    read = (parse(file.stem, file.read_text(encoding="utf-8")) for file in FOLDER.glob("*.md"))
    return tuple(sorted(read, key=lambda term: term.name.lower()))


@cache
def by_form() -> dict[str, Term]:
    """Every term under its name and under every other form of it."""
    return {form: term for term in entries() for form in (term.name, *term.also)}


def terms(markdown: str) -> list[str]:
    """The terms that a text names, in order."""
    return [found.group(1).strip() for found in _TERM.finditer(markdown)]


_SIGNS = str.maketrans({sign: f"&#{ord(sign)};" for sign in "&<>\"'\\`*_~$:[]|{}#"})
"""What HTML, Markdown, or Streamlit's kind of it, would take for something else."""


def _as_text(said: str) -> str:
    """Text that stays text within Markdown and HTML."""
    return said.translate(_SIGNS)


def hover(shown: str, said: tuple[str, ...], kind: str = "kv-term", more: str = "") -> str:
    """Text with something to say on hover and focus, as HTML. said: a thought a line; both are
    text and not markup. more: HTML behind it."""
    lines = "<br>".join(map(_as_text, said))
    return (
        f'<span class="{kind}" tabindex="0">{_as_text(shown)}'
        f'<span class="kv-def" role="tooltip">{lines}{more}</span></span>'
    )


def _listed(term: Term) -> str:
    """The way to where the term stands among all others, with the page that teaches it. Out of the
    order of Tab, which would stop twice at every term: by keyboard the map leads there."""
    address = f"course?view=terms&amp;term={term.slug}"
    return f' <a href="{address}" target="_self" tabindex="-1">Among all terms</a>'


def marked(markdown: str) -> str:
    """The text with every term turned into an element that carries its definition.

    The result holds HTML; lessons are files of the course and no visitor's. Raises KeyError for a
    term that the glossary does not have.
    """

    def element(found: re.Match[str]) -> str:
        term, shown = found.group(1).strip(), (found.group(2) or found.group(1)).strip()
        known = by_form()[term]
        return hover(shown, (known.meaning,), more=_listed(known))

    return _TERM.sub(element, markdown)
