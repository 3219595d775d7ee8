"""The numbers to know as the page shows them and as files. Every value is computed, none is kept
as text; what is computed is the same for every visitor."""

from __future__ import annotations

import csv
import io
from functools import cache
from typing import Any

from core.sizing import quick_reference
from core.sizing.quick_reference import Group
from ui import derivation

COLUMNS = ("group", "id", "name", "value", "unit", "shown", "scope", "computed by")


@cache
def groups() -> tuple[Group, ...]:
    """All numbers, computed once in a process (some 30 ms)."""
    return quick_reference.load()


@cache
def data() -> dict[str, Any]:
    """What the browser draws: groups with their numbers, each with its derivation."""
    return {
        "groups": [
            {
                "id": group.id,
                "title": group.title,
                "about": group.about,
                "numbers": [
                    {
                        "id": entry.id,
                        "name": entry.name,
                        "value": entry.shown,
                        "exact": derivation.number(entry.value, entry.base),
                        "scope": entry.scope,
                        "note": entry.note,
                        "claims": list(entry.claims),
                        "derived": derivation.of_value(entry.derived),
                    }
                    for entry in group.entries
                ],
            }
            for group in groups()
        ]
    }


def as_csv() -> str:
    """One number a row; value in the unit that the library answers in."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow(COLUMNS)
    for group in groups():
        for entry in group.entries:
            rows.writerow(
                (
                    group.title,
                    entry.id,
                    entry.name,
                    entry.value,
                    entry.base,
                    entry.shown,
                    entry.scope,
                    entry.derived.text,
                )
            )
    return out.getvalue()


def as_markdown() -> str:
    """The sheet as Markdown tables."""
    out = ["# Numbers to know", ""]
    for group in groups():
        out += [f"## {group.title}", "", group.about, "", "| number | value | scope |"]
        out += ["|---|---|---|"]
        out += [f"| {one.name} | {one.shown} | {one.scope} |" for one in group.entries]
        out.append("")
    return "\n".join(out)
