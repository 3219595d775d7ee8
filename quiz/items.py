"""What an item is once its numbers are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RIGHT = "right"


@dataclass(frozen=True, slots=True)
class Answer:
    """What an option says. aside: the same in another unit, or nothing."""

    text: str
    aside: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One product, factor by factor. changed: the factor that the misconception changes, or -1."""

    who: str  # "yours", "engine"
    factors: tuple[str, ...]
    equals: str
    changed: int = -1


@dataclass(frozen=True, slots=True)
class Proof:
    """Where the answer can be seen. page: where a run shows most of it, or a page that shows these
    numbers without one. link: parameters of that page; an "own" scenario is still a JSON object
    here. lines: misconception (or "right") → the product it amounts to. heads: query and KV heads
    to draw, or None."""

    link: Mapping[str, Any]
    lines: Mapping[str, Line] = field(default_factory=dict)
    heads: tuple[int, int] | None = None
    page: str = "block_pool"


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a generator gives: named values for the sentences, and an answer for "right" and for
    each misconception, computed from that misconception. sign: what makes these numbers these."""

    values: Mapping[str, Any]
    answers: Mapping[str, Answer]
    sign: str
    drawn: str = ""
    given: tuple[str, ...] = ()
    proof: Proof | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """key: "right" or the misconception. says: the misconception by name. fact: what is so."""

    key: str
    text: str
    aside: str
    says: str
    fact: str


@dataclass(frozen=True, slots=True)
class Item:
    """A question as it is asked. sign: equal for items with equal numbers, so that a fresh item can
    be told from one that was seen. options: shuffled, exactly one with the key "right"."""

    topic: str
    template: str
    seed: int
    sign: str
    question: str
    drawn: str
    given: tuple[str, ...]
    options: tuple[Option, ...]
    see: str
    proof: Proof

    def option(self, key: str) -> Option:
        """The option of that key. Raises KeyError."""
        for one in self.options:
            if one.key == key:
                return one
        raise KeyError(key)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(one.key for one in self.options)
