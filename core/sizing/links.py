"""Links by name: what a rate is, who says so and when."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, TypeVar

from core.sizing import checks
from core.sizing.errors import SizingError
from core.sizing.result import ARITHMETIC

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Link:
    """bytes_per_s: one way. low, high: the range reported, if there is one. basis: "arithmetic"
    from a standard's signalling rate, or "literature", measured by someone on their machine."""

    name: str
    title: str
    bytes_per_s: float
    basis: str
    source: str
    date: str
    low: float | None = None
    high: float | None = None


def names() -> tuple[str, ...]:
    return tuple(_links())


def get(name: str, path: str = "link") -> Link:
    """A link by name. Raises SizingError with near matches."""
    return named(_links(), name, path, "link")


class Rate(NamedTuple):
    """A rate as a function took it: bytes/s, and what a result that uses it rests on."""

    bytes_per_s: float
    basis: str
    source: str
    notes: tuple[str, ...]


def rate(bandwidth: float | str, path: str = "bandwidth") -> Rate:
    """A rate in bytes/s, or the name of a link. Raises SizingError at `path`."""
    if not isinstance(bandwidth, str):
        return Rate(checks.positive(bandwidth, path), ARITHMETIC, "", ())
    link = get(bandwidth, path)
    notes = (
        ()
        if link.low is None
        else (f"reported: {link.low / 1e9:g} to {(link.high or link.low) / 1e9:g} GB/s",)
    )
    return Rate(link.bytes_per_s, link.basis, f"{link.source} ({link.date})", notes)


@cache
def _links() -> dict[str, Link]:
    return {row["name"]: Link(**row) for row in load("links")["links"]}


def load(name: str) -> dict[str, Any]:
    """One of the data files of this library."""
    text = resources.files("core.sizing").joinpath("data", f"{name}.json").read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def named(table: dict[str, T], name: str, path: str, what: str) -> T:
    if not isinstance(name, str) or name not in table:
        near = difflib.get_close_matches(str(name)[:60], table, 3)
        hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(table)}"
        raise SizingError(path, f"there is no {what} {str(name)[:40]!r}; {hint}")
    return table[name]
